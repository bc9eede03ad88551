"""A kube-scheduler's configuration that was written for another kubextend is told apart from ours.

What belongs into the file is what ``scheduler-config`` writes; each case changes that.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_world import Parse, document, filter_profile

from kubextend.config.scheduler import scheduler_configuration
from kubextend.config.scheduler_comparison import scheduler_differences
from kubextend.errors import ConfigError, Issue

URL = "http://127.0.0.1:8888"
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
MUTUAL = {
    "urlPrefix": "https://kubextend:8888",
    "tlsConfig": {"caFile": "/ca", "certFile": "/crt", "keyFile": "/key", "serverName": "k"},
}


def point(name: str, plugin: str) -> list[dict[str, Any]]:
    return [{"plugins": {name: {"enabled": [{"name": plugin}]}}}]


FILTER: dict[str, Any] = {"cluster": {}}
EVERY_VERB: dict[str, Any] = {
    "cluster": {},
    "profiles": point("multiPoint", "LabelMatch"),
    "extender": {"bind": True},
}
RESOURCE = {"name": "a.b/c", "ignoredByScheduler": True}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "filter": FILTER,
    "every verb": EVERY_VERB,
    "whole nodes": {},
    "https": {"cluster": {}, "extender": MUTUAL},
    "ignorable": {"cluster": {}, "extender": {"ignorable": True}},
    "managed resources": {"cluster": {}, "extender": {"managedResources": [RESOURCE]}},
    "pod groups": {"cluster": {}, "extender": {"preemptGroups": True}},
    "pod groups, every verb": EVERY_VERB | {"extender": {"bind": True, "preemptGroups": True}},
    "own scheduler": {"cluster": {}, "profiles": [filter_profile("RdmaAware", schedulerName="ml")]},
    "two profiles": {
        "cluster": {},
        "profiles": [
            filter_profile("RdmaAware", schedulerName="ml", percentageOfNodesToScore=30),
            {"schedulerName": "untouched"},
        ],
    },
    "two profiles that see all nodes": {
        "cluster": {},
        "profiles": [
            filter_profile("RdmaAware", schedulerName="ml"),
            filter_profile("RdmaAware", schedulerName="web"),
        ],
    },
    "no verb": {"cluster": {}, "profiles": point("queueSort", "SortA")},
}
Change = Callable[[dict[str, Any]], object]
Differences = Callable[[dict[str, Any], Change], tuple[Issue, ...]]


@pytest.fixture
def differences(parse: Parse, tmp_path: Path) -> Differences:
    """What is said of the file that belongs to a configuration, once it was changed."""

    def compare(sections: dict[str, Any], change: Change) -> tuple[Issue, ...]:
        config = parse(document(**copy.deepcopy(sections)))
        tree = yaml.safe_load(scheduler_configuration(config))
        change(tree)
        file = tmp_path / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(tree, sort_keys=False))
        issues = scheduler_differences(config, file).issues
        prefix = f"{file}: "
        assert all(issue.path.startswith(prefix) for issue in issues)
        return tuple(
            Issue(issue.path.removeprefix(prefix), issue.message, issue.value, issue.hint)
            for issue in issues
        )

    return compare


@pytest.mark.parametrize("sections", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_what_scheduler_config_writes_fits(
    differences: Differences, sections: dict[str, Any]
) -> None:
    assert differences(sections, lambda tree: None) == ()


def with_what_is_nobodys_business(tree: dict[str, Any]) -> None:
    tree["clientConnection"] = {"kubeconfig": "/else", "qps": 5}
    tree["parallelism"] = 3
    tree["leaderElection"] = {**tree.get("leaderElection", {}), "leaseDuration": "20s"}
    tree["profiles"][0]["plugins"] = {"score": {"disabled": [{"name": "*"}]}}
    tree["profiles"][0]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {}}]
    tree["extenders"].insert(0, {"urlPrefix": "http://other", "filterVerb": "b", "weight": None})
    tree["extenders"].append({"urlPrefix": f"{URL}/other", "filterVerb": "f", "httpTimeout": "9m"})


@pytest.mark.parametrize("sections", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_other_extenders_plugins_and_connections_are_not_named(
    differences: Differences, sections: dict[str, Any]
) -> None:
    assert differences(sections, with_what_is_nobodys_business) == ()


def entry(index: int = 0, **fields: Any) -> Change:
    """Set fields of an entry, or take those out that are None."""

    def change(tree: dict[str, Any]) -> None:
        for name, value in fields.items():
            if value is None:
                tree["extenders"][index].pop(name)
            else:
                tree["extenders"][index][name] = value

    return change


def top(**fields: Any) -> Change:
    def change(tree: dict[str, Any]) -> None:
        for name, value in fields.items():
            if value is None:
                tree.pop(name)
            else:
                tree[name] = value

    return change


def tls(**fields: Any) -> Change:
    def change(tree: dict[str, Any]) -> None:
        tree["extenders"][0]["tlsConfig"] |= fields

    return change


def in_one_entry(tree: dict[str, Any]) -> None:
    """The verbs of both entries in the first, with its timeout."""
    first, second = tree["extenders"]
    tree["extenders"] = [second | first]


def preempt_beside_filter(tree: dict[str, Any]) -> None:
    """Put preempt into the entry of filter, as without preemptGroups."""
    first, preempt, *bind = tree["extenders"]
    tree["extenders"] = [preempt | first, *bind]


def preempt_apart(tree: dict[str, Any]) -> None:
    """Put preempt into an entry of its own, as with preemptGroups."""
    (first,) = tree["extenders"]
    preempt = {**first, "ignorable": True, "nodeCacheCapable": False, "httpTimeout": "7s"}
    del first["preemptVerb"], preempt["filterVerb"]
    tree["extenders"].append(preempt)


def twice(tree: dict[str, Any]) -> None:
    tree["extenders"].append({**tree["extenders"][0], "filterVerb": "", "preemptVerb": ""})


def profile(index: int, **fields: Any) -> Change:
    """Set fields of a profile."""

    def change(tree: dict[str, Any]) -> None:
        tree["profiles"][index] |= fields

    return change


def a_profile_again(tree: dict[str, Any]) -> None:
    tree["profiles"].append({**tree["profiles"][0]})


# What is changed; then for each difference its path, a part of what happens, what stands there,
# and what would be right.
DIFFERENCES: dict[str, tuple[dict[str, Any], Change, list[tuple[str, str, object, str]]]] = {
    "no extender": (
        FILTER,
        top(extenders=None),
        [("extenders", "kube-scheduler never asks kubextend", [], "scheduler-config")],
    ),
    "another server": (
        FILTER,
        entry(urlPrefix="http://127.0.0.1:9999"),
        [("extenders", f"none has the urlPrefix {URL}", ["http://127.0.0.1:9999"], "urlPrefix")],
    ),
    "another path": (
        FILTER,
        entry(urlPrefix="http://localhost:8888/v1/"),
        [
            (
                "extenders[0].urlPrefix",
                f"kubextend answers at {URL}: every call fails",
                "http://localhost:8888/v1/",
                f"urlPrefix: {URL}",
            )
        ],
    ),
    "no TLS": (
        CONFIGURATIONS["https"],
        entry(urlPrefix="http://kubextend:8888"),
        [
            (
                "extenders[0].urlPrefix",
                "every call fails",
                "http://kubextend:8888",
                "urlPrefix: https://kubextend:8888",
            )
        ],
    ),
    "no filter": (
        FILTER,
        entry(filterVerb=None),
        [("extenders[0].filterVerb", "that the plugins here reject", None, "filterVerb: filter")],
    ),
    "no preempt": (
        FILTER,
        entry(preemptVerb=None),
        [("extenders[0].preemptVerb", "evicts pods", None, "preemptVerb: preempt")],
    ),
    "no entry of preempt": (
        CONFIGURATIONS["pod groups"],
        lambda tree: tree["extenders"].pop(),
        [("extenders.preemptVerb", "evicts pods", None, "preemptVerb: preempt")],
    ),
    "an entry of preempt that is not ignorable": (
        CONFIGURATIONS["pod groups"],
        entry(1, ignorable=False),
        [("extenders[1].ignorable", "never evicts a pod group", False, "ignorable: true")],
    ),
    "an entry of preempt that is given up early": (
        CONFIGURATIONS["pod groups"],
        entry(1, httpTimeout="2s"),
        [("extenders[1].httpTimeout", "evicts pods unjudged", "2s", "httpTimeout: 7s")],
    ),
    "an entry of preempt that holds up all pods": (
        CONFIGURATIONS["pod groups"],
        entry(1, httpTimeout="1m"),
        [("extenders[1].httpTimeout", "holds up the scheduling", "1m0s", "httpTimeout: 7s")],
    ),
    "victims by their UIDs alone": (
        CONFIGURATIONS["pod groups"],
        entry(1, nodeCacheCapable=True),
        [("extenders[1].nodeCacheCapable", "unjudged", True, "nodeCacheCapable: false")],
    ),
    "preempt beside filter": (CONFIGURATIONS["pod groups"], preempt_beside_filter, []),
    "preempt beside filter, with bind": (
        CONFIGURATIONS["pod groups, every verb"],
        preempt_beside_filter,
        [],
    ),
    "an entry of preempt though no group is to be evicted": (
        FILTER,
        preempt_apart,
        [
            ("extenders[1].httpTimeout", "holds up the scheduling", "7s", "httpTimeout: 2s"),
            ("extenders[1].nodeCacheCapable", "whole", False, "nodeCacheCapable: true"),
            ("extenders[1].ignorable", "evicts pods unjudged", True, "ignorable: false"),
        ],
    ),
    "no prioritize": (
        EVERY_VERB,
        entry(prioritizeVerb=None),
        [("extenders[0].prioritizeVerb", "no Score", None, "prioritizeVerb: prioritize")],
    ),
    "no bind": (
        EVERY_VERB,
        lambda tree: tree["extenders"].pop(),
        [("extenders.bindVerb", "kube-scheduler binds pods itself", None, "bindVerb: bind")],
    ),
    "an old verb": (
        FILTER,
        entry(filterVerb="predicates"),
        [("extenders[0].filterVerb", "404", "predicates", "filterVerb: filter")],
    ),
    "a verb that is not served": (
        FILTER,
        entry(bindVerb="bind"),
        [("extenders[0].bindVerb", "no pod is bound", "bind", "leave bindVerb out")],
    ),
    "a verb though none is needed": (
        CONFIGURATIONS["no verb"],
        top(extenders=[{"urlPrefix": URL, "filterVerb": "filter"}]),
        [("extenders[0].filterVerb", "404", "filter", "leave filterVerb out")],
    ),
    "scores twice": (
        {"cluster": {}, "profiles": point("multiPoint", "LabelMatch")},
        twice,
        [("extenders[1].prioritizeVerb", "count twice", "prioritize", "out of one entry")],
    ),
    "a short timeout": (
        FILTER,
        entry(httpTimeout="1500ms"),
        [("extenders[0].httpTimeout", "failurePolicy has no say", "1.5s", "httpTimeout: 2s")],
    ),
    "no timeout": (
        FILTER,
        entry(httpTimeout=None),
        [("extenders[0].httpTimeout", "holds up the scheduling", "5s", "httpTimeout: 2s")],
    ),
    "bind beside the others": (
        EVERY_VERB,
        in_one_entry,
        [("extenders[0].httpTimeout", "before Permit's limit, 1m0s,", "2s", "httpTimeout: 2m0s")],
    ),
    "a longer bind": (
        EVERY_VERB,
        entry(1, httpTimeout="10m"),
        [("extenders[1].httpTimeout", "keeps its place", "10m0s", "httpTimeout: 2m0s")],
    ),
    "whole nodes": (
        FILTER,
        entry(nodeCacheCapable=None),
        [
            (
                "extenders[0].nodeCacheCapable",
                "kubernetes/kubernetes#141781",
                False,
                "nodeCacheCapable: true",
            )
        ],
    ),
    "names": (
        {},
        entry(nodeCacheCapable=True),
        [("extenders[0].nodeCacheCapable", "watches no nodes", True, "nodeCacheCapable: false")],
    ),
    "the mode of bind": (EVERY_VERB, entry(1, nodeCacheCapable=False), []),
    "a weight": (
        EVERY_VERB,
        entry(weight=5),
        [("extenders[0].weight", "5 times", 5, "weight: 1")],
    ),
    "no weight": (
        EVERY_VERB,
        entry(weight=None),
        [("extenders[0].weight", "does not start", 0, "weight: 1")],
    ),
    "a weight of no score": (FILTER, entry(weight=5), []),
    "ignorable": (
        FILTER,
        entry(ignorable=True),
        [("extenders[0].ignorable", "as if it had no plugins", True, "ignorable: false")],
    ),
    "an ignorable bind": (
        EVERY_VERB,
        entry(1, ignorable=True),
        [("extenders[1].ignorable", "done by kube-scheduler", True, "ignorable: false")],
    ),
    "not ignorable": (
        CONFIGURATIONS["ignorable"],
        entry(ignorable=None),
        [("extenders[0].ignorable", "no pod is placed", False, "ignorable: true")],
    ),
    "managed resources": (
        FILTER,
        entry(managedResources=[{"name": "a.b/c"}]),
        [
            (
                "extenders[0].managedResources",
                "only of pods that ask for a.b/c",
                [{"name": "a.b/c", "ignoredByScheduler": False}],
                "leave managedResources out",
            )
        ],
    ),
    "no managed resources": (
        CONFIGURATIONS["managed resources"],
        entry(managedResources=None),
        [("extenders[0].managedResources", "about every pod", [], '"a.b/c"')],
    ),
    "counted by the scheduler": (
        CONFIGURATIONS["managed resources"],
        entry(managedResources=[{"name": "a.b/c"}]),
        [
            (
                "extenders[0].managedResources",
                "NodeResourcesFit",
                [{"name": "a.b/c", "ignoredByScheduler": False}],
                '"ignoredByScheduler": true',
            )
        ],
    ),
    "insecure": (
        CONFIGURATIONS["https"],
        tls(insecure=True),
        [
            ("extenders[0].tlsConfig.insecure", "excludes caFile", True, ""),
            ("extenders[0].tlsConfig.insecure", "verifies nothing", True, "caFile: /ca"),
        ],
    ),
    "enableHTTPS without a CA": (
        CONFIGURATIONS["https"],
        tls(caFile=""),
        [("extenders[0].tlsConfig.insecure", "verifies nothing", False, "caFile: /ca")],
    ),
    "another CA": (
        CONFIGURATIONS["https"],
        tls(caFile="/old"),
        [("extenders[0].tlsConfig.caFile", "not trusted", "/old", "caFile: /ca")],
    ),
    "no certificate": (
        CONFIGURATIONS["https"],
        tls(certFile="", keyFile=""),
        [
            ("extenders[0].tlsConfig.certFile", "refuses", "", "certFile: /crt"),
            ("extenders[0].tlsConfig.keyFile", "key", "", "keyFile: /key"),
        ],
    ),
    "certificates within the file": (
        CONFIGURATIONS["https"],
        entry(
            tlsConfig={"caData": "YQ==", "certData": "YQ==", "keyData": "YQ==", "serverName": "k"}
        ),
        [],
    ),
    "another server name": (
        CONFIGURATIONS["https"],
        tls(serverName="x"),
        [("extenders[0].tlsConfig.serverName", "another name", "x", "serverName: k")],
    ),
    "TLS that http does not use": (FILTER, entry(enableHTTPS=True), []),
    "a renamed profile": (
        CONFIGURATIONS["own scheduler"],
        top(profiles=[{"schedulerName": "mll"}]),
        [
            ("profiles", "no profile has schedulerName ml", ["mll"], "schedulerName: ml"),
            ("profiles[0].schedulerName", "reject its pods", "mll", "one of ml"),
        ],
    ),
    "no profile, which is the default": (FILTER, top(profiles=None), []),
    "one profile without a name, which is the default": (
        FILTER,
        top(profiles=[{"percentageOfNodesToScore": 100}]),
        [],
    ),
    "a profile more": (
        CONFIGURATIONS["own scheduler"],
        lambda tree: tree["profiles"].append({"schedulerName": "default-scheduler"}),
        [
            (
                "profiles[1].schedulerName",
                "reject its pods",
                "default-scheduler",
                "one of ml",
            )
        ],
    ),
    "a profile more where kubextend is asked nothing": (
        CONFIGURATIONS["no verb"],
        lambda tree: tree["profiles"].append({"schedulerName": "web"}),
        [],
    ),
    "a sample": (
        FILTER,
        top(percentageOfNodesToScore=None),
        [("percentageOfNodesToScore", "a sample", 0, "percentageOfNodesToScore: 100")],
    ),
    "one sample for two profiles": (
        CONFIGURATIONS["two profiles that see all nodes"],
        top(percentageOfNodesToScore=None),
        [("percentageOfNodesToScore", "a sample", 0, "percentageOfNodesToScore: 100")],
    ),
    "a sample of one profile": (
        FILTER,
        lambda tree: tree["profiles"][0].update(percentageOfNodesToScore=50),
        [
            (
                "profiles[0].percentageOfNodesToScore",
                "a sample",
                50,
                "percentageOfNodesToScore: 100",
            )
        ],
    ),
    "more than a profile's sample": (
        CONFIGURATIONS["two profiles"],
        lambda tree: tree["profiles"][0].pop("percentageOfNodesToScore"),
        [
            (
                "percentageOfNodesToScore",
                "profile ml is to look at 30 percent",
                100,
                "percentageOfNodesToScore: 30",
            )
        ],
    ),
    # Each of these is a file with which kube-scheduler 1.36 does not start; its own words behind.
    # FilterPlugin "RdmaAware" does not exist
    "our plugin in kube-scheduler": (
        CONFIGURATIONS["own scheduler"],
        profile(0, plugins={"filter": {"enabled": [{"name": "NodeName"}, {"name": "RdmaAware"}]}}),
        [
            (
                "profiles[0].plugins.filter.enabled[1].name",
                "kube-scheduler has no plugin of this name and does not start",
                "RdmaAware",
                "take it out here",
            )
        ],
    ),
    # profiles[1].schedulerName: Duplicate value
    "a profile twice": (
        CONFIGURATIONS["own scheduler"],
        a_profile_again,
        [
            (
                "profiles[1].schedulerName",
                'Duplicate value: "ml"',
                "ml",
                "profiles[0] has this name already",
            )
        ],
    ),
    # strict decoding error: unknown field "extenders[0].ignorble"
    "a misspelled field of an entry": (
        FILTER,
        entry(ignorble=False),
        [
            (
                "extenders[0].ignorble",
                'unknown field "ignorble"',
                False,
                "did you mean ignorable?",
            )
        ],
    ),
    "a misspelled field at the top": (
        FILTER,
        top(parallelsm=3),
        [("parallelsm", 'unknown field "parallelsm"', 3, "did you mean parallelism?")],
    ),
    "a misspelled field of the election": (
        FILTER,
        top(leaderElection={"leaderElekt": False}),
        [
            (
                "leaderElection.leaderElekt",
                'unknown field "leaderElekt"',
                False,
                "did you mean leaderElect?",
            )
        ],
    ),
    "a misspelled field of the connection": (
        FILTER,
        top(clientConnection={"kubeconfg": "k"}),
        [
            (
                "clientConnection.kubeconfg",
                'unknown field "kubeconfg"',
                "k",
                "did you mean kubeconfig?",
            )
        ],
    ),
    # strict decoding error: unknown field "healthzBindAddress"
    "a field of the betas": (
        FILTER,
        top(healthzBindAddress="0.0.0.0:10251"),
        [
            (
                "healthzBindAddress",
                'unknown field "healthzBindAddress"',
                "0.0.0.0:10251",
                "known fields: apiVersion",
            )
        ],
    ),
    "every node where no filter runs": (
        {"cluster": {}, "profiles": point("score", "LabelMatch")},
        top(percentageOfNodesToScore=100),
        [],
    ),
    "a sample where no filter runs": (
        {"cluster": {}, "profiles": point("score", "LabelMatch")},
        top(percentageOfNodesToScore=5),
        [],
    ),
    "the cluster's lease": (
        CONFIGURATIONS["own scheduler"],
        top(leaderElection=None),
        [
            (
                "leaderElection.resourceName",
                "waits for ever",
                "kube-scheduler",
                "resourceName: kubextend-scheduler",
            )
        ],
    ),
    "the cluster's lease with the cluster's own scheduler": (
        CONFIGURATIONS["own scheduler"],
        top(
            leaderElection=None,
            profiles=[{"schedulerName": "ml"}, {"schedulerName": "default-scheduler"}],
        ),
        [
            (
                "profiles[1].schedulerName",
                "reject its pods",
                "default-scheduler",
                "one of ml",
            )
        ],
    ),
    "another lease": (
        CONFIGURATIONS["own scheduler"],
        top(leaderElection={"resourceName": "ml"}),
        [],
    ),
    "a lease elsewhere": (
        CONFIGURATIONS["own scheduler"],
        top(leaderElection={"resourceNamespace": "ml"}),
        [],
    ),
    "no lease": (
        CONFIGURATIONS["own scheduler"],
        top(leaderElection={"leaderElect": False}),
        [],
    ),
}


@pytest.mark.parametrize(("sections", "change", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_difference_is_named_with_what_happens_and_what_is_right(
    differences: Differences,
    sections: dict[str, Any],
    change: Change,
    expected: list[tuple[str, str, object, str]],
) -> None:
    issues = differences(sections, change)
    assert [(issue.path, issue.value) for issue in issues] == [
        (path, value) for path, _, value, _ in expected
    ]
    for issue, (_, message, _, hint) in zip(issues, expected, strict=True):
        assert message in issue.message
        assert hint in issue.hint


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"clientConnection": {"kubeconfig": "k"}}, []),
        (
            {},
            ["clientConnection.kubeconfig: none, so kube-scheduler starts only inside a cluster"],
        ),
        # Source: KEP-785, Implementation History
        *(
            (
                {"apiVersion": version, "clientConnection": {"kubeconfig": "k"}, **more},
                [
                    f"apiVersion: only kube-scheduler {releases} reads {version}; "  # noqa: ISC004  one note
                    "1.25 and later read v1. The names and arguments of its own plugins were not "
                    "checked"
                ],
            )
            for version, releases, more in [
                ("kubescheduler.config.k8s.io/v1beta1", "1.19 to 1.22", {}),
                ("kubescheduler.config.k8s.io/v1beta2", "1.22 to 1.27", {}),
                (
                    "kubescheduler.config.k8s.io/v1beta3",
                    "1.23 to 1.28",
                    {"healthzBindAddress": "0.0.0.0:10251"},
                ),
            ]
        ),
    ],
)
def test_it_is_noted_where_alone_kube_scheduler_starts_with_a_file(
    parse: Parse, tmp_path: Path, changed: dict[str, Any], expected: list[str]
) -> None:
    sections = copy.deepcopy(CONFIGURATIONS["own scheduler"])
    config = parse(document(**sections, extender={"lastFilter": True}))
    tree = yaml.safe_load(scheduler_configuration(config)) | changed
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(tree))
    found = scheduler_differences(config, file)
    assert found == ((), tuple(f"{file}: {note}" for note in expected))


def test_it_is_noted_that_a_second_kube_scheduler_with_the_default_profile_waits_for_ever(
    parse: Parse, tmp_path: Path
) -> None:
    file = tmp_path / "kube-scheduler.yaml"

    def notes(sections: dict[str, Any], **election: Any) -> tuple[str, ...]:
        config = parse(document(**copy.deepcopy(sections), extender={"lastFilter": True}))
        tree = yaml.safe_load(scheduler_configuration(config, kubeconfig="k"))
        file.write_text(yaml.safe_dump(tree | ({"leaderElection": election} if election else {})))
        found = scheduler_differences(config, file)
        assert found.issues == ()
        return found.notes

    (note,) = notes(FILTER)
    assert note.startswith(f"{file}: leaderElection.resourceName: with a profile default-scheduler")
    assert note.endswith("beside that one it waits for ever")
    assert notes(FILTER, leaderElect=False) == ()
    assert notes(FILTER, resourceName="ml") == ()
    assert notes(CONFIGURATIONS["own scheduler"]) == ()


@pytest.mark.parametrize(
    ("ignorable", "ends"), [(False, "never evicts the group"), (True, "evicts pods unjudged")]
)
def test_it_is_noted_what_happens_where_preempt_shares_the_entry_of_filter(
    parse: Parse, tmp_path: Path, ends: str, *, ignorable: bool
) -> None:
    extender = {"ignorable": ignorable, "preemptGroups": True, "lastFilter": True}
    config = parse(document(**CONFIGURATIONS["own scheduler"], extender=extender))
    tree = yaml.safe_load(scheduler_configuration(config, kubeconfig="k"))
    preempt_beside_filter(tree)
    tree["extenders"][0]["ignorable"] = ignorable
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(tree))
    issues, (note,) = scheduler_differences(config, file)
    assert issues == ()
    assert note.startswith(f"{file}: extenders[0].preemptVerb: not in an entry of its own")
    assert note.endswith(ends)


# Bind gets the name of a node in any case, and TLS's switch says nothing where there is a CA.
SAY_NOTHING = {("bindVerb", "nodeCacheCapable"), ("filterVerb", "enableHTTPS")}


@pytest.mark.parametrize("sections", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_no_field_of_an_entry_can_be_left_out_unnoticed(
    differences: Differences, parse: Parse, sections: dict[str, Any]
) -> None:
    written = yaml.safe_load(scheduler_configuration(parse(document(**copy.deepcopy(sections)))))
    for index, fields in enumerate(written["extenders"]):
        kind = next(field for field in fields if field.endswith("Verb"))
        # A field that is false or zero is as good as left out.
        for field in (field for field in fields if fields[field]):
            noticed = bool(differences(sections, entry(index, **{field: None})))
            assert noticed == ((kind, field) not in SAY_NOTHING), field


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("kind: [", "", "line 1"),
        ("a: 1\n---\nb: 2\n", "", "line 2"),
        ("", "", "empty"),
        ("[]", "", "expected an object"),
        ('{"kind": "Policy", "apiVersion": "v1"}', "kind", "is not a kube-scheduler's"),
        ("apiVersion: v1\nkind: KubeSchedulerConfiguration\n", "apiVersion", "no such version"),
        (
            f"{{{SCHEDULER}, extenders: [{{urlPrefix: 1, httpTimeout: soon}}]}}",
            "extenders[0].urlPrefix",
            "expected a string",
        ),
    ],
)
def test_a_file_that_kube_scheduler_could_not_read_is_an_error(
    parse: Parse, tmp_path: Path, text: str, path: str, message: str
) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(text)
    try:
        issues = scheduler_differences(parse(document()), file).issues
    except ConfigError as error:
        issues = error.issues
    assert issues[0].path == (f"{file}: {path}" if path else str(file))
    assert message in issues[0].message


def test_of_a_file_without_end_no_more_is_read_than_a_document_may_have(parse: Parse) -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero: has more than 1048576 bytes$"):
        scheduler_differences(parse(document()), "/dev/zero")


def test_fields_that_are_null_are_absent(parse: Parse, tmp_path: Path) -> None:
    config = parse(document())
    tree = yaml.safe_load(scheduler_configuration(config))
    tree |= {"leaderElection": None, "clientConnection": None}
    tree["extenders"][0] |= {"tlsConfig": None, "weight": None, "managedResources": None}
    file = tmp_path / "kube-scheduler.json"
    file.write_text(json.dumps(tree))
    assert scheduler_differences(config, file).issues == ()


def test_a_server_that_nobody_can_call_fits_no_file(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(scheduler_configuration(parse(document())))
    everywhere = parse(document(server={"host": "0.0.0.0", "insecure": True}))
    with pytest.raises(ConfigError, match=r"^extender\.urlPrefix: Required value"):
        scheduler_differences(everywhere, file)
