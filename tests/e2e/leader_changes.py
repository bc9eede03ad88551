"""Ends the lead of a replica in three ways while pods are placed: ``make leader-changes``.

The leader is killed, is drained as in a rollout, or is cut off from the Kubernetes API.

The pods' plugin counts: a node takes one pod of each app, and there are as many places as pods. The
program prints for each change how long no pod was bound, and exits with 1 where a pod was bound
twice or not at all, a place was taken twice, or no pod was bound for longer than allowed. The last
line has the figures as JSON.
"""

import argparse
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Final, Protocol

from .controlplane import ControlPlane
from .kubeapi import NodePool, Object, pod
from .plugins.one_place import APP
from .program_plane import program_plane
from .replicas import CUT, DRAINED, KILLED, KINDS, SCHEDULER, Replicas
from .workbench import say, until

ROLLED = "rolled out"
# Seconds without a Binding that a change may cost.
BOUNDS_S: Final = {KILLED: 17.0, DRAINED: 2.0, CUT: 17.0, ROLLED: 2.0}
# Seconds between two new pods: some come before, while and after nobody leads.
EVERY_S: Final = {KILLED: 0.2, DRAINED: 0.06, CUT: 0.2, ROLLED: 0.15}
PLACED_WITHIN_S: Final = 120.0
STEADY_WITHIN_S: Final = 120.0
BEFORE_S: Final = 1.0


class Changing(Protocol):
    """Replicas of kubextend whose leader can be changed."""

    def change(self, kind: str) -> list[str]:
        """Change the leader; return sentences about what must not happen."""

    def is_steady(self) -> bool:
        """Return whether both replicas are ready, and one leads and has the label."""


@dataclass
class Report:
    """What a run of changes has found.

    Attributes:
        gaps_s: by kind of change, the longest time without a Binding of each change.
        faults: sentences about what must not happen.
    """

    gaps_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


class Changes:
    """Changes the leader while pods are created, and judges where the pods came to be.

    Args:
        plane: the control plane.
        replicas: the replicas and their kube-scheduler.
        pods: how many pods are created for each change.
        name: the name of the namespace and of the nodes.
    """

    def __init__(
        self, plane: ControlPlane, replicas: Changing, pods: int, name: str = "changes"
    ) -> None:
        self.report = Report()
        self._plane = plane
        self._api = plane.api
        self._replicas = replicas
        self._pods = pods
        self._name = name
        self._changes = 0

    def run(self, kind: str) -> float:
        """Change the leader once; return the longest time in seconds without a Binding."""
        self._changes += 1
        name = f"{self._name}-{self._changes}"
        namespace = self._api.create_namespace(name)
        nodes = NodePool(self._api, name, _nodes_for(self._pods))
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
        self.report.gaps_s[kind].append(gap_s)
        if gap_s > BOUNDS_S[kind]:
            self.report.faults.append(f"{name}: no pod was bound for {gap_s:.1f} s ({kind})")
        return gap_s

    def _change(self, kind: str) -> None:
        try:
            self.report.faults += self._replicas.change(kind)
        except Exception as error:  # noqa: BLE001  nobody sees what a thread raises
            self.report.faults.append(f"{kind}: {type(error).__name__}: {error}")

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
                self.report.faults.append(f"{namespace}/{name} was bound {bound[name]} times")
        places = Counter(map(_place, pods))
        shared = [f"{app} on {node}" for (app, node), number in places.items() if number > 1]
        if shared:
            self.report.faults.append(f"{namespace}: places were taken twice: {shared}")

    def _gap_s(self, namespace: str) -> float:
        times = sorted(
            datetime.fromisoformat(each["stageTimestamp"])
            for each in self._plane.bindings(namespace)
        )
        return max((late - early).total_seconds() for early, late in pairwise(times))


def _nodes_for(pods: int) -> int:
    """Return the number of nodes: a node has a place for one pod of each of ten apps."""
    return -(-pods // 10)


def _manifests(number: int, nodes: NodePool) -> list[Object]:
    apps = [f"app-{each % 10}" for each in range(number)]
    return [pod(f"p-{each:04}", SCHEDULER, nodes.name, {APP: app}) for each, app in enumerate(apps)]


def _place(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["labels"][APP], pod["spec"]["nodeName"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often each kind of change")
    parser.add_argument("--pods", type=int, default=2000, help="how many pods for each kind")
    options = parser.parse_args()
    with program_plane() as plane:
        replicas = Replicas(plane)
        report = _changed(plane, replicas, options.times, options.pods)
        replicas.close()
    for fault in report.faults:
        say(f"FAULT: {fault}")
    figures = {f"gap_s_when_{kind}": max(gaps_s) for kind, gaps_s in report.gaps_s.items()}
    say(json.dumps({"changes": 3 * options.times, "faults": len(report.faults)} | figures))
    return 1 if report.faults else 0


def _changed(plane: ControlPlane, replicas: Replicas, times: int, pods: int) -> Report:
    changes = Changes(plane, replicas, pods // times)
    for number in range(times):
        for kind in KINDS:
            gap_s = changes.run(kind)
            say(f"change {number + 1} of {times}, {kind}: no Binding for {gap_s:.2f} s")
    for kind, gaps_s in changes.report.gaps_s.items():
        ordered = sorted(gaps_s)
        say(
            f"{kind} {len(gaps_s)} times: no Binding for {ordered[-1]:.2f} s at most,"
            f" {ordered[len(ordered) // 2]:.2f} s as the median, {BOUNDS_S[kind]:.0f} s allowed"
        )
    return changes.report


if __name__ == "__main__":
    sys.exit(main())
