"""``extender.lastFilter`` declares that no entry with a filterVerb is called after kubextend's."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import configuration, profile, run, write

OTHER = {"urlPrefix": "http://other:1", "httpTimeout": "1s", "nodeCacheCapable": True}
FILTERS = OTHER | {"filterVerb": "filter"}
HIGH_COMM = {"filter": "HighCommPodFilter"}
SCORES = OTHER | {"prioritizeVerb": "score", "weight": 1}


def file(folder: Path, extender: dict[str, Any], **sections: Any) -> Path:
    tree = configuration(extender=extender, **sections)
    return write(folder / "kubextend.yaml", tree)


def scheduler(folder: Path, other: dict[str, Any], *, first: bool) -> Path:
    """Write the file that kubextend asks for, with a further entry."""
    tree = yaml.safe_load(run("scheduler-config", "--config", folder / "kubextend.yaml").stdout)
    (ours,) = tree["extenders"]
    tree["extenders"] = [other, ours] if first else [ours, other]
    return write(folder / "kube-scheduler.yaml", tree)


@pytest.mark.parametrize(
    ("other", "first", "ignorable", "others", "later"),
    [
        (FILTERS, False, False, False, True),
        (FILTERS, True, False, False, False),
        (FILTERS, True, False, True, True),
        (FILTERS, False, True, False, False),
        (FILTERS, True, True, True, False),
        (FILTERS, False, True, True, True),
        (SCORES, False, False, False, False),
        (SCORES, True, False, True, False),
    ],
)
def test_check_compares_the_declaration_with_the_order_of_kube_scheduler(
    other: dict[str, Any],
    tmp_path: Path,
    *,
    first: bool,
    ignorable: bool,
    others: bool,
    later: bool,
) -> None:
    """The order is that of buildExtenders in kube-scheduler: the ignorable entries come last."""
    extender = {"ignorable": ignorable, "managedResources": [{"name": "a.b/c"}]}
    said = {}
    for declared in (False, True):
        ours = file(tmp_path, extender | {"lastFilter": declared})
        theirs = scheduler(tmp_path, other | {"ignorable": others}, first=first)
        said[declared] = run("check", ours, "--scheduler", theirs)
    at = f"extenders[{0 if first else 1}].filterVerb: kube-scheduler calls http://other:1 after"
    assert (at in said[True].stderr, said[True].exit_code) == (later, int(later))
    note = f"extenders[{1 if first else 0}].filterVerb: called last"
    assert (note in said[False].stdout, said[False].exit_code) == (not later, 0)
    assert "called last" not in said[True].stdout


def test_the_doctor_names_the_entry_that_filters_later(tmp_path: Path) -> None:
    ours = file(tmp_path, {"lastFilter": True})
    theirs = scheduler(tmp_path, FILTERS | {"ignorable": True}, first=True)
    done = run("doctor", "--config", ours, "--scheduler", theirs, "--output", "json")
    (wrong,) = [each for each in json.loads(done.stdout) if "lastFilter" in each["message"]]
    assert (wrong["check"], wrong["verdict"]) == ("scheduler-file", "error")
    assert "http://other:1" in wrong["message"]
    assert "ignorable" in wrong["hint"]


@pytest.mark.parametrize(
    ("extender", "points", "said"),
    [
        ({"lastFilter": True}, HIGH_COMM, ["# lastFilter: no filterVerb is called after this one"]),
        ({}, HIGH_COMM, ["# extender.lastFilter: true in kubextend's ExtenderConfiguration"]),
        ({}, {"score": "LabelMatch"}, []),
    ],
)
def test_scheduler_config_says_beside_the_entry_what_is_declared_or_could_be(
    extender: dict[str, Any], points: dict[str, str], said: list[str], tmp_path: Path
) -> None:
    ours = file(tmp_path, extender, profiles=[profile(**points)])
    lines = run("scheduler-config", "--config", ours).stdout.splitlines()
    found = [line for line in lines if "lastFilter" in line]
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))
