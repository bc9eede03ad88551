"""Kubeconfigs and proxies that kubextend cannot use, and proxies that it can."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.guarded_api import (
    COMMANDS,
    Guarded,
    assert_one_sentence,
    configuration,
    said_by,
    ungate,
)
from tests.doors.command_line import run
from tests.doors.configurations import write_kubeconfig
from tests.e2e.exec_plugin import SECRET


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Guarded]:
    scripted = Guarded(tmp_path)
    scripted.up()
    yield scripted
    scripted.down()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kube.config"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


NOT_LISTED = "does not list clusters, contexts and users"
NO_SERVER = "needs `server: https://...`"
MISPLACED = {"name": "there", "token": SECRET}
# More of them are in test_cluster_credentials.py.
UNUSABLE: dict[str, tuple[Any, str]] = {
    "no YAML": ("clusters: [", "while parsing"),
    "a list": ("- a\n- b\n", NOT_LISTED),
    "binary": (b"\x80\xff\x00", "cannot be used"),
    "no names": ({"users": [{"user": {"token": SECRET}}]}, NOT_LISTED),
    "no context": ({"current-context": ""}, "it has no context ''"),
    "unknown user": ({"users": []}, "it has no user 'me'"),
    "a secret where it does not belong": ({"clusters": [MISPLACED]}, NO_SERVER),
    "CA unreadable": ({"cluster": {"certificate-authority": "kube.config"}}, "config cannot be"),
    "CA no PEM": ({"cluster": {"certificate-authority-data": "YWJj"}}, "used as certificate"),
    "no URL": ({"cluster": {"server": "https://["}}, "cannot be used"),
    "no port": ({"cluster": {"server": "https://a:b"}}, NO_SERVER),
}


@pytest.mark.parametrize(
    ("name", "case"),
    [("ungate", case) for case in UNUSABLE]
    + [(name, case) for name in COMMANDS for case in ("no YAML", "unknown user", "CA unreadable")],
)
def test_a_kubeconfig_that_nobody_can_use_is_told_in_a_sentence(
    file: Path, name: str, case: str
) -> None:
    wrong, said = UNUSABLE[case]
    more = wrong if isinstance(wrong, dict) else {}
    write_kubeconfig(file, "https://127.0.0.1:1", SECRET, **more)
    if not more:
        file.write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())
    output = said_by(name, file)
    assert f"kubeconfig {file}" in output
    assert said in output


BEHIND_SOCKS = f"socks5h://me:{SECRET}@proxy.example:1080"


NO_PROXY_URL = (
    "the proxy for the API needs a URL with http:// or https://: look at proxy-url of the"
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_that_it_cannot_use_a_proxy(file: Path, name: str) -> None:
    cluster = {"proxy-url": BEHIND_SOCKS}
    write_kubeconfig(file, "https://10.0.0.1:6443", "good", cluster=cluster)
    assert NO_PROXY_URL in said_by(name, file)


@pytest.mark.parametrize(
    "proxy",
    [
        "SOCKS5H://proxy.example",
        "socks4://proxy.example",
        f"socks5h://me:{SECRET}/@{SECRET}@proxy.example:1",
        f"me:{SECRET}@proxy.example:3128",
        "10.0.0.1:3128",
        "http://",
        "http://proxy.example:port",
        "ftp://proxy.example",
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_without_its_user(file: Path, proxy: str) -> None:
    write_kubeconfig(file, "https://10.0.0.1:6443", {}, cluster={"proxy-url": proxy})
    assert_one_sentence(ungate(file), NO_PROXY_URL)


def test_a_proxy_that_is_not_for_the_api_is_of_no_interest(
    api: Guarded, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.example:1080")
    api.kubeconfig({"token": "good"})
    assert ungate(file).exit_code == 0
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    assert ungate(file).exit_code == 1
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.0/8")
    assert ungate(file).exit_code == 0
    # A check asks no API.
    monkeypatch.delenv("NO_PROXY")
    done = run("check", configuration(file))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("setting", ["proxy-url", "HTTP_PROXY", "all_proxy"])
def test_the_api_is_reached_by_an_http_proxy_that_wants_a_password(
    api: Guarded, file: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    proxy = f"http://me:p%40ss@127.0.0.1:{api.port}"
    cluster = {"proxy-url": proxy} if setting == "proxy-url" else {}
    if setting != "proxy-url":
        monkeypatch.setenv(setting, proxy)
    # The scripted API stands for the proxy and for the API.
    done = ungate(write_kubeconfig(file, "http://kube.invalid", "good", cluster=cluster))
    assert done.exit_code == 0, done.output
    _, path, headers, _ = api.requests[-1]
    assert path.startswith("http://kube.invalid/api/v1/pods")
    password = f"Basic {base64.b64encode(b'me:p@ss').decode()}"
    assert {key.lower(): value for key, value in headers.items()}["proxy-authorization"] == password


def test_a_proxy_that_is_not_there_is_told_without_its_password(file: Path) -> None:
    cluster = {"proxy-url": f"http://me:{SECRET}@127.0.0.1:1"}
    write_kubeconfig(file, "https://kube.invalid", "x", cluster=cluster)
    assert_one_sentence(ungate(file), "GET /api/v1/pods: ")
