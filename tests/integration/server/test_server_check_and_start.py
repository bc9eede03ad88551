"""What ends ``serve`` at its start is found by ``check``, where it shows on this machine."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from server_certificates import Authority

from kubextend import cli

# A start takes a second, and longer than a minute on a machine that has much else to do.
PATIENT_S = 300
SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve", "--config"]
FILTER = {"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}
GANG = {
    "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
    "schedulerName": "default-scheduler",
}
KUBECONFIG = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
Sections = dict[str, Any]


def tls(folder: Path, **files: str) -> Sections:
    authority = Authority(folder, "ca")
    pair = authority.sign("server")
    authority.sign("other")
    authority.sign("expired", lasts=timedelta(days=-1))
    (folder / "text").write_text("no certificate\n")
    good = {"certFile": pair.cert_file, "keyFile": pair.key_file, "clientCAFile": authority.file}
    given = {name: folder / file for name, file in files.items()}
    return {"server": {"tls": {name: str(file) for name, file in (good | given).items()}}}


def tokens(folder: Path, content: str) -> Sections:
    (folder / "tokens").write_text(content)
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    return {
        "server": {"waitingPods": {"tokenFile": str(folder / "tokens")}},
        "cluster": {"kubeconfig": str(folder / "kubeconfig")},
        "profiles": [GANG],
    }


def kubeconfig(folder: Path, content: object, **more: str) -> Sections:
    (folder / "kubeconfig").write_text(content if isinstance(content, str) else json.dumps(content))
    return {"cluster": {"kubeconfig": str(folder / "kubeconfig"), **more}}


# How the sections of a configuration come to be, and what both commands say of them.
BROKEN: dict[str, tuple[Callable[[Path], Sections], str]] = {
    "no certificate": (lambda folder: tls(folder, certFile="text"), "TLS certificate"),
    "certificate and key in each other's place": (
        lambda folder: tls(folder, certFile="server.key", keyFile="server.crt"),
        "server.key has no certificate, which certFile has to hold as PEM",
    ),
    "no key": (
        lambda folder: tls(folder, keyFile="server.crt"),
        "server.crt has no private key, which keyFile has to hold as PEM",
    ),
    "another key": (lambda folder: tls(folder, keyFile="other.key"), "TLS certificate"),
    "an expired certificate": (
        lambda folder: tls(folder, certFile="expired.crt", keyFile="expired.key"),
        "certificate has expired",
    ),
    "no client CA": (lambda folder: tls(folder, clientCAFile="text"), "TLS client CA"),
    "no token": (lambda folder: tokens(folder, " \n"), "holds no token"),
    "a short token": (lambda folder: tokens(folder, "abc\n"), "has a token of 3 characters"),
    "a comment": (lambda folder: tokens(folder, "# ours\n"), "has a comment in line 1"),
    "no kubeconfig": (lambda folder: kubeconfig(folder, "a: [\n"), "cannot be used"),
    "an empty kubeconfig": (lambda folder: kubeconfig(folder, ""), "cannot be used"),
    "no such context": (
        lambda folder: kubeconfig(folder, KUBECONFIG, context="there"),
        "cannot be used",
    ),
    "no such cluster": (
        lambda folder: kubeconfig(folder, {**KUBECONFIG, "clusters": []}),
        "cannot be used",
    ),
    "one port twice": (
        lambda _: {"server": {"host": "0.0.0.0", "healthHost": "127.0.0.1", "insecure": True}},
        "must not be the port of the verbs",
    ),
    "the loopback twice": (
        lambda _: {"server": {"host": "127.0.0.1", "healthHost": "localhost"}},
        "must not be the port of the verbs",
    ),
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def written(folder: Path, sections: Sections) -> Path:
    server = {"port": free_port(), **sections.get("server", {})}
    if "healthHost" in server:
        server["healthPort"] = server["port"]
    config = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "profiles": [FILTER],
        **sections,
        "server": server,
    }
    file = folder / "kubextend.yaml"
    file.write_text(json.dumps(config))
    return file


@pytest.mark.parametrize(("sections", "sentence"), BROKEN.values(), ids=BROKEN)
def test_what_ends_serve_at_its_start_is_said_by_check(
    tmp_path: Path, sections: Callable[[Path], Sections], sentence: str
) -> None:
    file = written(tmp_path, sections(tmp_path))
    checked = CliRunner().invoke(cli.main, ["check", str(file)])
    assert checked.exit_code == 1
    assert sentence in checked.stderr
    assert "error: " in checked.stderr
    served = subprocess.run(
        [*SERVE, file], capture_output=True, text=True, timeout=PATIENT_S, check=False
    )
    assert served.returncode == 1
    assert sentence in served.stderr
    assert "Traceback" not in served.stderr


GOOD: dict[str, Callable[[Path], Sections]] = {
    "certificates": tls,
    "tokens": lambda folder: tokens(folder, "0123456789abcdef\n"),
    "a kubeconfig": lambda folder: kubeconfig(folder, KUBECONFIG),
    "files that are elsewhere": lambda folder: {
        "server": {"tls": {"certFile": "/nowhere/crt", "keyFile": "/nowhere/key"}},
        "cluster": {"kubeconfig": "/nowhere/kubeconfig"},
    },
    "two addresses": lambda _: {"server": {"host": "127.0.0.1", "healthHost": "127.0.0.2"}},
}


@pytest.mark.parametrize("sections", GOOD.values(), ids=GOOD)
def test_what_is_good_or_elsewhere_passes(
    tmp_path: Path, sections: Callable[[Path], Sections]
) -> None:
    file = written(tmp_path, sections(tmp_path))
    checked = CliRunner().invoke(cli.main, ["check", str(file)])
    assert checked.exit_code == 0, checked.output


NAME = "kubextend.example.svc"


# A client in Go finds a name among the DNS names of subjectAltName, and an address among its IP
# addresses.
@pytest.mark.parametrize(
    ("url", "server_name", "dns_names", "refused"),
    [
        ("https://127.0.0.1:8888", None, [], ""),
        (f"https://{NAME}:8888", None, [NAME], ""),
        (f"https://{NAME}:8888", None, [], NAME),
        ("https://127.0.0.2:8888", None, [], "127.0.0.2"),
        ("https://127.0.0.2:8888", NAME, [NAME], ""),
        ("https://127.0.0.1:8888", NAME, ["other.svc"], NAME),
        (f"http://{NAME}:8888", None, [], ""),
    ],
)
def test_check_warns_of_a_certificate_that_kube_scheduler_will_refuse(
    tmp_path: Path, url: str, server_name: str | None, dns_names: list[str], refused: str
) -> None:
    authority = Authority(tmp_path, "ca")
    # The common name is right, and counts for nothing.
    pair = authority.sign(NAME, *dns_names)
    tls_config = {"caFile": str(authority.file)}
    if server_name is not None:
        tls_config["serverName"] = server_name
    sections = {
        "server": {"tls": {"certFile": str(pair.cert_file), "keyFile": str(pair.key_file)}},
        "extender": {"urlPrefix": url, "tlsConfig": tls_config},
    }
    file = written(tmp_path, sections)
    checked = CliRunner().invoke(cli.main, ["check", str(file)])
    assert checked.exit_code == 0, checked.output
    warned = [line for line in checked.stderr.splitlines() if "certificate" in line]
    assert bool(warned) == bool(refused)
    for line in warned:
        assert f"kube-scheduler will refuse the certificate {pair.cert_file}" in line
        assert f"Put {refused} into its subjectAltName" in line


# The files of extender.tlsConfig, and what check says of them.
CLIENTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "good": ({}, []),
    "elsewhere": ({"certFile": "/nowhere/crt", "keyFile": "/nowhere/key", "caFile": "/no/ca"}, []),
    "another's key": (
        {"keyFile": "server.key"},
        ["kube-scheduler cannot use extender.tlsConfig.certFile and keyFile"],
    ),
    "certificate and key in each other's place": (
        {"certFile": "client.key", "keyFile": "client.crt"},
        ["client.key has no certificate, which certFile has to hold"],
    ),
    "of another CA": (
        {"certFile": "unknown.crt", "keyFile": "unknown.key"},
        ["the server will refuse extender.tlsConfig.certFile"],
    ),
    "for servers": (
        {"certFile": "for-servers.crt", "keyFile": "for-servers.key"},
        ["unsuitable certificate purpose"],
    ),
    "expired": ({"certFile": "late.crt", "keyFile": "late.key"}, ["certificate has expired"]),
    "another CA": (
        {"caFile": "stranger.pem"},
        ["has to hold the CA that signed the certificate"],
    ),
    "no CA": ({"caFile": "client.key"}, ["kube-scheduler cannot use extender.tlsConfig.caFile"]),
    "all at once": (
        {"caFile": "stranger.pem", "keyFile": "server.key"},
        ["kube-scheduler cannot use", "kube-scheduler will refuse the certificate"],
    ),
}


@pytest.mark.parametrize(("files", "sentences"), CLIENTS.values(), ids=CLIENTS)
def test_check_warns_of_client_files_that_do_not_fit_the_server(
    tmp_path: Path, files: dict[str, str], sentences: list[str]
) -> None:
    sections = tls(tmp_path)
    authority, stranger = Authority(tmp_path, "ca-2"), Authority(tmp_path, "stranger")
    authority.sign("client", for_servers=False)
    authority.sign("for-servers", for_clients=False)
    authority.sign("late", lasts=timedelta(days=-1))
    stranger.sign("unknown")
    sections["server"]["tls"]["clientCAFile"] = str(authority.file)
    good = {"certFile": "client.crt", "keyFile": "client.key", "caFile": "ca.pem"}
    given = {name: str(tmp_path / file) for name, file in (good | files).items()}
    sections["extender"] = {"tlsConfig": given}
    checked = CliRunner().invoke(cli.main, ["check", str(written(tmp_path, sections))])
    assert checked.exit_code == 0, checked.output
    warned = [line for line in checked.stderr.splitlines() if "tlsConfig" in line]
    assert len(warned) == len(sentences)
    for line, sentence in zip(warned, sentences, strict=True):
        assert sentence in line


@pytest.mark.parametrize("url", [None, "https://127.0.0.1:8888"])
def test_check_notes_a_client_certificate_that_scheduler_config_will_ask_for(
    tmp_path: Path, url: str | None
) -> None:
    sections = tls(tmp_path)
    sections["extender"] = {
        "urlPrefix": url,
        "tlsConfig": {"caFile": sections["server"]["tls"]["clientCAFile"]},
    }
    checked = CliRunner().invoke(cli.main, ["check", str(written(tmp_path, sections))])
    for field in ("certFile", "keyFile"):
        assert f"note: extender.tlsConfig.{field}: not set" in checked.stdout


def test_check_runs_no_command_of_a_kubeconfig(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = {"command": "touch", "args": [str(ran)], "apiVersion": "v1", "env": None}
    users = [{"name": "u", "user": {"exec": program}}]
    file = written(tmp_path, kubeconfig(tmp_path, {**KUBECONFIG, "users": users}))
    assert CliRunner().invoke(cli.main, ["check", str(file)]).exit_code == 0
    assert not ran.exists()


def test_check_says_all_of_it_at_once(tmp_path: Path) -> None:
    sections = tokens(tmp_path, "abc\n") | kubeconfig(tmp_path, "")
    sections["server"] |= tls(tmp_path, certFile="text")["server"]
    file = written(tmp_path, sections)
    checked = CliRunner().invoke(cli.main, ["check", str(file)])
    paths = [line.split(": ")[1] for line in checked.stderr.splitlines() if line[:5] == "error"]
    assert paths == ["server.tls", "server.waitingPods.tokenFile", "cluster"]
