"""A pod of the queue, and what it waits for."""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from kubextend import core
from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["Entry", "QueueEntry", "State", "info_of"]


class State(Enum):
    """Where a pod is on its way through the queue."""

    READY = "ready"
    """Its turn comes."""
    HELD = "held"
    """Not to be released yet; others go before it."""
    SET_ASIDE = "set_aside"
    """The gate could not be taken off; other pods go first until it is tried again."""
    RELEASING = "releasing"
    """Its gate is being taken off."""
    RELEASED = "released"
    """kube-scheduler has it, and its place in the window counts."""
    PASSED = "passed"
    """kube-scheduler has it, and nobody waits for it any more; or it never was in the queue."""


@dataclass(slots=True, eq=False)
class Entry:
    """A pod that is known to the queue.

    Attributes:
        info: as plugins see it.
        sequence: tells apart what the plugin holds for equal: who came first goes first.
        state: where it is.
        why: what it is held back or set aside for.
        again_at_s: when such a pod is looked at again; infinite: when it changes.
        held_times: how often it was found to be held back since it last changed.
        refused_times: how often its gate could not be taken off.
        tried: whether this replica ever tried to take its gate off.
        entered_at_s: when it took its place in the window.
        leaves_at_s: when the window waits for it no longer.
    """

    info: QueuedPodInfo
    sequence: int
    state: State = State.READY
    why: str = ""
    again_at_s: float = math.inf
    held_times: int = 0
    refused_times: int = 0
    tried: bool = False
    entered_at_s: float = math.inf
    leaves_at_s: float = math.inf

    @property
    def pod(self) -> core.Pod:
        """The pod."""
        return self.info.pod


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pod of the queue at one moment, for who looks at it.

    Attributes:
        position: from 1; None where others go before it, or it has been released.
        info: the pod and since when it waits.
        state: where it is.
        why: what it waits for, as a phrase.
    """

    position: int | None
    info: QueuedPodInfo
    state: State
    why: str


def info_of(pod: core.Pod) -> QueuedPodInfo:
    """The pod as it enters the queue."""
    try:
        timestamp = datetime.fromisoformat(pod.creation_timestamp).timestamp()
    except ValueError:
        # The API sets it always; without one a pod has waited longest, as in Go's zero time.
        timestamp = 0.0
    return QueuedPodInfo(pod, timestamp)
