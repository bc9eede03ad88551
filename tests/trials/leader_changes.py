"""Ends the lead of a replica in three ways while pods are placed.

The leader is killed, is drained as in a rollout, or is cut off from the Kubernetes API. The pods'
plugin counts: a node takes one pod of each app, and there are as many places as pods. It is wrong
if a pod is bound twice or not at all, if a place is taken twice, or if no pod is bound for longer
than allowed.
"""

import statistics
import threading
import time
from argparse import Namespace
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from typing import Final

from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import NodePool, Object, pod
from tests.e2e.plugins.one_place import APP
from tests.e2e.program_plane import program_plane
from tests.e2e.workbench import until

from .harness import Report, trial
from .replicas import CUT, DRAINED, KILLED, KINDS, SCHEDULER, Replicas

# Seconds without a Binding that a change may cost.
BOUNDS_S: Final = {KILLED: 17.0, DRAINED: 2.0, CUT: 17.0}
# Seconds between two new pods: some come before, while and after nobody leads.
EVERY_S: Final = {KILLED: 0.2, DRAINED: 0.06, CUT: 0.2}
PLACED_WITHIN_S: Final = 120.0
STEADY_WITHIN_S: Final = 120.0
BEFORE_S: Final = 1.0


class Changes:
    """Changes the leader while pods are created, and judges where the pods came to be.

    Args:
        plane: the control plane.
        replicas: the replicas and their kube-scheduler.
        pods: how many pods are created for each change.
        report: gets what is wrong.

    Attributes:
        gaps_s: by kind of change, the longest time without a Binding of each change.
    """

    def __init__(self, plane: ControlPlane, replicas: Replicas, pods: int, report: Report) -> None:
        self.report = report
        self.gaps_s: dict[str, list[float]] = defaultdict(list)
        self._plane = plane
        self._api = plane.api
        self._replicas = replicas
        self._pods = pods
        self._changes = 0

    def run(self, kind: str) -> float:
        """Change the leader once; return the longest time in seconds without a Binding."""
        self._changes += 1
        name = f"changes-{self._changes}"
        namespace = self._api.create_namespace(name)
        # A node has a place for one pod of each of ten apps.
        nodes = NodePool(self._api, name, -(-self._pods // 10))
        until(self._replicas.is_steady, "one leads, both are ready", STEADY_WITHIN_S)
        change = threading.Thread(target=self._change, args=(kind,))
        manifests = _manifests(self._pods, nodes)
        began_s = time.monotonic()
        for number, each in enumerate(manifests):
            time.sleep(max(0.0, began_s + number * EVERY_S[kind] - time.monotonic()))
            if not change.ident and time.monotonic() > began_s + BEFORE_S:
                change.start()
            self._api.create_pods(namespace, [each])
        until(lambda: self._placed(namespace), "all pods are placed", PLACED_WITHIN_S, 0.2)
        change.join()
        self._judge(namespace)
        nodes.delete()
        gap_s = self._gap_s(namespace)
        self.gaps_s[kind].append(gap_s)
        if gap_s > BOUNDS_S[kind]:
            self.report.mistake(f"{name}: no pod was bound for {gap_s:.1f} s ({kind})")
        return gap_s

    def _change(self, kind: str) -> None:
        """Change the leader; what the change finds or raises is a mistake of the report."""
        try:
            for fault in self._replicas.change(kind):
                self.report.mistake(fault)
        except Exception as error:  # noqa: BLE001  nobody sees what a thread raises
            self.report.mistake(f"{kind}: {type(error).__name__}: {error}")

    def _placed(self, namespace: str) -> bool:
        return all(each["spec"].get("nodeName") for each in self._api.pods(namespace))

    def _judge(self, namespace: str) -> None:
        # Nobody can know whether such a Binding takes effect: ARCHITECTURE.md names this limit.
        unknown = self._plane.given_up(namespace)
        pods = [p for p in self._api.pods(namespace) if p["metadata"]["name"] not in unknown]
        bound = Counter(each["objectRef"]["name"] for each in self._plane.bindings(namespace))
        for each in pods:
            name = each["metadata"]["name"]
            if bound[name] != 1:
                self.report.mistake(f"{namespace}/{name} was bound {bound[name]} times")
        places = Counter(map(_place, pods))
        shared = [f"{app} on {node}" for (app, node), number in places.items() if number > 1]
        if shared:
            self.report.mistake(f"{namespace}: places were taken twice: {shared}")

    def _gap_s(self, namespace: str) -> float:
        times = sorted(
            datetime.fromisoformat(each["stageTimestamp"])
            for each in self._plane.bindings(namespace)
        )
        return max((late - early).total_seconds() for early, late in pairwise(times))


def _manifests(number: int, nodes: NodePool) -> list[Object]:
    apps = [f"app-{each % 10}" for each in range(number)]
    return [pod(f"p-{each:04}", SCHEDULER, nodes.name, {APP: app}) for each, app in enumerate(apps)]


def _place(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["labels"][APP], pod["spec"]["nodeName"]


@trial(times=20, pods=2000)
def leader_changes(options: Namespace, report: Report) -> None:
    """The leader of two replicas is killed, drained and cut off while pods are placed."""
    with program_plane() as plane:
        replicas = Replicas(plane)
        changes = Changes(plane, replicas, options.pods // options.times, report)
        for number in range(options.times):
            for kind in KINDS:
                gap_s = changes.run(kind)
                report.say(f"change {number + 1}, {kind}: no Binding for {gap_s:.2f} s")
        replicas.close()
    for kind, gaps_s in changes.gaps_s.items():
        report.say(f"{kind}: median {statistics.median(gaps_s):.2f} s without a Binding")
        report.tell(**{f"gap_s_when_{kind}": max(gaps_s)})
    report.tell(changes=3 * options.times, faults=len(report.wrong))
