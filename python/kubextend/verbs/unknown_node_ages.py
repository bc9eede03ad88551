"""Remembers since when kubextend does not know names of nodes that kube-scheduler sends."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["UnknownNames"]

_WINDOW_S = 10.0
_KEPT_S = 600.0
_LIMIT = 100_000


class UnknownNames:
    """Remembers when each node name unknown to kubextend was first seen, within limits.

    kubextend forgets a name that no request has brought for ten minutes. kube-scheduler retries
    unschedulable pods after five minutes, so a name that a pod waits for never counts as new twice.

    Args:
        clock: returns monotonic seconds.
        window_s: for how many seconds a name counts as new.
        limit: how many names are remembered; beyond the limit the name that was brought least
            recently is forgotten.
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
        """Record unknown node names; return whether one was first seen within ``window_s``."""
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
