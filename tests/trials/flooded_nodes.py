"""Floods nearly full nodes with the pods of two schedulers.

Each node has room for one more pod. One half of the pods has a kube-scheduler that calls kubextend,
the other half one that does not, or that only binds through kubextend. A node with two more pods
has too much. The figures are for each case how many nodes have too much, and how many of these
nodes kubextend overfilled: the Binding of one of its own pods came second.

- ``bare``: kubextend binds the pods of its kube-scheduler without the guard.
- ``guarded``: kubextend binds these pods with the guard; the other scheduler binds by itself.
- ``quick``: as ``guarded``, but the other kube-scheduler may make 1,000 API calls a second, not 50.
- ``together``: as ``guarded``, but the other scheduler binds through kubextend too.

``cost`` is what the guard costs: how many pods a second one kube-scheduler binds to roomy nodes
through kubextend, and how much CPU that takes, without and with the guard, in turns.
"""

import json
import statistics
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Final

import yaml
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import NodePool, Object, condition, pod
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import BACKOFF, Mode, Samples, Scheduler, Stack, run_kubextend
from tests.e2e.workbench import until

from .harness import Report, trial

CASES = ("bare", "guarded", "quick", "together")
COST = "cost"
FILLER = "filler"
PATIENCE_S = 300.0
QUICK = {"qps": 1000, "burst": 1000}
_numbers = count()


@dataclass(frozen=True)
class Outcome:
    """What a flood left behind.

    Attributes:
        bound: how many pods of the flood are bound.
        overfull: how many nodes have more pods than they have room for.
        by_us: how many of these nodes kubextend overfilled with a pod of its own kube-scheduler.
        refused: how many bindings the guard prevented.
    """

    bound: int
    overfull: int
    by_us: int
    refused: int


class Flood:
    """One flood: nodes with room for one pod each, and twice as many pods for two schedulers."""

    def __init__(self, plane: ControlPlane, case: str, nodes: int) -> None:
        self._plane = plane
        self._case = case
        self._nodes = nodes
        self._name = f"flood-{next(_numbers)}"

    def run(self) -> Outcome:
        """Make the flood, and wait until every node is full and nothing is bound any more."""
        api, name = self._plane.api, self._name
        api.create_namespace(name)
        pool = NodePool(api, name, self._nodes, cpu="1")
        api.create_pods(name, (_filler(name, node) for node in pool.names))
        with _stack(self._plane, name, guard=self._case != "bare") as ours:
            with _other_scheduler(self._plane, name, ours, self._case) as other:
                schedulers = [ours.scheduler_name, f"{name}-other"] * self._nodes
                pods = (pod(f"p{at}", each, name, cpu="100m") for at, each in enumerate(schedulers))
                api.create_pods(name, pods)
                until(lambda: self._is_over(pool, ours, other), "the nodes are full", PATIENCE_S, 1)
            refused = int(ours.counts().total("kubextend_guard_refusals_total"))
        placed = self._placed()
        _clean_up(self._plane, name, pool)
        pods_on: dict[str, list[str]] = {}
        for each in placed:
            pods_on.setdefault(each["spec"]["nodeName"], []).append(each["metadata"]["name"])
        overfull = [pods for pods in pods_on.values() if len(pods) > 1]
        mine = (each for each in placed if each["spec"]["schedulerName"] == ours.scheduler_name)
        our_pods = {each["metadata"]["name"] for each in mine}
        # The first pod of a node fits; each later one is too much.
        by_us = sum(not our_pods.isdisjoint(pods[1:]) for pods in overfull)
        return Outcome(len(placed), len(overfull), by_us, refused)

    def _is_over(self, pool: NodePool, ours: Stack, other: Scheduler) -> bool:
        binding = [ours.scheduler_counts(), Samples(other.get("/metrics").text)]
        name = "scheduler_goroutines"
        if any(each.total(name, operation="binding") for each in binding):
            return False
        waiting = self._plane.api.pods(self._name, fieldSelector="spec.nodeName=")
        tried = all(condition(each, "PodScheduled") for each in waiting)
        taken = {each["spec"]["nodeName"] for each in self._placed()}
        return tried and taken == set(pool.names)

    def _placed(self) -> list[Object]:
        """Return the pods of the flood that are bound, in the order of their Bindings."""
        found = self._plane.api.pods(self._name, fieldSelector="spec.nodeName!=")
        placed = [each for each in found if not each["metadata"]["name"].startswith(FILLER)]
        # Nothing changes a pod after its Binding, as there is no kubelet.
        return sorted(placed, key=lambda each: int(each["metadata"]["resourceVersion"]))


def _at(event: Object, stamp: str) -> datetime:
    return datetime.fromisoformat(event[stamp])


@dataclass(frozen=True)
class Rate:
    """How fast pods were bound.

    Attributes:
        bound_a_second: how many pods a second were bound, from the first Binding to the last.
        cpu_ms: how many milliseconds of CPU the control plane took for each pod: kubextend,
            kube-scheduler, kube-apiserver and etcd together.
        own_cpu_ms: how many of these kubextend took.
    """

    bound_a_second: float
    cpu_ms: float
    own_cpu_ms: float


