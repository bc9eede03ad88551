"""The door of the scheduling queue: gated pods, a clock that a test moves, and a queue.

Tests name pods; this module alone knows how the queue is constructed, and what it is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tests.doors import kube_api
from tests.doors.still_time import Clock

from kubextend.plugins import QOSSort
from kubextend.scheduling_queue import (
    Order,
    PreEnqueue,
    SchedulingQueue,
    Settings,
    Strategy,
)
from kubextend.testing import pod_manifest
from kubextend.testing.objects import pod_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kubextend import core
    from kubextend.errors import PluginError

__all__ = [
    "GATE",
    "MAX_HOLD_S",
    "NEXT_NAMESPACE_S",
    "OURS",
    "Clock",
    "PreEnqueuePlugin",
    "Queue",
    "Strategy",
    "alive",
    "of_namespace",
    "pod",
    "queue_configuration",
    "released",
]

GATE: Final = "kubextend.dev/queue"
OURS: Final = "default-scheduler"
MAX_HOLD_S: Final = 60.0
NEXT_NAMESPACE_S: Final = 1 / 8
"""After so many seconds without an attempt at a pod, the pod delays its own namespace alone."""


def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(1_900_000_000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(  # noqa: PLR0913 - what the queue looks at
    name: str,
    *,
    gates: Iterable[str] = (GATE,),
    priority: int | None = 0,
    second: int = 0,
    reason: str = "SchedulingGated",
    generation: int | None = None,
    qos: str = "BestEffort",
    node: str = "",
    deleted: bool = False,
    scheduler: str = OURS,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    group: str = "",
) -> core.Pod:
    """Return a pod as the API shows it; the same name always gives the same UID.

    Args:
        second: the second of the pod's creation.
        reason: the reason of the condition PodScheduled; empty: the pod has no such condition.
        generation: metadata.generation; None: 1 with a gate, 2 without one.
    """
    gates = list(gates)
    spec: dict[str, Any] = {"schedulingGates": [{"name": gate} for gate in gates]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    manifest: dict[str, Any] = pod_manifest(
        name,
        uid=f"uid-{name}",
        priority=priority,
        creation_timestamp=_timestamp(second),
        scheduler_name=scheduler,
        namespace=namespace,
        node_name=node,
        labels=labels,
        **spec,
    )
    if generation is None:
        generation = 1 if gates else 2
    manifest["metadata"]["generation"] = generation
    if deleted:
        manifest["metadata"]["deletionTimestamp"] = _timestamp(second + 1)
    manifest["status"]["qosClass"] = qos
    if reason:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        manifest["status"]["conditions"] = [condition]
    return pod_of(manifest)


def released(name: str, reason: str = "SchedulingGated", **fields: Any) -> core.Pod:
    """Return the pod of this name without a gate, on no node yet."""
    return pod(name, gates=(), reason=reason, **fields)


def of_namespace(namespace: str, count: int, **fields: Any) -> list[core.Pod]:
    """Return gated pods of a namespace, whose names begin with its name."""
    return [pod(f"{namespace}{number}", namespace=namespace, **fields) for number in range(count)]


class PreEnqueuePlugin:
    """A PreEnqueue plugin that answers what a test says."""

    def __init__(self, answer: Callable[[core.Pod], Any], name: str = "P") -> None:
        self.name = name
        self._answer = answer

    def pre_enqueue(self, held: core.Pod) -> Any:
        return self._answer(held)


@dataclass
class Queue:
    """A scheduling queue, and what the API, kube-scheduler and Permit tell it.

    Attributes:
        by_namespace: whether namespaces take turns.
        plugin: the QueueSort plugin.
        ignored: the names of the plugins whose failures are ignored.
        holds: why a PreEnqueue plugin holds a pod back, by the pod's name.
        most_unschedulable: with fewer unschedulable pods than this, a namespace has no pause.
        leads: whether this replica releases pods.
    """

    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    window: int = 1
    by_namespace: bool = False
    plugin: Any = field(default_factory=QOSSort)
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    ignored: frozenset[str] = frozenset()
    holds: dict[str, str] = field(default_factory=dict)
    most_unschedulable: int = 100
    clock: Clock = field(default_factory=Clock)
    leads: bool = True
    failures: list[PluginError] = field(default_factory=list)

    def __post_init__(self) -> None:
        fail = self.failures.append
        self._asked = PreEnqueue({OURS: self.pre_enqueue}, {OURS: self.ignored}, fail)
        self._queue = SchedulingQueue(
            Settings(
                *(GATE, {OURS}, self.strategy, self.window, MAX_HOLD_S, self.by_namespace),
                self.most_unschedulable,
            ),
            Order(self.plugin, fail),
            self._why_held,
            self.clock,
            lambda: self.leads,
        )

    def _why_held(self, held: core.Pod) -> str:
        return self.holds.get(held.name, "") or self._asked.why_held(held)

    def list(self, *pods: core.Pod) -> None:
        """Show the queue all pods without a node, as after a start."""
        self._queue.replace(pods)

    def show(self, *pods: core.Pod) -> None:
        """Show the queue added or changed pods."""
        for each in pods:
            self._queue.observe(each)

    def gone(self, *names: str) -> None:
        """Tell the queue that pods are bound or deleted."""
        for name in names:
            self._queue.forget(f"uid-{name}")

    def due(self) -> list[str]:
        """Return the pods whose gates are to be removed now."""
        return [each.name for each in self._queue.due()]

    def release(self) -> list[str]:
        """Remove the gates of all pods that are due, and return the names of the pods."""
        names = self.due()
        self.patched(*names)
        return names

    def release_all(self) -> list[str]:
        """Release pods until none is due; none of them is bound."""
        names: list[str] = []
        while due := self.release():
            names += due
        return names

    def drain(self, seconds: float = 0.0) -> list[str]:
        """Release and bind pods until none is due, each bound after so many seconds."""
        names: list[str] = []
        while due := self.release():
            names += due
            self.clock.pass_s(seconds)
            self.gone(*due)
        return names

    def patched(self, *names: str) -> None:
        """Tell the queue that the gates of pods are removed."""
        for name in names:
            self._queue.released(f"uid-{name}")

    def refused(
        self, name: str, why: str = "no", retry_after_s: float = 0.0, *, api_fails: bool = False
    ) -> None:
        """Tell the queue that the API does not remove a pod's gate, or answers nobody."""
        self._queue.refused(f"uid-{name}", why, retry_after_s, api_fails=api_fails)

    def unsent(self, name: str) -> None:
        """Tell the queue that a patch was not sent, as this replica does not lead."""
        self._queue.returned(f"uid-{name}")

    def permit_holds(self, *names: str) -> None:
        for name in names:
            self._queue.held_in_permit(f"uid-{name}")

    def permit_lets_go(self, *names: str) -> None:
        for name in names:
            self._queue.left_permit(f"uid-{name}")

    def look_without_lease(self) -> None:
        """Look at the time, as a replica that does not lead."""
        self._queue.expire()

    def next_look_s(self) -> float | None:
        """Return when time alone may make a pod due, in seconds; None: it does not."""
        return self._queue.next_look_s()

    def state(self, name: str) -> str:
        """Return the state of a pod as on ``/metrics``; empty: the queue does not have the pod."""
        return next((state for _, of, state, _ in self.shown() if of == name), "")

    def why(self, name: str) -> str:
        """Return what ``kubextend queue`` says of a pod."""
        return next(why for _, of, _, why in self.shown() if of == name)

    def why_gated(self, name: str) -> str:
        """Return what ``kubextend why`` says a pod waits for; empty: the queue does not know."""
        return self._queue.why_waiting(f"uid-{name}")

    def shown(self, *, ask_plugins: bool = False) -> list[tuple[int | None, str, str, str]]:
        """Return position, name, state and reason of each pod, as ``kubextend queue`` lists them.

        Args:
            ask_plugins: whether the PreEnqueue plugins are asked about all pods before.
        """
        if ask_plugins:
            self._queue.look_ahead()
        return [
            (each.position, each.info.pod.name, each.state.value, each.why)
            for each in self._queue.entries()
        ]

    def positions(self) -> dict[str, int]:
        """Return the place of each pod that has one, in order."""
        return {name: place for place, name, _, _ in self.shown() if place is not None}

    def counts(self) -> dict[str, int]:
        """Return how many pods are in each state, as on ``/metrics``."""
        return {state.value: count for state, count in self._queue.counts().items()}


def queue_configuration(kubeconfig: Path, *pre_enqueue: str, **queue: Any) -> dict[str, Any]:
    """Return the tree of a configuration with a queue, sorted by PrioritySort."""
    plugins = {
        "queueSort": {"enabled": [{"name": "PrioritySort"}]},
        "preEnqueue": {"enabled": [{"name": name} for name in pre_enqueue]},
    }
    profile = {"schedulerName": OURS, "plugins": plugins}
    return kube_api.configuration(kubeconfig, profile, queue=queue)


def alive(running: kube_api.Running) -> tuple[int, str]:
    """Return the status and the text of ``/livez``."""
    return running.app.health.livez(verbose=True)
