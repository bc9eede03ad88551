"""Keeps released pods from being overtaken without end in kube-scheduler's own queue.

A late pod has been released, and kube-scheduler has not tried it soon. kube-scheduler tries pods of
a higher priority first, and among equals those that were created first, however late their gate was
removed. Two namespaces with many such pods could therefore keep a slow kube-scheduler from all
other pods.
"""

from dataclasses import dataclass
from typing import Final

from kubextend.queue.entry import Entry

__all__ = ["LatePods"]

MOST_OVERTAKERS: Final = 2
"""With a window of 1, how many pods may become late after a late pod and be tried before it, until
it delays all others that would. With 8 instead of 2, other namespaces took nearly all attempts of a
slow kube-scheduler in simulations."""
DELAY_S: Final = 1.5
"""For how many seconds a late pod delays others, from its release or from the last attempt at a
late pod before it: kube-scheduler may never try it, or may report on it only after minutes, when
its volume is made. With 3 s instead, thirty namespaces with such pods delayed pods of a higher
priority for a minute in simulations."""


@dataclass(slots=True)
class _Delay:
    """How many late pods go before a late pod, and until when it delays others."""

    order: tuple[int, float, int]
    until_s: float
    overtakers: int = 0


class LatePods:
    """The late pods, and which pods may not be released because they would overtake one.

    Args:
        window: the number of places in the window.
    """

    def __init__(self, window: int) -> None:
        self._most = MOST_OVERTAKERS + window - 1
        self._delays: dict[Entry, _Delay] = {}

    def add(self, entry: Entry) -> None:
        """Add a released pod, not added before, that kube-scheduler has not tried soon."""
        order = entry.scheduler_order
        for delay in self._delays.values():
            delay.overtakers += order < delay.order
        self._delays[entry] = _Delay(order, entry.entered_at_s + DELAY_S)

    def remove(self, entry: Entry, now_s: float) -> None:
        """Remove a pod that kube-scheduler has tried, or that is gone; do nothing for other pods.

        The pods behind the tried one may be next, and so may delay others from now on again.
        """
        tried = self._delays.pop(entry, None)
        if tried is None:
            return
        for delay in self._delays.values():
            if tried.order < delay.order and now_s < delay.until_s:
                delay.until_s = now_s + DELAY_S

    def first_delaying(self, entry: Entry, now_s: float) -> Entry | None:
        """Return the oldest late pod that this one may not overtake; None: it may be released."""
        order = entry.scheduler_order
        for late, delay in self._delays.items():
            if delay.overtakers >= self._most and order < delay.order and now_s < delay.until_s:
                return late
        return None

    def delays_until_s(self, late: Entry) -> float:
        """Return the time until which a late pod delays others if kube-scheduler tries no pod."""
        return self._delays[late].until_s
