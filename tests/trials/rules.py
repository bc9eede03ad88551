"""Lets a real kube-scheduler place random pods of random compiled rules.

A real kube-apiserver puts the compiled rules of LabelMatch on the pods, and a real kube-scheduler
without an extender places them: the pod of each set of rules itself, and for each node a copy that
may run there only. A pod must be placed exactly where its own affinity, judged by kube-scheduler's
code, and LabelMatch, without admission, allow it.
"""

import random
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from tests.e2e.admission_rules import PODS, installed
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import Api, Object, condition, node
from tests.e2e.program_plane import program_plane
from tests.e2e.random_rules import (
    NODES,
    Case,
    LabelMatch,
    build_judge,
    judged,
    random_cases,
    random_profile,
)
from tests.e2e.stack import Scheduler, configuration, run_kubextend
from tests.e2e.workbench import until

from .harness import Report, trial

RULE_SETS_AT_A_TIME = 100
NAMES = [each["metadata"]["name"] for each in NODES]
POOL = "e2e.kubextend.dev/rules-at-random"
HOST = "kubernetes.io/hostname"
CASE = "e2e.kubextend.dev/case"
UNSCHEDULABLE = "Unschedulable"
# kube-scheduler's own reasons: the node does not fit, or the pod names nodes and none of them fits.
REASONS = (
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
)
PATIENCE_S = 300.0


@dataclass
class Tally:
    """What kube-scheduler did with the pods of some cases.

    Attributes:
        wrong: a sentence for each pod that is not where it may be.
        seen: how many cases had a node for all copies, for some, and for none; how many pods their
            own affinity alone would have allowed on more nodes, as ``ruled``; how many pods
            kube-scheduler tried, as ``pods``.
    """

    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def compare(
        self,
        cases: Sequence[Case],
        expected: Iterable[tuple[list[bool], list[bool]]],
        tried: Sequence[Object],
    ) -> None:
        """Take in the tried pods of all cases, of which ``_expected`` says where they may be."""
        by_case: dict[str, list[Object]] = {}
        for pod in tried:
            by_case.setdefault(pod["metadata"]["labels"][CASE], []).append(pod)
        for number, (case, (own, both)) in enumerate(zip(cases, expected, strict=True)):
            self.seen["all" if all(both) else "some" if any(both) else "none"] += 1
            self.seen["ruled"] += own != both
            self.wrong += [f"{case}: {what}" for what in _mistakes(by_case[str(number)], both)]

    def missing(self, cases: int) -> Iterator[str]:
        """Yield a sentence for each kind of case that came too seldom for the run to say much."""
        for kind, share in (("all", 50), ("some", 5), ("none", 20), ("ruled", 5)):
            if self.seen[kind] * share < cases:
                yield f"{self.seen[kind]} of {cases} cases are of the kind {kind}"


def place(
    plane: ControlPlane,
    judge: Path,
    folder: Path,
    chance: random.Random,
    count: int,
    pods_of_a_set: int = 1,
) -> Tally:
    """Put random sets of rules in force, have a pod of each placed, and compare.

    Args:
        plane: the control plane, in whose namespace default all pods are deleted afterwards.
        judge: the program that asks kube-scheduler's own code; folder: an empty folder.
        chance: decides everything.
        count: how many sets of rules.
        pods_of_a_set: for how many pods each set of rules is, with a copy of each for every node.
    """
    api = plane.api
    # Policies that were deleted stay in force for about a second: each run has its own names.
    names = [f"{folder.name}-{number}".lower() for number in range(count)]
    config = configuration(folder / "kubextend.yaml", *(random_profile(chance, n) for n in names))
    cases = [case for name in names for case in random_cases(chance, name, pods_of_a_set)]
    expected = _expected(LabelMatch(config), judge, cases)
    api.create_nodes(
        node(each["metadata"]["name"], {**each["metadata"]["labels"], POOL: "yes"})
        for each in NODES
    )
    scheduler = Scheduler(plane, folder.name, _scheduler_file(plane, folder, config))
    try:
        with installed(plane, config):
            pods = [pod for number, case in enumerate(cases) for pod in _pods(number, case)]
            api.create_all(PODS, pods)
            tried = until(lambda: _tried(api, len(pods)), "all pods are tried", PATIENCE_S, 0.5)
        api.delete_pods("default")
    finally:
        scheduler.close()
        api.call("DELETE", "/api/v1/nodes", labelSelector=POOL)
    tally = Tally(seen=Counter(pods=len(pods)))
    tally.compare(cases, expected, tried)
    return tally


