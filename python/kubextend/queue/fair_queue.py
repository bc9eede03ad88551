"""Sorts pods into flows that take turns, so that no flow waits for all pods of another.

A flow has the pods of one namespace, or every pod. A flow uses time mainly while the queue waits
for the flow's released pods; next is the flow that has used the least time. A flow that had no pod
for a while begins with the used time of the flow of the last release, so no flow saves up turns.
While a flow is paused, its pods wait, and the pods of other flows go on.

Source: Goyal, Vin and Cheng, Start-time Fair Queuing (SIGCOMM 1996); kube-apiserver's priority and
fairness orders requests in this way: k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

from kubextend.queue.entry import Entry
from kubextend.queue.heap import Before, Heap
from kubextend.queue.line import Line

__all__ = ["FairQueue"]

RELEASE_S: Final = 1 / 128
"""The seconds that a flow is charged in advance for each release, about as long as the quickest
release takes. Without the charge, all free places of the queue's window would go to one flow."""


@dataclass(slots=True, eq=False)
class _Flow:
    """The pods of one flow that wait to be released, and the time that the flow has used.

    Attributes:
        name: the name of the flow.
        pods: the pods, in the order of the QueueSort plugin; a pod group stands as one.
        used_s: the seconds that the flow's pods have used.
        taken: how many pods of the flow are in the queue's window: those for which ``begin`` was
            called, and ``end`` not yet.
    """

    name: str
    pods: Line
    used_s: float
    taken: int = 0


