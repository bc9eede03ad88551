"""Decides for each namespace how long the queue waits for a pod that kube-scheduler cannot place.

With the strategy StrictFIFO, the queue waits for a released pod that found no node, for
``queue.maxHold`` at most (60 s by default), and other pods wait meanwhile. A user could create one
pod that fits no node after the other. Each wait that ends before the pod has a node therefore
halves the next wait for a pod without a node of the same namespace, down to one second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["PlacementWaits"]

LEAST_S: Final = 1.0
FORGOTTEN_AFTER: Final = 10
"""A namespace that had waits in vain gets the whole ``max_hold_s`` again when ``FORGOTTEN_AFTER``
times ``max_hold_s`` have passed since the last wait in vain."""


@dataclass(frozen=True, slots=True)
class _Streak:
    times: int
    last_at_s: float


class PlacementWaits:
    """Computes, for each namespace, how long the queue waits for a pod that found no node.

    Args:
        max_hold_s: the longest wait for a pod in seconds, and the first wait of a namespace.
        clock: returns monotonic seconds.
    """

    def __init__(self, max_hold_s: float, clock: Callable[[], float]) -> None:
        self._max_hold_s = max_hold_s
        self._clock = clock
        self._streaks: dict[str, _Streak] = {}

    def hold_s(self, namespace: str) -> float:
        """Return how many seconds the queue waits for a pod of the namespace that found no node."""
        times = self._times(namespace)
        return max(self._max_hold_s / 2.0 ** min(times, 64), min(self._max_hold_s, LEAST_S))

    def ran_out(self, namespace: str) -> None:
        """Record that the wait for a pod of this namespace ended before the pod had a node."""
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
