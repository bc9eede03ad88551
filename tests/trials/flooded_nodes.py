"""Floods nearly full nodes with the pods of two schedulers.

Each node has room for one more pod. One half of the pods has a kube-scheduler that calls kubextend,
the other half one that does not, or that only binds through kubextend. A node with two more pods
has too much. The figures are for each case how many nodes have too much, and how many of these
nodes kubextend overfilled: the Binding of one of its own pods came second.

- ``bare``: kubextend binds the pods of its kube-scheduler without the guard.
- ``guarded``: kubextend binds these pods with the guard; the other scheduler binds by itself.
- ``quick``: as ``guarded``, but the other kube-scheduler may make 1,000 API calls a second, not 50.
- ``together``: as ``guarded``, but the other scheduler binds through kubextend too.
"""

import json
from argparse import Namespace
from contextlib import closing
from dataclasses import dataclass
from itertools import count

import yaml
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import NodePool, Object, condition, pod
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import BACKOFF, Mode, Samples, Scheduler, Stack, run_kubextend
from tests.e2e.workbench import until

from .harness import Report, trial

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
        guard = self._case != "bare"
        with closing(Stack(self._plane, name, Mode(binds=True), guard=guard)) as ours:
            with closing(self._other_scheduler(ours)) as other:
                schedulers = [ours.scheduler_name, f"{name}-other"] * self._nodes
                pods = (pod(f"p{at}", each, name, cpu="100m") for at, each in enumerate(schedulers))
                api.create_pods(name, pods)
                until(lambda: self._is_over(pool, ours, other), "the nodes are full", PATIENCE_S, 1)
            refused = int(ours.counts().total("kubextend_guard_refusals_total"))
        placed = self._placed()
        api.delete_pods(name)
        pool.delete()
        until(lambda: not api.pods(name), "the pods are gone", every_s=0.5)
        pods_on: dict[str, list[str]] = {}
        for each in placed:
            pods_on.setdefault(each["spec"]["nodeName"], []).append(each["metadata"]["name"])
        overfull = [pods for pods in pods_on.values() if len(pods) > 1]
        mine = (each for each in placed if each["spec"]["schedulerName"] == ours.scheduler_name)
        our_pods = {each["metadata"]["name"] for each in mine}
        # The first pod of a node fits; each later one is too much.
        by_us = sum(not our_pods.isdisjoint(pods[1:]) for pods in overfull)
        return Outcome(len(placed), len(overfull), by_us, refused)

    def _other_scheduler(self, ours: Stack) -> Scheduler:
        """Run a kube-scheduler with its defaults, except for what the case says."""
        plane, name = self._plane, f"{self._name}-other"
        kubeconfig = plane.kubeconfig("system:kube-scheduler")
        rate = QUICK if self._case == "quick" else {}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), **rate},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": name}],
            **BACKOFF,
        }
        if self._case == "together":
            options = ("--config", ours.config, "--kubeconfig", kubeconfig, "--bind")
            entries = yaml.safe_load(run_kubextend("scheduler-config", *options))["extenders"]
            config["extenders"] = [entry for entry in entries if "bindVerb" in entry]
        file = plane.bench.folder / f"{name}.yaml"
        file.write_text(json.dumps(config))
        return Scheduler(plane, name, file)

    def _is_over(self, pool: NodePool, ours: Stack, other: Scheduler) -> bool:
        binding = [ours.scheduler_counts(), Samples(other.get("/metrics").text)]
        if any(each.total("scheduler_goroutines", operation="binding") for each in binding):
            return False
        waiting = self._plane.api.pods(self._name, fieldSelector="spec.nodeName=")
        tried = all(condition(each, "PodScheduled") for each in waiting)
        return tried and {each["spec"]["nodeName"] for each in self._placed()} == set(pool.names)

    def _placed(self) -> list[Object]:
        """Return the pods of the flood that are bound, in the order of their Bindings."""
        found = self._plane.api.pods(self._name, fieldSelector="spec.nodeName!=")
        placed = [each for each in found if not each["metadata"]["name"].startswith(FILLER)]
        # Nothing changes a pod after its Binding, as there is no kubelet.
        return sorted(placed, key=lambda each: int(each["metadata"]["resourceVersion"]))


def _filler(name: str, node: str) -> Object:
    """Return a pod that leaves room for one more pod on the node, and that is bound already."""
    filler = pod(f"{FILLER}-{node}", "none", name, cpu="900m")
    filler["spec"]["nodeName"] = node
    return filler


@trial("bare", "guarded", "quick", "together", nodes=500)
def flooded_nodes(options: Namespace, report: Report) -> None:
    """Two schedulers fill the last room of nodes: how many get too much, with and without guard."""
    outcomes = {}
    with program_plane() as plane:
        for case in options.words:
            outcomes[case] = Flood(plane, case, options.nodes).run()
            report.say(f"{case}: {outcomes[case]}")
    for case, each in outcomes.items():
        report.tell(**{f"overfull_{case}": each.overfull})
        if "bare" in outcomes:
            # The Bindings of the other scheduler that come later kubextend could not know of.
            share = 100 * each.by_us / max(1, outcomes["bare"].overfull)
            report.tell(**{f"percent_by_us_{case}": share})