def _scheduler_file(plane: ControlPlane, folder: Path, config: Path) -> Path:
    """Write kube-scheduler's configuration, which names no extender, and return the file."""
    kubeconfig = str(plane.kubeconfig("system:kube-scheduler"))
    options = ("--with-admission", "--kubeconfig", kubeconfig, "--no-leader-elect")
    text = run_kubextend("scheduler-config", "--config", config, *options)
    assert yaml.safe_load(text)["extenders"] == []
    file = folder / "kube-scheduler.yaml"
    file.write_text(text)
    return file


def _expected(
    called: LabelMatch, judge: Path, cases: Sequence[Case]
) -> Iterator[tuple[list[bool], list[bool]]]:
    """Yield which nodes each case's own affinity allows, and which of these LabelMatch keeps."""
    pods = [case.pod() for case in cases]
    for pod, answer in zip(pods, judged(judge, pods), strict=True):
        own = answer["allowed"]
        yield own, [a and b for a, b in zip(own, called.keeps(pod), strict=True)]


def _pods(number: int, case: Case) -> Iterator[Object]:
    """Yield the pod of a case, and a copy for each node that may run on this node only."""
    for only in ({POOL: "yes"}, *({HOST: name} for name in NAMES)):
        pod = case.pod()
        pod["metadata"]["labels"] = {**case.labels, CASE: str(number)}
        # kube-scheduler needs both, the selector and the affinity.
        pod["spec"]["nodeSelector"] = only
        yield pod


def _tried(api: Api, count: int) -> list[Object]:
    """Return the pods of all cases if each is bound or unschedulable; empty: not yet."""
    pods = api.pods("default", labelSelector=CASE)
    done = all(
        pod["spec"].get("nodeName") or condition(pod, "PodScheduled").get("reason") == UNSCHEDULABLE
        for pod in pods
    )
    return pods if done and len(pods) == count else []


def _mistakes(pods: Sequence[Object], allowed: Sequence[bool]) -> Iterator[str]:
    """Yield what is wrong with the pod of a case and its copies."""
    may = {name for name, allows in zip(NAMES, allowed, strict=True) if allows}
    for pod in pods:
        only = pod["spec"]["nodeSelector"].get(HOST)
        found = pod["spec"].get("nodeName")
        could = may & {only} if only else may
        if found not in could and (found or could):
            yield f"the pod for {only or 'any node'} is on {found}, and not on one of {could}"
        reason = condition(pod, "PodScheduled").get("message", "")
        if not found and not any(each in reason for each in REASONS):
            yield f"the pod for {only or 'any node'} is pending for another reason: {reason}"


@trial(rule_sets=2000, seed=0)
def rules(options: Namespace, report: Report) -> None:
    """Random rule sets as admission policies: pods are placed where LabelMatch would."""
    chance = random.Random(options.seed)
    seen: Counter[str] = Counter()
    with program_plane() as plane, TemporaryDirectory() as name:
        folder = Path(name)
        judge = build_judge(folder)
        for number, first in enumerate(range(0, options.rule_sets, RULE_SETS_AT_A_TIME)):
            count = min(RULE_SETS_AT_A_TIME, options.rule_sets - first)
            part = folder / f"rules-at-random-{number}"
            part.mkdir()
            tally = place(plane, judge, part, chance, count)
            for line in tally.wrong:
                report.mistake(line)
            seen += tally.seen
            report.say(f"{first + count} rule sets, {len(report.wrong)} wrong")
    for line in Tally(seen=seen).missing(options.rule_sets):
        report.mistake(line)
    report.tell(rule_sets=options.rule_sets, **seen)
