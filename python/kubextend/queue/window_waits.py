"""Decides for each namespace how long the queue waits for a released pod to find a node.

A released pod that never finds a node keeps its place in the window for as long as ``maxHold``
allows. A user could create such pods one after the other, so each hold that ends without a node for
the pod halves the next hold of the namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["WindowWaits"]

LEAST_S: Final = 1.0
FORGOTTEN_AFTER: Final = 10
"""Halved holds of a namespace end this many times ``max_hold_s`` after its last vain hold."""


@dataclass(frozen=True, slots=True)
class _Streak:
    times: int
    last_at_s: float


class WindowWaits:
    """Computes, for each namespace, how long the window waits for a released pod.

    Args:
        max_hold_s: the longest hold in seconds, and the first hold of a namespace.
        clock: returns monotonic seconds.
    """

    def __init__(self, max_hold_s: float, clock: Callable[[], float]) -> None:
        self._max_hold_s = max_hold_s
        self._clock = clock
        self._streaks: dict[str, _Streak] = {}

    def hold_s(self, namespace: str) -> float:
        """Return how many seconds the window waits for a released pod of this namespace."""
        times = self._times(namespace)
        return max(self._max_hold_s / 2.0 ** min(times, 64), min(self._max_hold_s, LEAST_S))

    def ran_out(self, namespace: str) -> None:
        """Note that a hold of this namespace ended before the released pod found a node."""
        now_s = self._clock()
        streak = _Streak(self._times(namespace) + 1, now_s)
        self._streaks = {
            name: other for name, other in self._streaks.items() if not self._is_over(other)
        } | {namespace: streak}

    def _times(self, namespace: str) -> int:
        streak = self._streaks.get(namespace)
        return 0 if streak is None or self._is_over(streak) else streak.times

    def _is_over(self, streak: _Streak) -> bool:
        return self._clock() - streak.last_at_s > FORGOTTEN_AFTER * self._max_hold_s
