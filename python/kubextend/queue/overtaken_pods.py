"""Keeps released pods from being overtaken without end in kube-scheduler's own queue.

A late pod is a released pod that kube-scheduler has not tried soon. kube-scheduler tries pods of a
higher priority first, and among pods of equal priority those that were created first, however late
their gate was removed. Two namespaces with many waiting pods could therefore keep a slow
kube-scheduler from all other pods.
"""

import math
from dataclasses import dataclass
from typing import Final

from kubextend.queue.entry import Entry

__all__ = ["OvertakenPods"]

MOST_OVERTAKERS: Final = 2
"""How many pods that became late after a late pod kube-scheduler may try before the late pod; then
the late pod delays all further pods that would be tried before it. The number holds with a window
of 1. With 8 instead of 2, other namespaces took nearly all attempts of a slow kube-scheduler in
simulations."""
DELAY_S: Final = 1.5
"""For how many seconds a late pod delays other pods, from its release or from the last attempt at
an earlier late pod. The time is limited because kube-scheduler may never try the late pod, or may
report on it only after minutes, when its volume is made. With 3 s instead, thirty namespaces with
late pods delayed pods of a higher priority for a minute in simulations."""
LONGEST_DELAY_S: Final = 30.0
"""For how many seconds after its release a late pod may delay other pods in all. Without this
limit, a user who deletes late pods one after the other could make a late pod that is never tried
delay other pods for as long as there are late pods."""


@dataclass(slots=True)
class _Delay:
    """A late pod's place in kube-scheduler's queue, and until when it may delay other pods.

    Attributes:
        order: the sort key of the pod in kube-scheduler's queue.
        until_s: until when the pod may delay other pods, in monotonic seconds.
        ends_at_s: the latest time to which ``until_s`` may be set.
        overtakers: how many pods became late after this pod, and go before this pod.
    """

    order: tuple[int, float, int]
    until_s: float
    ends_at_s: float
    overtakers: int = 0


class OvertakenPods:
    """The late pods (released, not soon tried), and which of them no further pod may overtake.

    Args:
        window: the number of places in the queue's window, for released pods.
    """

    def __init__(self, window: int) -> None:
        self._most = MOST_OVERTAKERS + window - 1
        self._delays: dict[Entry, _Delay] = {}
        self._tried_at_s = -math.inf

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._delays

    def add(self, entry: Entry) -> None:
        """Add a late pod: released, not added before, and not soon tried by kube-scheduler."""
        order, since_s = entry.scheduler_order, entry.entered_at_s
        for delay in self._delays.values():
            delay.overtakers += order < delay.order
        self._delays[entry] = _Delay(order, since_s + DELAY_S, since_s + LONGEST_DELAY_S)

    def remove(self, entry: Entry, now_s: float) -> None:
        """Record that kube-scheduler has tried a released pod, late or not, or the pod is gone.

        The late pods behind the removed pod may be next, so each may delay other pods for a while
        longer. A late pod whose delay has ended delays no pod again, unless kube-scheduler has
        tried no pod at all for as long.
        """
        has_paused = now_s > self._tried_at_s + DELAY_S
        self._tried_at_s = now_s
        tried = self._delays.pop(entry, None)
        if tried is None:
            return
        for delay in self._delays.values():
            if tried.order < delay.order and (has_paused or now_s < delay.until_s):
                delay.until_s = min(now_s + DELAY_S, delay.ends_at_s)

    def drop(self, entry: Entry) -> None:
        """Forget a late pod for which the queue waits no longer though it has not been tried."""
        self._delays.pop(entry, None)

    def delaying(self, now_s: float) -> Entry | None:
        """Return the late pod that no pod may overtake now; None: there is no such pod.

        If there are several such pods, the result is the one that kube-scheduler tries last,
        because a pod that overtakes another of them overtakes the last one too.
        """
        delaying = [
            entry
            for entry, delay in self._delays.items()
            if delay.overtakers >= self._most and now_s < delay.until_s
        ]
        return max(delaying, key=lambda entry: self._delays[entry].order, default=None)

    def delays_until_s(self, late: Entry) -> float:
        """Return the time until which a late pod delays others if kube-scheduler tries no pod."""
        return self._delays[late].until_s
