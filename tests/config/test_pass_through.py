"""``passThrough``: which names it may list, and what kube-scheduler's own file says of them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import Tree, checked, compared, configuration, profile, run, write

GANG = profile("gang", filter="HighCommPodFilter")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (["gang"], '[0]: Duplicate value: "gang"'),
        (["a", "b", "a"], '[2]: Duplicate value: "a"'),
        (["a", ""], "[1]: Required value"),
        ("a", ": expected a list"),
        ([7], "[0]: expected a string"),
        (["x" * 254], "[0]: Too long"),
        *(([name], "[0]: Invalid value") for name in ("*", "b-*", "a b", "b\n", " b", "-b")),
    ],
)
def test_a_name_that_cannot_be_passed_through_is_refused(passed: Any, said: str) -> None:
    done = checked({"profiles": [GANG], "passThrough": passed})
    assert done.exit_code == 1
    assert re.findall(r"(?m)^error:.*$", done.stderr)[1:] == []
    assert f"passThrough{said}" in done.stderr


def test_the_one_profile_without_a_name_is_for_default_scheduler() -> None:
    done = checked({"passThrough": ["default-scheduler"]})
    assert "passThrough[0]: Duplicate value" in done.stderr


@pytest.mark.parametrize("name", ["a", "my-scheduler", "MyScheduler", "a_b.c", "example.com/mine"])
def test_a_name_that_kube_scheduler_can_write_events_with_can_be_passed_through(name: str) -> None:
    assert checked({"profiles": [GANG], "passThrough": [name]}).exit_code == 0


def ours(*passed: str) -> Tree:
    return configuration(profiles=[GANG], cluster={}, passThrough=list(passed))


def written(*passed: str) -> str:
    """Return what ``scheduler-config`` writes."""
    done = run("scheduler-config", "--config", write(Path("kubextend.yaml"), ours(*passed)))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_scheduler_config_writes_a_profile_for_each_name_that_is_passed_through() -> None:
    text = written("default-scheduler", "batch")
    tree = yaml.safe_load(text)
    names = [each["schedulerName"] for each in tree["profiles"]]
    assert names == ["gang", "default-scheduler", "batch"]
    before, after = text.split("- schedulerName: default-scheduler\n")
    assert before.splitlines()[-1].startswith("# passThrough: ")
    assert after.startswith("- schedulerName: batch\n")
    # It is the cluster's own kube-scheduler then, with the Lease of that one.
    assert "leaderElection" not in tree


def test_a_file_fits_as_it_is_written_and_with_a_sample_of_the_nodes_for_a_name_passed_on() -> None:
    tree = yaml.safe_load(written("batch"))
    done = compared(ours("batch"), tree)
    assert (done.exit_code, "passed through: batch" in done.output) == (0, True)
    tree["profiles"][1]["percentageOfNodesToScore"] = 10
    assert compared(ours("batch"), tree).exit_code == 0


@pytest.mark.parametrize(
    ("passed", "theirs", "said", "code"),
    [
        ([], ["gang", "batch"], "passThrough: [batch] in kubextend's file", 1),
        (["batch"], ["gang", "batch"], "", 0),
        (["batch"], ["gang"], "profiles: none has schedulerName batch, which passThrough", 0),
    ],
)
def test_check_finds_profiles_of_kube_scheduler_whose_pods_would_be_rejected(
    passed: list[str], theirs: list[str], said: str, code: int
) -> None:
    tree = yaml.safe_load(written(*passed))
    tree["profiles"] = [{"schedulerName": name} for name in theirs]
    done = compared(ours(*passed), tree)
    assert done.exit_code == code
    assert said in done.output
    assert ("profiles[1].schedulerName: no profile of kubextend has" in done.output) == bool(code)
