"""``check --scheduler``: kube-scheduler's own file is compared with what kubextend needs.

A real kube-scheduler reads the files of tests/scheduler_files.py in tests/e2e.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors import configured_plugins
from tests.doors.command_line import (
    FITS,
    Golden,
    Tree,
    cases,
    compared,
    configuration,
    run,
    said,
    transcript,
    write,
)

from scheduler_files import CASES, CONFIGURATION

pytestmark = pytest.mark.usefixtures("in_a_folder")

KUBECONFIG = "/etc/kubernetes/scheduler.conf"
_FILE = cases("config/scheduler_changes.yaml")
CONFIGURATIONS: Mapping[str, Tree] = {
    name: configuration(**sections, outOfTree=configured_plugins.ALL)
    for name, sections in _FILE["configurations"].items()
}


def written(ours: Tree) -> Tree:
    """Return what ``scheduler-config`` writes."""
    config = write(Path("kubextend.yaml"), ours)
    done = run("scheduler-config", "--config", config, "--kubeconfig", KUBECONFIG)
    return yaml.safe_load(done.stdout)


def changed(tree: Tree, changes: Mapping[str, Any]) -> Tree:
    """Set the value at each path, or take away what is None."""
    for path, value in changes.items():
        # The paths of the file have no key with a dot.
        *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        part: Any = tree
        for step in above:
            part = part[step]
        if value is None:
            del part[last]
        else:
            part[last] = value
    return tree


@pytest.mark.slow
def test_check_names_what_differs_what_comes_of_it_and_what_is_right(golden: Golden) -> None:
    files = {name: written(ours) for name, ours in CONFIGURATIONS.items()}
    usual = {name: said(compared(CONFIGURATIONS[name], file)) for name, file in files.items()}
    assert {name: text for name, text in usual.items() if FITS not in text} == {}
    told = {}
    for name, change in _FILE["changes"].items():
        [(ours, changes)] = change.items()
        result = compared(CONFIGURATIONS[ours], changed(copy.deepcopy(files[ours]), changes))
        lines = (result.stdout + result.stderr).splitlines(keepends=True)
        assert (result.exit_code, FITS in result.stdout) in {(0, True), (1, False)}
        new = [line for line in lines if line not in usual[ours] or line.rstrip().endswith(FITS)]
        told[name] = "".join(new)
    golden("config/scheduler_changes.txt", transcript(told))


def with_what_is_nobodys_business(tree: Tree) -> Tree:
    tree["clientConnection"] = {"kubeconfig": "/else", "qps": 5}
    tree["parallelism"] = 3
    tree["leaderElection"] = {**tree.get("leaderElection", {}), "leaseDuration": "20s"}
    tree["profiles"][0]["plugins"] = {"score": {"disabled": [{"name": "*"}]}}
    tree["profiles"][0]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {}}]
    url = "http://127.0.0.1:8888/other"
    tree["extenders"].insert(0, {"urlPrefix": "http://other", "filterVerb": "b", "weight": None})
    tree["extenders"].append({"urlPrefix": url, "filterVerb": "f", "httpTimeout": "9m"})
    return tree


# Bind gets the name of a node in any case, and TLS's switch says nothing where there is a CA.
SAY_NOTHING = {("bindVerb", "nodeCacheCapable"), ("filterVerb", "enableHTTPS")}


@pytest.mark.parametrize("ours", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_check_names_each_field_that_is_left_out_and_nothing_of_others(ours: Tree) -> None:
    theirs = written(ours)
    others = compared(ours, with_what_is_nobodys_business(copy.deepcopy(theirs)))
    assert FITS in others.stdout, others.stderr
    for index, fields in enumerate(theirs["extenders"]):
        kind = next(field for field in fields if field.endswith("Verb"))
        # A field that is false or zero is as good as left out.
        for field in (field for field in fields if fields[field]):
            tree = changed(copy.deepcopy(theirs), {f"extenders.{index}.{field}": None})
            fits = FITS in compared(ours, tree).stdout
            assert fits == ((kind, field) in SAY_NOTHING), field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", ": line 1"),
        ("a: 1\n---\nb: 2\n", ": line 2"),
        ("", ": empty"),
        ("[]", ": expected an object"),
    ],
)
def test_check_refuses_a_file_that_kube_scheduler_could_not_read(text: str, message: str) -> None:
    result = compared(configuration(), text)
    assert result.exit_code == 1
    assert f"error: kube-scheduler.yaml{message}" in result.stderr


def test_check_reads_no_more_of_a_file_without_end_than_a_document_may_have() -> None:
    ours = write(Path("kubextend.yaml"), configuration())
    result = run("check", ours, "--scheduler", "/dev/zero")
    assert "error: /dev/zero: has more than 1048576 bytes\n" in result.stderr
    gone = run("check", ours, "--scheduler", "gone")
    assert "error: gone: cannot be read: No such file or directory\n" in gone.stderr


def test_check_fits_no_file_to_a_server_that_nobody_can_call() -> None:
    ours = configuration()
    theirs = written(ours)
    everywhere = configuration(server={"host": "0.0.0.0", "insecure": True})
    result = compared(everywhere, theirs)
    assert result.exit_code == 1
    assert "error: extender.urlPrefix: Required value: 0.0.0.0 is no address" in result.stderr
    # Names of the other file are printed on one line.
    theirs["profiles"][0]["schedulerName"] = "ml\nerror: \x1b[31mforged"
    result = compared(ours, theirs)
    assert "\x1b" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if "forged" in line]
    assert [line.partition(":")[0] for line in lines] == ["  found", "  found", "  hint"]


def test_check_accepts_a_file_exactly_if_kube_scheduler_starts_with_it(golden: Golden) -> None:
    errors = {}
    for case in CASES:
        result = compared(CONFIGURATION, case.file(KUBECONFIG))
        assert (FITS in result.output, result.exit_code) == (case.starts, int(not case.starts))
        if not case.starts:
            lines = result.stderr.splitlines(keepends=True)
            errors[case.name] = "".join(line for line in lines if line.startswith("error: "))
    golden("config/scheduler_starts.txt", transcript(errors))


def test_check_claims_no_more_than_it_checked() -> None:
    *_, note, fits = compared(CONFIGURATION, CASES[-1].file(KUBECONFIG)).stdout.splitlines()
    assert fits.endswith(FITS)
    assert note.startswith("note: kube-scheduler checks more at its start: its own plugins and ")
