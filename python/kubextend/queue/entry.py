"""An entry of the scheduling queue: a pod, and what the pod waits for."""

import math
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from kubextend import core
from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["Entry", "GroupEntry", "QueueEntry", "State", "info_of"]


class State(Enum):
    """The stage of a pod on its way through the scheduling queue."""

    READY = "ready"
    """The pod waits for its turn."""
    HELD = "held"
    """The pod may not be released yet; other pods go before it."""
    SET_ASIDE = "set_aside"
    """The pod's gate could not be removed; other pods go first until the queue tries again."""
    RELEASING = "releasing"
    """The removal of the pod's scheduling gate is under way."""
    RELEASED = "released"
    """kube-scheduler has the pod, and the queue waits for it."""
    PASSED = "passed"
    """kube-scheduler has the pod, and the queue does not wait for it, or never had it."""


@dataclass(slots=True, eq=False)
class Entry:
    """The record of a pod, which changes as the pod goes through the scheduling queue.

    The window is the set of pods whose gate is being removed, and of released pods that the queue
    waits for.

    Attributes:
        info: the pod as plugins see it.
        sequence: order of arrival; decides between pods that the QueueSort plugin ranks as equal.
        state: the stage of the pod.
        why: why the pod is held back or set aside.
        again_at_s: when the queue looks at a held pod again; infinite: when the pod changes.
        held_times: how often the pod was found to be held back since it last changed.
        refused_times: how often the gate could not be removed.
        tried: whether this replica has ever tried to remove the pod's gate.
        beside: whether only the pod's namespace waits for the pod, which then takes no place in the
            window.
        in_permit: whether Permit holds the pod on the node that kube-scheduler found for it.
        unschedulable: whether the pod counts as one that kube-scheduler cannot place.
        entered_at_s: when the removal of the gate began, or later when the pod was released.
        leaves_at_s: when the queue stops waiting for the pod.
        group: namespace and name of the pod group that the pod names in ``spec.schedulingGroup``,
            which never changes; "" for a pod without a group.
    """

    info: QueuedPodInfo
    sequence: int
    state: State = State.READY
    why: str = ""
    again_at_s: float = math.inf
    held_times: int = 0
    refused_times: int = 0
    tried: bool = False
    beside: bool = False
    in_permit: bool = False
    unschedulable: bool = False
    entered_at_s: float = math.inf
    leaves_at_s: float = math.inf
    group: str = field(init=False)

    def __post_init__(self) -> None:
        name = self.pod.scheduling_group
        self.group = f"{self.pod.namespace}/{name}" if name else ""

    @property
    def name(self) -> str:
        """Namespace and name of the pod, for people."""
        return f"{self.pod.namespace}/{self.pod.name}"

    @property
    def waited_for(self) -> "tuple[Entry, ...]":
        """The pods for which the queue waits while this entry is in the window."""
        return (self,)

    @property
    def pod(self) -> core.Pod:
        """The pod of this entry."""
        return self.info.pod

    @property
    def scheduler_order(self) -> tuple[int, float, int]:
        """A sort key that orders entries as kube-scheduler orders pods: by priority, then time."""
        return -(self.pod.priority or 0), self.info.timestamp, self.sequence


@dataclass(slots=True, eq=False)
class GroupEntry(Entry):
    """The one place in the window that the released members of a pod group have together.

    The members have entries of their own, and none of these is in the window. ``info`` is that of
    the member that was released first, or of one that kube-scheduler could not place. The state is
    RELEASING until the gate of a first member is gone.

    Attributes:
        releasing: the members whose gate is being removed.
        released: the released members for which the queue waits.
    """

    releasing: dict[Entry, None] = field(default_factory=dict)
    released: dict[Entry, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Namespace and name of the pod group, for people."""
        return f"pod group {self.group}"

    @property
    def waited_for(self) -> tuple[Entry, ...]:
        """The members of the group for which the queue waits."""
        return (*self.releasing, *self.released)

    def __contains__(self, entry: Entry) -> bool:
        """Return whether the queue waits for the pod as for a member of the group."""
        return entry in self.releasing or entry in self.released

    def discard(self, entry: Entry) -> None:
        """Remove a member, if the queue waits for it."""
        self.releasing.pop(entry, None)
        self.released.pop(entry, None)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pod of the queue at one moment, as ``kubextend queue`` lists it.

    Attributes:
        position: the pod's place in line, from 1; None: the pod is being released, released, held
            or set aside, or its namespace is paused, or it follows a released pod of its pod group.
        info: the pod and since when the pod waits.
        state: the stage of the pod.
        why: what the pod waits for, as a phrase.
    """

    position: int | None
    info: QueuedPodInfo
    state: State
    why: str


def info_of(pod: core.Pod) -> QueuedPodInfo:
    """Return the pod with its creation time, since which it waits; 0 if the API set no time."""
    try:
        timestamp = datetime.fromisoformat(pod.creation_timestamp).timestamp()
    except ValueError:
        # The API always sets the time; a pod without one has waited longest, as with Go's zero
        # time.
        timestamp = 0.0
    return QueuedPodInfo(pod, timestamp)
