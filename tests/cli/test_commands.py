"""The commands as a shell sees them: what is printed where, and the exit code."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import configuration, enabled, profile, run, said, write

from kubextend import __version__

Golden = Callable[[str, str], None]
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


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            {"filters": [{"nodeSelector": "a=b"}]},
            "error: profiles[0].pluginConfig[0].args.filters[0].reason: Required value",
        ),
        (
            {"scores": [{"nodeSelector": "a=b", "score": 101}]},
            "error: profiles[0].pluginConfig[0].args.scores[0].score: must be at most 100",
        ),
        (
            {"scores": [{"nodeSelector": "a", "score": at} for at in (60, 41)]},
            (
                "error: profiles[0].pluginConfig[0].args: the scores add up to 101; a node that "
                "matches all of them must stay within 100: use smaller scores and a weight for the "
                "plugin"
            ),
        ),
    ],
)
def test_check_reports_what_is_wrong_with_a_plugins_arguments(
    args: Any, line: str, config: Callable[..., Path]
) -> None:
    entry = {"name": "LabelMatch", "args": args}
    file = config(profiles=[{**ML, "pluginConfig": [entry]}])
    assert run("check", file).stderr.splitlines()[0] == line


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


@pytest.mark.parametrize("command", ["serve", "scheduler-config", "doctor", "admission"])
def test_a_file_that_is_no_option_is_answered_with_the_option(command: str) -> None:
    refused = run(command, "kubextend.yaml")
    assert refused.exit_code == 2
    words = "unexpected argument kubextend.yaml: name a file with --config kubextend.yaml"
    assert words in refused.stderr


@pytest.mark.parametrize("given", [("--config", "f.yaml"), ("--config=f.yaml",)])
def test_check_says_that_it_takes_the_file_without_an_option(given: tuple[str, ...]) -> None:
    refused = run("check", *given)
    assert refused.exit_code == 2
    assert "check takes the FILE itself, without --config" in refused.stderr


def test_scheduler_config_and_check_need_no_file_of_the_machine_where_it_will_run(
    config: Callable[..., Path],
) -> None:
    server = {"tls": {"certFile": "/nowhere/tls.crt", "keyFile": "/nowhere/tls.key"}}
    ca = {"tlsConfig": {"caFile": "/etc/kubernetes/ca.crt"}}
    file = config(server=server, extender=ca)
    written = run("scheduler-config", "--config", file)
    assert (written.exit_code, written.stderr) == (0, "")
    assert yaml.safe_load(written.stdout)["extenders"][0]["enableHTTPS"] is True
    assert run("check", file).exit_code == 0


@pytest.mark.slow
def test_python_runs_the_command_as_a_module_and_help_loads_little() -> None:
    ran = [sys.executable, "-m", "kubextend", "--version"]
    done = subprocess.run(ran, capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout == f"kubextend, version {__version__}\n"
    code = (
        "import sys; from kubextend import cli; cli.main(['--help'], standalone_mode=False); "
        "print(sorted({'starlette', 'uvicorn', 'kubernetes', 'pydantic', 'yaml'} & {*sys.modules}))"
    )
    helped = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
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
        assert served.stdout is not None
        assert served.stdout.readline() == f"listening on http://localhost:{port}/\n"
        note = "cluster: empty, so there is no access to the API; {} switches it on"
        assert note in (tmp_path / "log").read_text()
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate()
    assert served.returncode == 0