def bound_at_once(plane: ControlPlane, pods: int, *, guard: bool) -> Rate:
    """Bind pods to roomy nodes through kubextend; kube-scheduler finds all of them as it starts."""
    name = f"flood-{next(_numbers)}"
    plane.api.create_namespace(name)
    pool = NodePool(plane.api, name, max(1, pods // 10))
    with _stack(plane, name, guard=guard) as stack:
        # The guard needs the watch of pods, which has work as soon as pods are created.
        before = _processor_s(plane)
        stack.restart_scheduler(_creating(plane, name, pods))
        until(lambda: stack.attempts("scheduled") >= pods, "all are bound", PATIENCE_S, 0.5)
        until(lambda: len(plane.bindings(name)) == pods, "the audit log has all", PATIENCE_S, 0.5)
        after = _processor_s(plane)
        used_ms = {pid: 1000 * (s - before.get(pid, 0.0)) / pods for pid, s in after.items()}
        own_ms = used_ms[stack.pid]
    times = sorted(_at(each, "stageTimestamp") for each in plane.bindings(name))
    _clean_up(plane, name, pool)
    took_s = (times[-1] - times[0]).total_seconds()
    return Rate((pods - 1) / took_s, sum(used_ms.values()), own_ms)


def _processor_s(plane: ControlPlane) -> dict[int, float]:
    """Return the processor time in seconds of each program, by its process id."""
    return {program.pid: program.processor_s() for program in plane.bench.programs}


@contextmanager
def _creating(plane: ControlPlane, name: str, pods: int) -> Iterator[None]:
    plane.api.create_pods(name, (pod(f"p{at}", name, name) for at in range(pods)))
    yield


def _filler(name: str, node: str) -> Object:
    """Return a pod that leaves room for one more pod on the node, and that is bound already."""
    filler = pod(f"{FILLER}-{node}", "none", name, cpu="900m")
    filler["spec"]["nodeName"] = node
    return filler


def _stack(plane: ControlPlane, name: str, *, guard: bool) -> closing[Stack]:
    return closing(Stack(plane, name, Mode(binds=True), guard=guard))


def _other_scheduler(plane: ControlPlane, name: str, ours: Stack, case: str) -> closing[Scheduler]:
    """Run a kube-scheduler with its defaults, except for what the case says."""
    kubeconfig = plane.kubeconfig("system:kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), **(QUICK if case == "quick" else {})},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": f"{name}-other"}],
        **BACKOFF,
    }
    if case == "together":
        options = ("--config", ours.config, "--kubeconfig", kubeconfig, "--bind")
        written = run_kubextend("scheduler-config", *options)
        entries = yaml.safe_load(written)["extenders"]
        config["extenders"] = [entry for entry in entries if "bindVerb" in entry]
    file = plane.bench.folder / f"{name}-other.yaml"
    file.write_text(json.dumps(config))
    return closing(Scheduler(plane, f"{name}-other", file))


def _clean_up(plane: ControlPlane, namespace: str, pool: NodePool) -> None:
    plane.api.delete_pods(namespace)
    pool.delete()
    until(lambda: not plane.api.pods(namespace), "the pods are gone", every_s=0.5)


def _compare(plane: ControlPlane, pods: int, times: int, report: Report) -> None:
    """Measure what the guard costs, in percent, from rates that are measured in turns.

    On a machine whose CPU limits the pods a second, the CPU for each pod is the better measure: it
    does not depend on what else runs.
    """
    rates: dict[bool, list[Rate]] = {False: [], True: []}
    for turn in range(2 * times):
        # Without, with, with, without: what slows the machine down slows both.
        guard = turn % 4 in {1, 2}
        rates[guard].append(bound_at_once(plane, pods, guard=guard))
        report.say(f"{'with' if guard else 'without'} the guard: {rates[guard][-1]}")
    for name, cost in _COSTS.items():
        without, guarded = (statistics.median(map(cost, rates[on])) for on in (False, True))
        report.tell(**{f"percent_more_{name}": 100 * (guarded / without - 1)})


_COSTS: Final[Mapping[str, Callable[[Rate], float]]] = {
    "time": lambda rate: 1 / rate.bound_a_second,
    "cpu": lambda rate: rate.cpu_ms,
    "own_cpu": lambda rate: rate.own_cpu_ms,
}


@trial(words=(*CASES, COST), pods=(1000, 40), rates=(6, 1))
def flooded_nodes(options: Namespace, report: Report) -> None:
    """Two schedulers fill the last room of nodes: how many get too much, and the guard's cost."""
    outcomes = {}
    with program_plane() as plane:
        for part in options.words:
            if part == COST:
                _compare(plane, options.pods, options.rates, report)
            else:
                outcomes[part] = Flood(plane, part, options.pods // 2).run()
                report.say(f"{part}: {outcomes[part]}")
    for case, each in outcomes.items():
        report.tell(**{f"overfull_{case}": each.overfull})
        if "bare" in outcomes:
            # The Bindings of the other scheduler that come later kubextend could not know of.
            share = 100 * each.by_us / max(1, outcomes["bare"].overfull)
            report.tell(**{f"percent_by_us_{case}": share})
