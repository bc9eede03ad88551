"""Makes gated pods, a clock that a test moves, and a scheduling queue, for the queue's tests."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.plugins import QOSSort
from kubextend.queue import (
    FairQueuing,
    Order,
    QueueEntry,
    SchedulingQueue,
    Settings,
    State,
    Strategy,
)
from kubextend.testing import pod_manifest
from kubextend.testing.objects import pod_of

GATE = "kubextend.dev/queue"
OURS = "default-scheduler"
WINDOW_HOLD_S = 60.0

_NUMBERS = itertools.count()


@dataclass
class Clock:
    """A clock in seconds that a test moves by hand."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


def timestamp(second: int) -> str:
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
        name: the name of the pod, from which its UID follows.
        gates: the names of the pod's scheduling gates.
        priority: the pod's priority, as a number.
        second: the second of the pod's creation.
        reason: the reason of the condition PodScheduled; empty: the pod has no such condition.
        generation: metadata.generation; None: 1 with a gate, 2 without one.
        qos: the pod's QoS class.
        node: the name of the pod's node; empty: not bound.
        deleted: whether the pod is being deleted.
        scheduler: the pod's spec.schedulerName.
        namespace: the pod's namespace.
        labels: the pod's labels.
        group: the name of the pod's pod group; empty: the pod has none.
    """
    gates = list(gates)
    spec: dict[str, Any] = {"schedulingGates": [{"name": gate} for gate in gates]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    manifest: dict[str, Any] = pod_manifest(
        name,
        uid=f"uid-{name}",
        priority=priority,
        creation_timestamp=timestamp(second),
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
        manifest["metadata"]["deletionTimestamp"] = timestamp(second + 1)
    manifest["status"]["qosClass"] = qos
    if reason:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        manifest["status"]["conditions"] = [condition]
    return pod_of(manifest)


def released(name: str, reason: str = "SchedulingGated", **fields: Any) -> core.Pod:
    """Return the pod of this name without a gate, on no node yet."""
    return pod(name, gates=(), reason=reason, **fields)


def info(made: core.Pod, second: float = 0) -> QueuedPodInfo:
    return QueuedPodInfo(made, second)


@dataclass
class Queue:
    """A SchedulingQueue with stand-ins for its collaborators.

    Attributes:
        holds: why PreEnqueue holds a pod back, by the pod's name.
        why_held: returns why a pod is held back, in place of ``holds``.
        leads: returns whether this replica releases pods.
        fair_queuing: which pods take turns.
        most_unschedulable: with fewer unschedulable pods than this, a namespace has no pause.
        failures: the failures of plugins.
    """

    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    window: int = 1
    plugin: Any = field(default_factory=QOSSort)
    holds: dict[str, str] = field(default_factory=dict)
    why_held: Callable[[core.Pod], str] | None = None
    leads: Callable[[], bool] = lambda: True
    fair_queuing: FairQueuing = FairQueuing.NONE
    most_unschedulable: int = 100
    clock: Clock = field(default_factory=Clock)
    failures: list[PluginError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = SchedulingQueue(
            Settings(
                GATE,
                {OURS},
                self.strategy,
                self.window,
                WINDOW_HOLD_S,
                self.fair_queuing,
                self.most_unschedulable,
            ),
            Order(self.plugin, self.failures.append),
            self.why_held or (lambda made: self.holds.get(made.name, "")),
            self.clock,
            self._leads,
        )

    def _leads(self) -> bool:
        return self.leads()

    def observe(self, *pods: core.Pod) -> None:
        for made in pods:
            self.queue.observe(made)

    def due(self) -> list[str]:
        return [made.name for made in self.queue.due()]

    def release(self) -> list[str]:
        """Release all pods that are due, tell the queue so, and return the names of the pods."""
        names = self.due()
        for name in names:
            self.queue.released(f"uid-{name}")
        return names

    def entry(self, name: str) -> QueueEntry:
        return next(entry for entry in self.queue.entries() if entry.info.pod.name == name)

    def state(self, name: str) -> State | None:
        """Return the state of a pod in the queue; None: the queue does not have the pod."""
        found = [entry.state for entry in self.queue.entries() if entry.info.pod.name == name]
        return found[0] if found else None
