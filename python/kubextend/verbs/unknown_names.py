"""Since when a node name that kube-scheduler sends is unknown to the node cache."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["UnknownNames"]

_WINDOW_S = 10.0
_KEPT_S = 600.0
_LIMIT = 100_000


class UnknownNames:
    """First sightings of unknown names, bounded in number and in time.

    kubextend forgets a name that nobody asked about for ten minutes. kube-scheduler flushes the
    unschedulable pods after five, so a pod that waits for such a node never meets a second window.

    Args:
        clock: monotonic seconds.
        window_s: how long a name counts as new.
        limit: names remembered; beyond it the one asked about least recently is forgotten.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        window_s: float = _WINDOW_S,
        limit: int = _LIMIT,
    ) -> None:
        self._clock = clock
        self._window_s = window_s
        self._limit = limit
        self._lock = threading.Lock()
        self._sightings: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def any_new(self, names: Iterable[str]) -> bool:
        """Note these unknown names, and return whether one was first seen within the window."""
        now = self._clock()
        with self._lock:
            self._forget_unasked(now)
            firsts = [self._note(name, now) for name in names]
        return any(now - first < self._window_s for first in firsts)

    def __len__(self) -> int:
        return len(self._sightings)

    def _note(self, name: str, now: float) -> float:
        first, _ = self._sightings.pop(name, (now, now))
        self._sightings[name] = (first, now)
        if len(self._sightings) > self._limit:
            self._sightings.popitem(last=False)
        return first

    def _forget_unasked(self, now: float) -> None:
        while self._sightings:
            name, (_, asked) = next(iter(self._sightings.items()))
            if now - asked < _KEPT_S:
                return
            del self._sightings[name]
