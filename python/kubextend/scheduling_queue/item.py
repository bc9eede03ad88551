"""What the scheduling queue keeps of pods, pod groups and namespaces: each is in one state.

The window is the set of items that have a place: the queue removes their gates, or waits for them.
"""

import math
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from kubextend import core
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.scheduling_queue.lazy_heap import LazyHeap
from kubextend.scheduling_queue.order import Order

__all__ = [
    "Alarm",
    "Item",
    "Line",
    "Member",
    "QueueEntry",
    "Stage",
    "State",
    "Ticket",
    "info_of",
]


class State(Enum):
    """The state of a pod in the scheduling queue."""

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
    IN_PERMIT = "in_permit"
    """Permit plugins hold the pod for the node that kube-scheduler found."""
    UNPLACED = "unplaced"
    """kube-scheduler could not place the pod, and the queue does not wait for it."""
    PASSED = "passed"
    """kube-scheduler has the pod, and the queue does not wait for it, or never had it."""


class Stage(Enum):
    """The state of an item, a lone pod or a pod group, in the window."""

    WAITING = auto()
    """The item has no place."""
    RELEASING = auto()
    """The queue removes the first gate of the item."""
    RELEASED = auto()
    """kube-scheduler has the item, and may try it at any moment."""
    LATE = auto()
    """kube-scheduler did not try the item soon: if namespaces take turns, the others go on."""
    TRIED = auto()
    """kube-scheduler tried the item: if namespaces take turns, only its own waits for it."""


@dataclass(slots=True, eq=False)
class Line:
    """The pods that have turns together: those of a namespace, or all pods.

    Attributes:
        ready: the ready pods, in the order of the QueueSort plugin. Those whose group has a place
            need no turn, and do not count.
        places: the items that have a place in the window, in order of arrival.
        pods: how many pods the queue knows.
        unplaced: how many of these kube-scheduler could not place.
        paused_s: when the pause of a line with many unplaced pods began.
    """

    name: str
    ready: "LazyHeap[Ticket]" = field(default_factory=LazyHeap)
    places: "dict[Item, None]" = field(default_factory=dict)
    pods: int = 0
    unplaced: int = 0
    paused_s: float = -math.inf


@dataclass(slots=True, eq=False)
class Item:
    """A lone pod or a whole pod group, which takes one place in the window and has one turn.

    Attributes:
        name: the namespace and name, for people.
        stage: what the window waits for.
        due_s: when the queue looks at the place again; infinite: the item has no place.
        leaves_s: when the item gives up its place at the latest.
        waited_for: the pods whose gate is being removed, and the released ones that are waited for.
        releasing: how many of these have their gate.
        pods: how many pods the queue knows.
        following: a group's ready pods, which need no turn while the group has a place.
    """

    name: str
    line: Line
    stage: Stage = Stage.WAITING
    due_s: float = math.inf
    leaves_s: float = math.inf
    waited_for: "dict[Member, None]" = field(default_factory=dict)
    releasing: int = 0
    pods: int = 0
    following: "LazyHeap[Ticket] | None" = None


@dataclass(slots=True, eq=False)
class Member:
    """A pod of the queue.

    Attributes:
        info: the pod as plugins see it.
        sequence: order of arrival; decides between pods that the QueueSort plugin ranks as equal.
        item: the pod group of the pod, or the pod alone.
        why: why the pod is held back or set aside.
        due_s: when the queue looks at a held or set aside pod again; infinite: when it changes.
        held_times: how often the pod was found to be held back since it last changed.
        refused_times: how often the gate could not be removed.
        was_patched: whether this replica ever tried to remove the gate.
        version: a number that changes whenever the pod gets or leaves a place among ready pods.
    """

    info: QueuedPodInfo
    sequence: int
    item: Item
    state: State = State.PASSED
    why: str = ""
    due_s: float = math.inf
    held_times: int = 0
    refused_times: int = 0
    was_patched: bool = False
    version: int = 0

    @property
    def pod(self) -> core.Pod:
        """The pod as the API last showed it."""
        return self.info.pod

    @property
    def name(self) -> str:
        """Namespace and name of the pod, for people."""
        return f"{self.pod.namespace}/{self.pod.name}"


@dataclass(slots=True, eq=False)
class Ticket:
    """A ready pod in its line, or among the ready members of its pod group.

    A ticket is sorted as the pod was when the ticket was made.

    Attributes:
        member: the pod.
        order: the order of the QueueSort plugin.
        follows: whether the pod needs no turn while its pod group has a place.
    """

    member: Member
    order: Order
    follows: bool
    info: QueuedPodInfo = field(init=False)
    version: int = field(init=False)

    def __post_init__(self) -> None:
        self.info, self.version = self.member.info, self.member.version

    @property
    def is_current(self) -> bool:
        """Whether the pod is still ready and unchanged, and its line or group has to sort it."""
        is_ready = self.version == self.member.version
        return is_ready and (self.follows or self.member.item.stage is Stage.WAITING)

    def __lt__(self, other: "Ticket") -> bool:
        return self.order.before(self, other)


@dataclass(slots=True, eq=False)
class Alarm:
    """The time at which the queue looks again at a place in the window, or at a pod held back."""

    at_s: float
    owner: Item | Member

    @property
    def is_current(self) -> bool:
        """Whether the owner is still due at this time."""
        return self.owner.due_s == self.at_s

    def __lt__(self, other: "Alarm") -> bool:
        return self.at_s < other.at_s


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pod of the queue at one moment, as ``kubextend queue`` lists it.

    Attributes:
        position: the pod's place in line, from 1; None: the pod is being released, released, held
            or set aside, or its namespace has to wait, or it follows a released pod of its group.
        info: the pod and since when the pod waits.
        state: the state of the pod.
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