class FairQueue:
    """A queue of ready pods in which flows take turns.

    Among flows that have used equally much time, the order of their first pods decides. A change of
    a pod or a release takes time that grows as the logarithm of the number of pods.

    Args:
        order: the order of the pods of a flow.
        flow_of: returns the name of a pod's flow, which never changes for a pod.
    """

    def __init__(self, order: Before[Entry], flow_of: Callable[[Entry], str]) -> None:
        self._order = order
        self._flow_of = flow_of
        # While any pod is ready: every flow that differs from one that begins now.
        self._flows: dict[str, _Flow] = {}
        # The flows with ready pods whose turn may come.
        self._turns = Heap(_Turns(order))
        # The flows without pods that have used more than a flow that begins now; the least used
        # first.
        self._idle = Heap(_ByUsed())
        self._paused: set[str] = set()
        # The pod groups of which a member was released, and for which the queue waits.
        self._begun: set[str] = set()
        # The seconds that a flow that begins now counts as used.
        self._begins_s = 0.0
        self._size = 0

    def __len__(self) -> int:
        """Return the number of pods, paused flows included. Any thread may call this method."""
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all pods, paused flows included, in no particular order."""
        return (entry for flow in self._flows.values() for entry in flow.pods)

    @property
    def has_next(self) -> bool:
        """Whether a pod is ready whose flow is not paused."""
        return len(self._turns) > 0

    def push(self, entry: Entry) -> None:
        """Add a ready pod, or give a pod of the queue the place that fits its new version."""
        flow = self._flow(entry)
        if not flow.pods:
            flow.used_s = max(flow.used_s, self._begins_s)
        before = len(flow.pods)
        flow.pods.push(entry)
        self._size += len(flow.pods) - before
        self._moved(flow)

    def next(self, behind: Entry | None = None) -> Entry | None:
        """Return the next pod: the first of the flow that has used the least time; None: no pod.

        Args:
            behind: leave out each flow whose first pod kube-scheduler would try before this pod.
        """
        if not self._turns:
            return None
        first = self._turns.first.pods.first
        if behind is None or first.scheduler_order > behind.scheduler_order:
            return first
        order = behind.scheduler_order
        flow = self._turns.first_where(lambda flow: flow.pods.first.scheduler_order > order)
        return None if flow is None else flow.pods.first

    def remove(self, entry: Entry) -> None:
        """Remove a ready pod; do nothing if the queue does not have the pod."""
        flow = self._flows.get(self._flow_of(entry))
        if flow is not None:
            before = len(flow.pods)
            flow.pods.remove(entry)
            self._size += len(flow.pods) - before
            self._moved(flow)

    def release(self, entry: Entry) -> None:
        """Charge the pod's flow 1/128 s in advance for a release.

        A flow that gets its first pod later begins at no less than this flow had used before.
        """
        flow = self._flow(entry)
        self._begins_s = max(self._begins_s, flow.used_s)
        self._charge(flow, RELEASE_S)
        while self._idle and self._idle.first.used_s <= self._begins_s:
            idle = self._idle.first
            self._idle.remove(idle)
            del self._flows[idle.name]

    def begin_group(self, entry: Entry) -> None:
        """Note that a member of the entry's pod group is released: the others need no turn."""
        flow = self._flow(entry)
        flow.pods.begin(entry.group)
        self._moved(flow)

    def end_group(self, entry: Entry) -> None:
        """Note that the queue waits for the entry's pod group no more: its pods need a turn."""
        flow = self._flow(entry)
        flow.pods.end(entry.group)
        self._moved(flow)

    def member(self, entry: Entry) -> Entry | None:
        """Return the first ready pod of the entry's pod group; None: none is ready."""
        flow = self._flows.get(self._flow_of(entry))
        return None if flow is None else flow.pods.member(entry.group)

    def begin(self, entry: Entry) -> None:
        """Record that a pod enters the queue's window, so that its flow is kept until ``end``.

        The window has the pods whose gate is being removed, and the released pods that the queue
        waits for. A flow has the pods of one namespace, or all pods.
        """
        flow = self._flow(entry)
        flow.taken += 1
        self._moved(flow)

    def end(self, entry: Entry, seconds: float) -> None:
        """Record that a pod leaves the queue's window; charge the pod's flow for the time there.

        A flow has the pods of one namespace, or all pods; the flow that was charged least is next.

        Args:
            entry: a pod for which ``begin`` was called.
            seconds: for how long the pod took a place in the window.
        """
        flow = self._flow(entry)
        flow.taken -= 1
        self._charge(flow, seconds)

    def charge(self, entry: Entry, seconds: float) -> None:
        """Charge the flow of a pod for time, such as the time of PreEnqueue plugins for the pod.

        The pod need not be in the queue any more.

        Args:
            entry: the pod.
            seconds: how long the work for the pod took.
        """
        self._charge(self._flow(entry), seconds)

    def pause(self, name: str) -> None:
        """Skip the pods of the flow ``name`` until ``resume``; the flow need not have pods yet."""
        if name not in self._paused:
            self._paused.add(name)
            flow = self._flows.get(name)
            if flow is not None:
                self._turns.remove(flow)

    def resume(self, name: str) -> None:
        """End the pause of the flow ``name``; the flow gets no extra turns for the pause."""
        if name in self._paused:
            self._paused.remove(name)
            flow = self._flows.get(name)
            if flow is not None and flow.pods:
                flow.used_s = max(flow.used_s, self._begins_s)
                self._moved(flow)

    def is_paused(self, name: str) -> bool:
        """Return whether the pods of the flow ``name`` wait until ``resume``."""
        return name in self._paused

    def ordered(self) -> list[Entry]:
        """Return the ready pods in the order in which the queue will release them.

        The order assumes that the queue waits equally long for each released pod. Pods that no turn
        decides about are left out: those of paused flows, and of groups that ``begin_group`` named.
        """
        turns = [turn for flow in self._turns for turn in _turns_of(flow)]

        def compared(a: tuple[float, list[Entry]], b: tuple[float, list[Entry]]) -> int:
            before = a[0] < b[0] if a[0] != b[0] else self._order.before(a[1][0], b[1][0])
            return -1 if before else 1

        return [entry for _, pods in sorted(turns, key=cmp_to_key(compared)) for entry in pods]

    def paused(self) -> list[Entry]:
        """Return the pods of paused flows, flow by flow, each flow's pods in order."""
        flows = [flow for name, flow in self._flows.items() if name in self._paused]
        return [entry for flow in flows for pods in flow.pods.ordered() for entry in pods]

    def following(self) -> list[Entry]:
        """Return the members that may be released of each pod group given to ``begin_group``."""
        return [entry for flow in self._flows.values() for entry in flow.pods.begun()]

    def _flow(self, entry: Entry) -> _Flow:
        name = self._flow_of(entry)
        flow = self._flows.get(name)
        if flow is None:
            flow = self._flows[name] = _Flow(name, Line(self._order, self._begun), self._begins_s)
        return flow

    def _charge(self, flow: _Flow, seconds: float) -> None:
        flow.used_s += seconds
        self._moved(flow)

    def _moved(self, flow: _Flow) -> None:
        """Move a changed flow to its new place; if no flow has a pod, make all used times equal."""
        if flow.pods.has_first and flow.name not in self._paused:
            self._turns.push(flow)
        else:
            self._turns.remove(flow)
        if flow.pods or flow.taken:
            self._idle.remove(flow)
        else:
            self._idle.push(flow)
        if not self._size:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Make the used times of all flows equal; the next release forgets flows without pods."""
        self._begins_s = max([self._begins_s, *(flow.used_s for flow in self._flows.values())])
        for flow in self._flows.values():
            flow.used_s = self._begins_s


def _turns_of(flow: _Flow) -> Iterator[tuple[float, list[Entry]]]:
    """Yield what stands in line in a flow, with the time that the flow will have used before."""
    used_s = flow.used_s
    for pods in flow.pods.ordered():
        yield used_s, pods
        used_s += len(pods) * RELEASE_S


@dataclass(frozen=True, slots=True)
class _Turns:
    """The order of flows with ready pods: by the time that each used, then by their first pods."""

    pods: Before[Entry]

    def before(self, a: _Flow, b: _Flow, /) -> bool:
        if a.used_s != b.used_s:
            return a.used_s < b.used_s
        return self.pods.before(a.pods.first, b.pods.first)


class _ByUsed:
    """The order of flows by the time that each flow used, the least first."""

    def before(self, a: _Flow, b: _Flow, /) -> bool:
        return a.used_s < b.used_s
