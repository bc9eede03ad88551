"""Floods nearly full nodes with the pods of two schedulers: ``make flooded-nodes``.

Each node has room for one more pod. One half of the pods has a kube-scheduler that calls kubextend,
the other half one that does not, or that only binds through kubextend. A node with two more pods
has too much. The program says for each case how many nodes have too much:

- ``bare``: kubextend binds the pods of its kube-scheduler without the guard.
- ``guarded``: kubextend binds these pods with the guard; the other scheduler binds by itself.
- ``together``: as ``guarded``, but the other scheduler binds through kubextend too.

``cost`` is what the guard costs: how many pods a second one kube-scheduler binds to roomy nodes
through kubextend, without and with the guard, several times in turns.
"""

import argparse
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import yaml

from .controlplane import ControlPlane
from .kubeapi import NodePool, Object, condition, pod
from .program_plane import program_plane
from .stack import BACKOFF, Mode, Samples, Scheduler, Stack, run_kubextend
from .workbench import say, until

CASES = ("bare", "guarded", "together")
COST = "cost"
FILLER = "filler"
PATIENCE_S = 300.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Outcome:
    """What a flood left behind.

    Attributes:
        bound: how many pods of the flood are bound.
        overfull: how many nodes have more pods than they have room for.
        too_late: on how many of these nodes the last pod is one of the other scheduler.
        refused: how many bindings the guard prevented.
    """

    bound: int
    overfull: int
    too_late: int
    refused: int

    def __str__(self) -> str:
        return (
            f"{self.overfull} nodes overfull, {self.too_late} of them last by the other scheduler; "
            f"{self.bound} pods bound, {self.refused} refused"
        )


class Flood:
    """One flood: nodes with room for one pod each, and twice as many pods for two schedulers.

    Args:
        plane: the control plane.
        case: one of ``CASES``.
        nodes: how many nodes.
    """

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
        guards, through = self._case != "bare", self._case == "together"
        with _stack(self._plane, name, guard=guards) as ours:
            with _other_scheduler(self._plane, name, ours, through=through) as other:
                schedulers = [ours.scheduler_name, f"{name}-other"] * self._nodes
                pods = (pod(f"p{at}", each, name, cpu="100m") for at, each in enumerate(schedulers))
                api.create_pods(name, pods)
                until(lambda: self._is_over(pool, ours, other), "the nodes are full", PATIENCE_S, 1)
            refused = int(ours.counts().total("kubextend_guard_refusals_total"))
        placed = self._placed()
        _clean_up(self._plane, name, pool)
        taken = Counter(each["spec"]["nodeName"] for each in placed)
        last = {each["spec"]["nodeName"]: each["spec"]["schedulerName"] for each in placed}
        overfull = [node for node, count in taken.items() if count > 1]
        too_late = sum(last[node] == f"{name}-other" for node in overfull)
        return Outcome(len(placed), len(overfull), too_late, refused)

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


def bound_a_second(plane: ControlPlane, pods: int, *, guard: bool) -> float:
    """Bind pods to roomy nodes through kubextend; return how many are bound a second."""
    name = f"flood-{next(_numbers)}"
    plane.api.create_namespace(name)
    pool = NodePool(plane.api, name, max(1, pods // 10))
    with _stack(plane, name, guard=guard) as stack:

        def bound() -> int:
            return stack.attempts("scheduled")

        plane.api.create_pods(name, (pod(f"p{at}", name, name) for at in range(pods)))
        began_s, first = time.monotonic(), bound()
        until(lambda: bound() >= pods, "all are bound", PATIENCE_S, 0.05)
        rate = (pods - first) / (time.monotonic() - began_s)
    _clean_up(plane, name, pool)
    return rate


def _filler(name: str, node: str) -> Object:
    """Return a pod that leaves room for one more pod on the node, and that is bound already."""
    filler = pod(f"{FILLER}-{node}", "none", name, cpu="900m")
    filler["spec"]["nodeName"] = node
    return filler


@contextmanager
def _stack(plane: ControlPlane, name: str, *, guard: bool) -> Iterator[Stack]:
    stack = Stack(plane, name, Mode(binds=True), guard=guard)
    yield stack
    stack.close()


@contextmanager
def _other_scheduler(
    plane: ControlPlane, name: str, ours: Stack, *, through: bool
) -> Iterator[Scheduler]:
    """Run a kube-scheduler with its defaults; ``through``: it binds through kubextend."""
    kubeconfig = plane.kubeconfig("system:kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": f"{name}-other"}],
        **BACKOFF,
    }
    if through:
        options = ("--config", ours.config, "--kubeconfig", kubeconfig, "--bind")
        written = run_kubextend("scheduler-config", *options)
        entries = yaml.safe_load(written)["extenders"]
        config["extenders"] = [entry for entry in entries if "bindVerb" in entry]
    file = plane.bench.folder / f"{name}-other.yaml"
    file.write_text(json.dumps(config))
    scheduler = Scheduler(plane, f"{name}-other", file)
    yield scheduler
    scheduler.close()


def _clean_up(plane: ControlPlane, namespace: str, pool: NodePool) -> None:
    plane.api.delete_pods(namespace)
    pool.delete()
    until(lambda: not plane.api.pods(namespace), "the pods are gone", every_s=0.5)


def _compare(plane: ControlPlane, pods: int, times: int) -> None:
    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * times):
        # Without, with, with, without: what slows the machine down slows both.
        guard = turn % 4 in {1, 2}
        rates[guard].append(bound_a_second(plane, pods, guard=guard))
    for guard, found in rates.items():
        each = ", ".join(f"{rate:.0f}" for rate in found)
        which = "with" if guard else "without"
        say(f"{which} the guard: {statistics.median(found):.1f} pods a second ({each})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=(*CASES, COST))
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rates", type=int, default=6, help="how often each rate is measured")
    options = parser.parse_args()
    with program_plane() as plane:
        outcomes = {}
        for part in options.parts:
            if part == COST:
                _compare(plane, options.pods, options.rates)
            else:
                outcomes[part] = Flood(plane, part, options.pods // 2).run()
                say(f"{part}: {outcomes[part]}")
        say(json.dumps(_figures(outcomes)))


def _figures(outcomes: Mapping[str, Outcome]) -> dict[str, float]:
    """Return how many nodes have too much, beside those without the guard.

    Where the pod of the other scheduler came last, kubextend could not know of it.
    """
    figures: dict[str, float] = {
        f"overfull_{case}": each.overfull for case, each in outcomes.items()
    }
    if "bare" in outcomes:
        for case, each in outcomes.items():
            ours = each.overfull - each.too_late
            figures[f"percent_last_by_us_{case}"] = 100 * ours / max(1, outcomes["bare"].overfull)
    return figures


if __name__ == "__main__":
    main()
