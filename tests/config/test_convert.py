"""``kubextend convert`` alone reads kube-scheduler's configuration, and makes kubextend's of it."""

from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import (
    Golden,
    Result,
    Tree,
    cases,
    profile,
    run,
    said,
    transcript,
    write,
)

GROUP = "kubescheduler.config.k8s.io"
USERS: Tree = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": "/etc/k"},
    "profiles": [profile("default-scheduler", multiPoint="CapacityScheduling")],
}


def converted(folder: Path, tree: Any) -> Result:
    return run("convert", write(folder / "users.yaml", tree))


@pytest.mark.parametrize("change", [{}, {"cluster": {}}, {"apiVersion": "x/v9"}, {"extender": 1}])
def test_every_command_says_what_to_do_with_kube_schedulers_own_file(
    change: Tree, tmp_path: Path
) -> None:
    file = write(tmp_path / "users.yaml", USERS | change)
    for words in ("check", "serve --config", "doctor --config", "plugins --config"):
        result = run(*words.split(), file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "error: kind: this is kube-scheduler's own configuration, not kubextend's\n"
            '  found: "KubeSchedulerConfiguration"\n'
            "  hint: run kubextend convert FILE > kubextend.yaml, and give kubextend that file\n"
        )


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2", "v1beta1"])
def test_check_accepts_what_convert_prints(version: str, tmp_path: Path) -> None:
    result = converted(tmp_path, USERS | {"apiVersion": f"{GROUP}/{version}"})
    assert (result.exit_code, result.stderr) == (0, "")
    checked = run("check", "-", given=result.stdout)
    assert checked.exit_code == 0
    assert "profile default-scheduler:\n" in checked.stdout
    assert "CapacityScheduling" in checked.stdout


def test_convert_takes_over_the_plugins_of_kubextend_and_says_what_is_wrong(
    tmp_path: Path, golden: Golden
) -> None:
    table = cases("config/convert.yaml")
    told = {name: said(converted(tmp_path, USERS | change)) for name, change in table.items()}
    golden("config/convert.txt", transcript(told).replace(f"{tmp_path}/", ""))


def test_convert_says_of_each_part_of_a_policy_where_it_goes(
    tmp_path: Path, golden: Golden
) -> None:
    table = cases("config/convert_policies.yaml")
    told = {name: said(converted(tmp_path, tree)) for name, tree in table.items()}
    golden("config/convert_policies.txt", transcript(told).replace(f"{tmp_path}/", ""))
