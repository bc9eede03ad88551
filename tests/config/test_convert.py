"""``kubextend convert`` alone reads kube-scheduler's configuration, and makes kubextend's of it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import Result, Tree, configuration, run, write

GROUP = "kubescheduler.config.k8s.io"
USERS: Tree = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": "/etc/k"},
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}]}},
        }
    ],
}


def converted(folder: Path, tree: Any) -> Result:
    return run("convert", write(folder / "users.yaml", tree))


@pytest.mark.parametrize("change", [{}, {"cluster": {}}, {"apiVersion": "x/v9"}, {"extender": 1}])
def test_every_command_says_what_to_do_with_kube_schedulers_own_file(
    change: Tree, tmp_path: Path
) -> None:
    file = write(tmp_path / "users.yaml", USERS | change)
    for words in (
        ["check"],
        ["serve", "--config"],
        ["doctor", "--config"],
        ["plugins", "--config"],
    ):
        result = run(*words, file)
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


def test_convert_takes_over_the_plugins_of_kubextend_alone(tmp_path: Path) -> None:
    args = {"apiVersion": f"{GROUP}/v1", "kind": "LabelMatchArgs", "scores": []}
    profile = {
        "schedulerName": "ml",
        "percentageOfNodesToScore": 100,
        "plugins": {
            "queueSort": {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]},
            "multiPoint": {
                "enabled": [{"name": "LabelMatch"}, {"name": "NodeAffinity", "weight": 3}],
                "disabled": [{"name": "ImageLocality"}],
            },
            "score": {
                "enabled": [
                    {"name": "NodeResourcesFit", "weight": 0},
                    {"name": "LabelMatch", "weight": 7},
                ],
                "disabled": [{"name": "*"}, {"name": "VolumeBinding"}],
            },
        },
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            {"name": "LabelMatch", "args": args},
        ],
    }
    result = converted(tmp_path, USERS | {"profiles": [profile, {"schedulerName": "plain"}]})
    assert yaml.safe_load(result.stdout) == {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [
            {
                "schedulerName": "ml",
                "percentageOfNodesToScore": 100,
                "plugins": {
                    "queueSort": {"disabled": [{"name": "*"}]},
                    "multiPoint": {"enabled": [{"name": "LabelMatch"}]},
                    "score": {
                        "enabled": [{"name": "LabelMatch", "weight": 7}],
                        "disabled": [{"name": "*"}],
                    },
                },
                "pluginConfig": [{"name": "LabelMatch", "args": {"scores": []}}],
            },
            {"schedulerName": "plain"},
        ],
    }


def test_convert_names_a_plugin_that_nobody_has_and_a_field_that_there_is_not(
    tmp_path: Path,
) -> None:
    users = copy.deepcopy(USERS)
    users["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "Mine"})
    result = converted(tmp_path, users)
    assert result.exit_code == 1
    assert 'multiPoint.enabled[1].name: plugin "Mine" does not exist' in result.stderr
    wrong = converted(tmp_path, USERS | {"plugins": {}})
    assert "hint: plugins belongs in profiles[]" in wrong.stderr
    ours = converted(tmp_path, configuration())
    assert ours.stderr.startswith("error: kind: is not a kube-scheduler's")


def test_convert_warns_where_the_profiles_have_no_plugin_of_kubextend(tmp_path: Path) -> None:
    result = converted(tmp_path, {key: USERS[key] for key in ("apiVersion", "kind")})
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: no profile enables a plugin")
