"""The commands as a shell sees them: what is printed where, and the exit code."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import Golden, configuration, enabled, profile, run, said, write

from kubextend import __version__

LABEL_MATCH = {
    "filters": [{"nodeSelector": "disk != slow", "reason": "Disk is slow"}],
    "scores": [
        {"nodeSelector": "zone=a", "score": 30},
        {"nodeSelector": "disk in (ssd, nvme)", "score": 70},
    ],
}
ML = {
    **profile("ml", multiPoint=enabled(("LabelMatch", 2)), filter="HighCommPodFilter"),
    "pluginConfig": [{"name": "LabelMatch", "args": LABEL_MATCH}],
}
SECTIONS: dict[str, Any] = {"profiles": [ML, {"schedulerName": "idle"}]}
COUNTING = [
    profile("gangs", multiPoint="Coscheduling", preEnqueue={"disabled": [{"name": "*"}]}),
    profile("plain", filter="HighCommPodFilter"),
]
IDLE = "no profile enables a plugin, so kubextend answers 404 to every verb"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a configuration."""
    return lambda **sections: write(tmp_path / "c.yaml", configuration(**{**SECTIONS, **sections}))


def test_check_says_what_a_right_file_runs(golden: Golden, config: Callable[..., Path]) -> None:
    told = [
        said(run("check", config(**sections)))
        for sections in (
            {},
            {"cluster": {"context": "dev"}, "extender": {"httpTimeout": "20s"}},
            {"cluster": {}, "guard": {"resources": True}},
            {"cluster": {}, "profiles": COUNTING},
            {"cluster": {}, "profiles": COUNTING, "server": {"lease": {}}},
            {"profiles": [{"schedulerName": "idle"}]},
        )
    ]
    golden("cli/check.txt", "\n".join(told))


def test_a_configuration_that_serves_nothing_is_said_to(config: Callable[..., Path]) -> None:
    assert f"warning: {IDLE}\n" in run("check", config(profiles=[{}])).stderr
    queue = config(cluster={}, profiles=[profile(queueSort="QOSSort")])
    assert IDLE not in run("check", queue).stderr


def test_a_wrong_value_of_an_option_is_told_under_the_name_of_the_option(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    unreadable = f'cannot be read: No such file or directory\n  found: "{gone}"\n'
    given = run("serve", "--config", config(), f"--kubeconfig={gone}")
    assert f"error: --kubeconfig: {unreadable}" in given.stderr
    given = run("serve", "--config", config(), "--host=a b")
    assert "error: --host: must be an address" in given.stderr
    in_file = run("serve", "--config", config(cluster={"kubeconfig": str(gone)}), "--port=9999")
    assert f"error: cluster.kubeconfig: {unreadable}" in in_file.stderr


@pytest.mark.parametrize(
    "words", ["nothing", "check", "serve --port=0", "filter x --output=xml", "--no"]
)
def test_a_wrong_use_ends_with_2(words: str) -> None:
    assert run(*words.split()).exit_code == 2


TAKES_OPTION = "unexpected argument f.yaml: name a file with --config f.yaml"
TAKES_FILE = "check takes the FILE itself, without --config"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((f"{it} f.yaml", TAKES_OPTION) for it in ("serve", "scheduler-config", "doctor")),
        *((f"check --config{sign}f.yaml", TAKES_FILE) for sign in " ="),
    ],
)
def test_a_file_that_is_named_in_another_way_is_answered_with_the_right_way(
    words: str, said: str
) -> None:
    refused = run(*words.split())
    assert (refused.exit_code, said in refused.stderr) == (2, True)


@pytest.mark.slow
def test_python_runs_the_command_as_a_module_and_help_loads_little() -> None:
    ran = [sys.executable, "-m", "kubextend", "--version"]
    done = subprocess.run(ran, capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout == f"kubextend, version {__version__}\n"
    code = (
        "import sys; from kubextend import cli; cli.main(['--help'], standalone_mode=False); "
        "print(sorted({'starlette', 'uvicorn', 'kubernetes', 'pydantic', 'yaml'} & {*sys.modules}))"
    )
    ran = [sys.executable, "-c", code]
    helped = subprocess.run(ran, check=True, capture_output=True, text=True)
    assert helped.stdout.startswith("Usage: ")
    assert helped.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_serve_puts_its_options_over_the_file_and_logs_the_notes(
    config: Callable[..., Path], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    file = config(server={"host": "127.0.0.1", "port": 1}, cluster=None)
    options = ["--config", file, "--host", "localhost", "--port", str(port)]
    command = [sys.executable, "-m", "kubextend", "serve", *options]
    with (tmp_path / "log").open("w") as log:
        served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert served.stdout.readline() == f"listening on http://localhost:{port}/\n"
        note = "cluster: empty, so there is no access to the API; {} switches it on"
        assert note in (tmp_path / "log").read_text()
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate()
    assert served.returncode == 0
