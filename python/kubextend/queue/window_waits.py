"""How long the window waits for a released pod, by namespace.

A pod that never finds a node keeps its place for as long as ``maxHold`` allows. Whoever may create
pods could make one such pod after the other, so each of these holds halves the next one of the
namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["WindowWaits"]

LEAST_S: Final = 1.0
FORGOTTEN_AFTER: Final = 10
"""A streak is over after this many times the longest hold."""


@dataclass(frozen=True, slots=True)
class _Streak:
    times: int
    last_at_s: float


class WindowWaits:
    """The holds of all namespaces.

    Args:
        max_hold_s: the longest hold, and the first one of a namespace.
        clock: monotonic seconds.
    """

    def __init__(self, max_hold_s: float, clock: Callable[[], float]) -> None:
        self._max_hold_s = max_hold_s
        self._clock = clock
        self._streaks: dict[str, _Streak] = {}

    def hold_s(self, namespace: str) -> float:
        """Return how long the window waits for a pod of this namespace."""
        times = self._times(namespace)
        return max(self._max_hold_s / 2.0 ** min(times, 64), min(self._max_hold_s, LEAST_S))

    def ran_out(self, namespace: str) -> None:
        """Note that the window waited for a pod of this namespace in vain."""
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
