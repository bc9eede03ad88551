"""``check --scheduler``: the URL at which kube-scheduler calls is that of the server."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import FITS, Tree, compared, run, write

from scheduler_files import BIND, CASES, CONFIGURATION, FILTER

pytestmark = pytest.mark.usefixtures("in_a_folder")

BASE = CASES[-1].file("/etc/kubernetes/scheduler.conf")
NAMED = [
    name
    for line in Path("/etc/hosts").read_text().splitlines()
    if (words := line.partition("#")[0].split()) and words[0] == "127.0.0.1"
    for name in words[1:]
]


def at_host(server: Tree, **extender: Any) -> Tree:
    return CONFIGURATION | {"server": server, "extender": extender}


def calling(url: str) -> Tree:
    return BASE | {"extenders": [FILTER | {"urlPrefix": url}, BIND | {"urlPrefix": url}]}


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ({}, "HTTP://LOCALHOST:8888/"),
        ({"host": "localhost"}, "http://127.0.0.1:8888"),
        ({"host": "localhost"}, "http://[::1]:8888"),
        ({"host": "::1"}, "http://localhost:8888"),
        ({"host": "::1"}, "http://[0:0:0:0:0:0:0:1]:8888"),
        ({"host": "127.0.0.2"}, "http://127.0.0.2:8888"),
        ({"port": 80, "path": "/v1"}, "http://localhost/v1/"),
        *(({}, f"http://{name}:8888") for name in NAMED),
    ],
)
def test_check_accepts_every_name_of_the_address_that_kubextend_listens_on(
    server: Tree, url: str
) -> None:
    result = compared(at_host(server), calling(url))
    assert FITS in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ({}, "http://127.0.0.2:8888"),
        ({}, "http://[::1]:8888"),
        ({"host": "127.0.0.2"}, "http://localhost:8888"),
        ({}, "http://localhost:8889"),
        ({}, "http://localhost"),
        ({}, "http://localhost:8888/v1"),
        ({}, "https://localhost:8888"),
        ({}, "http://name.invalid:8888"),
        ({}, "http://[:8888"),
    ],
)
def test_check_refuses_a_url_at_which_kubextend_does_not_answer(server: Tree, url: str) -> None:
    result = compared(at_host(server), calling(url))
    assert result.exit_code == 1
    assert "urlPrefix" in result.stderr


def test_check_refuses_another_name_in_the_url_where_a_certificate_is_judged_by_it() -> None:
    server = {"tls": {"certFile": "server.crt", "keyFile": "server.key"}}
    ours = at_host(server, urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"})
    theirs = calling("https://localhost:8888")
    for entry in theirs["extenders"]:
        entry |= {"enableHTTPS": True, "tlsConfig": {"caFile": "/ca"}}
    judged = "tlsConfig.serverName: the server's certificate is judged by another name"
    assert judged in compared(ours, theirs).stderr
    for entry in theirs["extenders"]:
        entry["tlsConfig"]["serverName"] = "127.0.0.1"
    assert FITS in compared(ours, theirs).stdout


def test_scheduler_config_takes_a_url_in_upper_case_for_https() -> None:
    ours = at_host({}, urlPrefix="HTTPS://kubextend.example:8888", tlsConfig={"caFile": "/ca"})
    done = run("scheduler-config", "--config", write(Path("kubextend.yaml"), ours))
    written = yaml.safe_load(done.stdout)
    assert written["extenders"][0]["enableHTTPS"] is True
    assert FITS in compared(ours, written).stdout
