"""Remembers since when kubextend does not know names of nodes that kube-scheduler sends."""

import threading
import time
from collections.abc import Callable
from typing import Final

from kubextend import core
from kubextend.verbs.bounded_dict import BoundedDict

__all__ = ["UnknownNames"]

_NEW_S: Final = 10.0
_KEPT_S: Final = 600.0
_MOST: Final = 100_000


class UnknownNames:
    """When each node name unknown to kubextend was first seen.

    A name that no request has brought for ten minutes counts as never seen. kube-scheduler retries
    unschedulable pods after five minutes, so a name that a pod waits for never counts as new twice.
    Of more than 100,000 names, the one that was brought least recently is forgotten.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Name -> when it was seen first, and last.
        self._seen: BoundedDict[tuple[float, float]] = BoundedDict(_MOST)

    def any_new(self, nodes: core.Nodes, unknown: core.Mask) -> bool:
        """Record the names of unknown nodes; return whether one was first seen within 10 s."""
        if not unknown.any():
            return False
        names, now_s, is_new = nodes.names, self._clock(), False
        with self._lock:
            for name in map(names.__getitem__, unknown.indices()):
                first_s, last_s = self._seen.get(name, (now_s, now_s))
                if now_s - last_s >= _KEPT_S:
                    first_s = now_s
                self._seen.put(name, (first_s, now_s))
                is_new = is_new or now_s - first_s < _NEW_S
        return is_new
