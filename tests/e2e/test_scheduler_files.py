"""kube-scheduler starts with exactly those files that ``kubextend check --scheduler`` accepts.

That holds for the form of the file, its extenders and the names of its profiles.

What ``check`` says of each file is in tests/config/test_check_scheduler.py.
"""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubextend.cli import main
from scheduler_files import CASES, CONFIGURATION, Case

from .controlplane import ControlPlane
from .kubeapi import Object

STARTS = "starting kubernetes scheduler"
# The times of a lease are checked when the informers have synced.
STANDS_FOR_ELECTION = "attempting to acquire leader lease"


def why_ended(kube_scheduler: Path, file: Object, path: Path) -> str:
    """Start kube-scheduler with a file until it runs; return why it ended, or an empty text."""
    path.write_text(json.dumps(file))
    elects = file["leaderElection"]["leaderElect"] is True
    sign = STANDS_FOR_ELECTION if elects else STARTS
    command = [kube_scheduler, f"--config={path}", "--secure-port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        lines = []
        for line in program.stderr:
            lines.append(line)
            if sign in line.casefold():
                program.kill()
                return ""
    return next((line for line in lines if "command failed" in line), "".join(lines[-3:]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kube_scheduler_starts_with_exactly_the_files_that_check_accepts(
    case: Case, control_plane: ControlPlane, tmp_path: Path
) -> None:
    file = case.file(str(control_plane.kubeconfig("system:kube-scheduler")))
    path = tmp_path / "kube-scheduler.json"
    ended = why_ended(control_plane.binaries / "kube-scheduler", file, path)
    assert (not ended) is case.starts, ended
    ours = tmp_path / "kubextend.yaml"
    ours.write_text(json.dumps(CONFIGURATION))
    said = CliRunner().invoke(main, ["check", str(ours), "--scheduler", str(path)])
    assert (said.exit_code == 0) is case.starts, said.output
