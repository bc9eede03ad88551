"""``check --scheduler``: kube-scheduler's own file is compared with what kubextend needs.

What belongs into the file is what ``scheduler-config`` writes; each case of scheduler_changes.yaml
changes that. A real kube-scheduler reads the files of tests/scheduler_files.py in
tests/e2e/test_scheduler_files.py.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors import configured_plugins
from tests.doors.command_line import (
    FITS,
    Tree,
    cases,
    compared,
    configuration,
    run,
    said,
    transcript,
    write,
)

from scheduler_files import CASES, CONFIGURATION, PROFILE, Case

Golden = Callable[[str, str], None]
KUBECONFIG = "/etc/kubernetes/scheduler.conf"
_FILE = cases("config/scheduler_changes.yaml")
CONFIGURATIONS: Mapping[str, Tree] = {
    name: configuration(**sections, outOfTree=configured_plugins.ALL)
    for name, sections in _FILE["configurations"].items()
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(ours: Tree) -> Tree:
    """Return what ``scheduler-config`` writes."""
    config = write(Path("kubextend.yaml"), ours)
    done = run("scheduler-config", "--config", config, "--kubeconfig", KUBECONFIG)
    tree = yaml.safe_load(done.stdout)
    assert isinstance(tree, dict), done.stderr
    return tree


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
    files = {name: json.dumps(written(ours)) for name, ours in CONFIGURATIONS.items()}
    usual = {
        name: said(compared(CONFIGURATIONS[name], json.loads(text))) for name, text in files.items()
    }
    assert {name: text for name, text in usual.items() if FITS not in text} == {}
    told = {}
    for name, change in _FILE["changes"].items():
        [(ours, changes)] = change.items()
        result = compared(CONFIGURATIONS[ours], changed(json.loads(files[ours]), changes))
        lines = (result.stdout + result.stderr).splitlines(keepends=True)
        assert (result.exit_code, FITS in result.stdout) in {(0, True), (1, False)}
        told[name] = "".join(
            line for line in lines if line not in usual[ours] or line.rstrip().endswith(FITS)
        )
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
    text = json.dumps(written(ours))
    others = compared(ours, with_what_is_nobodys_business(json.loads(text)))
    assert FITS in others.stdout, others.stderr
    for index, fields in enumerate(json.loads(text)["extenders"]):
        kind = next(field for field in fields if field.endswith("Verb"))
        # A field that is false or zero is as good as left out.
        for field in (field for field in fields if fields[field]):
            tree = changed(json.loads(text), {f"extenders.{index}.{field}": None})
            fits = FITS in compared(ours, tree).stdout
            assert fits == ((kind, field) in SAY_NOTHING), field


THEIRS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", ": line 1"),
        ("a: 1\n---\nb: 2\n", ": line 2"),
        ("", ": empty"),
        ("[]", ": expected an object"),
        ('{"kind": "Policy", "apiVersion": "v1"}', ": kind: is not a kube-scheduler's"),
        ("apiVersion: v1\nkind: KubeSchedulerConfiguration\n", ": apiVersion: no such version"),
        (
            json.dumps(THEIRS | {"extenders": [{"urlPrefix": 1, "httpTimeout": "soon"}]}),
            ": extenders[0].urlPrefix: expected a string",
        ),
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
    theirs = written(configuration())
    everywhere = configuration(server={"host": "0.0.0.0", "insecure": True})
    result = compared(everywhere, theirs)
    assert result.exit_code == 1
    assert "error: extender.urlPrefix: Required value: 0.0.0.0 is no address" in result.stderr


def test_check_prints_names_of_the_other_file_on_one_line() -> None:
    ours = configuration()
    theirs = written(ours)
    theirs["profiles"][0]["schedulerName"] = "ml\nerror: \x1b[31mforged"
    result = compared(ours, theirs)
    assert "\x1b" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if "forged" in line]
    assert [line.partition(":")[0] for line in lines] == ["  found", "  found", "  hint"]


@pytest.mark.parametrize(
    ("ignorable", "ends"), [(False, "never evicts the group"), (True, "evicts pods unjudged")]
)
def test_check_notes_what_happens_where_preempt_shares_the_entry_of_filter(
    ends: str, *, ignorable: bool
) -> None:
    extender = {"ignorable": ignorable, "preemptGroups": True, "lastFilter": True}
    ours = configuration(cluster={}, extender=extender)
    theirs = written(ours)
    first, preempt = theirs["extenders"]
    theirs["extenders"] = [preempt | first | {"ignorable": ignorable}]
    result = compared(ours, theirs)
    assert FITS in result.stdout, result.stderr
    said_of_it = "note: kube-scheduler.yaml: extenders[0].preemptVerb: not in an entry of its own"
    (note,) = (line for line in result.stdout.splitlines() if line.startswith(said_of_it))
    assert note.endswith(ends)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_check_accepts_a_file_exactly_if_kube_scheduler_starts_with_it(case: Case) -> None:
    result = compared(CONFIGURATION, case.file(KUBECONFIG))
    assert (FITS in result.output, result.exit_code) == (case.starts, int(not case.starts))


NAMED = {
    "another extender binds, too": (
        "extenders[2].bindVerb: another extender has a bindVerb, and only one can bind: "
        "kube-scheduler does not start"
    ),
    "two extenders manage one resource": (
        "extenders[1].managedResources[0].name: is managed already, by this or another extender: "
        "kube-scheduler does not start"
    ),
    "resourceLock endpointsleases": (
        "leaderElection.resourceLock: must be leases: kube-scheduler does not start"
    ),
    "a renewal no longer than 1.2 tries": (
        "leaderElection.renewDeadline: must be more than 2.4s, 1.2 times retryPeriod: "
        "kube-scheduler does not start"
    ),
    "parallelism below 0": "parallelism: must be at least 1",
    "a longest backoff below the first": (
        "podMaxBackoffSeconds: must be at least podInitialBackoffSeconds, 20: kube-scheduler does "
        "not start"
    ),
    "a plugin that kube-scheduler no longer has": (
        "profiles[0].plugins.score.enabled[0].name: kube-scheduler has no plugin of this name and "
        "does not start"
    ),
    "arguments that there are not": (
        'profiles[0].pluginConfig[0].args.scoringStrategies: unknown field "scoringStrategies"'
    ),
}


@pytest.mark.parametrize(("name", "sentence"), NAMED.items())
def test_check_names_the_field_because_of_which_kube_scheduler_does_not_start(
    name: str, sentence: str
) -> None:
    (case,) = (case for case in CASES if case.name == name)
    result = compared(CONFIGURATION, case.file(KUBECONFIG))
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: kube-scheduler.yaml: {sentence}"]


def test_check_claims_no_more_than_it_checked() -> None:
    *_, note, fits = compared(CONFIGURATION, CASES[-1].file(KUBECONFIG)).stdout.splitlines()
    assert fits.endswith(FITS)
    assert note == (
        "note: checked as kube-scheduler 1.37 does at its start; it alone can check its files, "
        "certificates, addresses and feature gates, and checks node affinity in arguments of "
        "plugins"
    )


BASE = CASES[-1].file(KUBECONFIG) | {"profiles": [{"schedulerName": PROFILE}]}


def in_profile(**fields: Any) -> Tree:
    return {"profiles": [{"schedulerName": PROFILE, **fields}]}


@pytest.mark.parametrize(
    ("change", "at", "hint"),
    [
        (in_profile(extenders=[]), "profiles[0].extenders", "extenders belongs at the top"),
        (in_profile(leaderElection={}), "profiles[0].leaderElection", "belongs at the top"),
        (in_profile(parallelism=3), "profiles[0].parallelism", "belongs at the top of the file"),
        (in_profile(filterVerb="f"), "profiles[0].filterVerb", "belongs in extenders[]"),
        (in_profile(score={}), "profiles[0].score", "score belongs in profiles[].plugins"),
        ({"plugins": {}}, "plugins", "plugins belongs in profiles[]"),
        ({"pluginConfig": []}, "pluginConfig", "pluginConfig belongs in profiles[]"),
        ({"schedulerName": "x"}, "schedulerName", "schedulerName belongs in profiles[]"),
        ({"kubeconfig": "x"}, "kubeconfig", "kubeconfig belongs in clientConnection"),
        ({"resourceName": "x"}, "resourceName", "resourceName belongs in leaderElection"),
        (
            {"leaderElection": {"leaderElect": False, "percentageOfNodesToScore": 1}},
            "leaderElection.percentageOfNodesToScore",
            "belongs at the top of the file or in profiles[]",
        ),
        ({"extender": []}, "extender", "did you mean extenders?"),
    ],
)
def test_check_says_where_a_field_at_the_wrong_level_belongs(
    change: Tree, at: str, hint: str
) -> None:
    lines = compared(CONFIGURATION, BASE | change).stderr.splitlines()
    (place,) = [index for index, line in enumerate(lines) if f": {at}: unknown field" in line]
    assert next(line for line in lines[place:] if line.startswith("  hint:")).count(hint) == 1


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"urlPrefix": "http://a"}, "urlPrefix belongs in extender"),
        ({"plugins": {}}, "plugins belongs in profiles[]"),
        ({"kubeconfig": "x"}, "kubeconfig belongs in cluster"),
        (in_profile(extender={}), "extender belongs at the top of the file"),
        (in_profile(filter={}), "filter belongs in profiles[].plugins"),
    ],
)
def test_check_says_where_a_field_of_kubextends_own_file_belongs(change: Tree, hint: str) -> None:
    result = run("check", "-", given=json.dumps(CONFIGURATION | change))
    assert f"  hint: {hint}\n" in result.stderr
