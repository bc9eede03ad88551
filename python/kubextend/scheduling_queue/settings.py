"""How the scheduling queue runs."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Settings", "Strategy"]


class Strategy(StrEnum):
    """What the queue does while kube-scheduler finds no node for a released pod."""

    STRICT_FIFO = "StrictFIFO"
    """The queue, or with turns of namespaces only the pod's namespace, waits for the pod."""
    BEST_EFFORT_FIFO = "BestEffortFIFO"
    """The queue goes on with the next pod."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a scheduling queue.

    Attributes:
        gate: the name of the scheduling gate that the queue removes.
        scheduler_names: the queue releases the pods with one of these values of
            ``spec.schedulerName``.
        strategy: whether a released pod that finds no node holds up the pods behind it.
        window: the most released pods, at a time, that kube-scheduler has not tried yet; the
            members of a pod group count as one. If namespaces take turns and kube-scheduler is
            slow, this limit holds for each namespace. The queue removes the gates of at most as
            many members of one group at a time.
        max_hold_s: the most seconds for which a pod or pod group takes a place in the window: once
            before its first gate is gone, and again after that.
        by_namespace: whether namespaces take turns; else all pods have one order.
        most_unschedulable: used if namespaces take turns. While a namespace has so many pods that
            kube-scheduler cannot place, the queue pauses before it releases another pod of the
            namespace. An event may make kube-scheduler try all these pods, at some hundred attempts
            a second.
    """

    gate: str
    scheduler_names: AbstractSet[str]
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    window: int = 1
    max_hold_s: float = 60.0
    by_namespace: bool = False
    most_unschedulable: int = 100
