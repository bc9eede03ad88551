"""A memory of pods between calls, bounded by number and by bytes.

A request carries its whole pod, and anybody who may create pods chooses how large they are.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from kubextend import core

__all__ = ["KeptPods"]

_K = TypeVar("_K")
_V = TypeVar("_V")

# Thousands of usual pods, or a dozen as large as etcd accepts.
_MOST_BYTES: Final = 16 * 1024 * 1024


class KeptPods(Generic[_K, _V]):
    """The latest pods, in the order in which they came; not safe to use from many threads.

    Args:
        limit: pods kept; beyond it the oldest is forgotten.
        most_bytes: bound on the memory of all kept pods; beyond it the largest is forgotten, so
            that nobody's large pods push others out.
    """

    def __init__(self, limit: int, most_bytes: int = _MOST_BYTES) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._kept: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._bytes = 0

    def put(self, key: _K, value: _V, pod: core.Pod) -> None:
        """Keep a value that holds the pod as the latest, unless the pod is too large to be kept."""
        self.pop(key)
        size = pod.held_bytes
        self._kept[key] = (value, size)
        self._bytes += size
        if len(self._kept) > self._limit:
            self.pop(next(iter(self._kept)))
        while self._bytes > self._most_bytes:
            self.pop(max(self._kept, key=self._size))

    def get(self, key: _K) -> _V | None:
        """Return the value under the key."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def pop(self, key: _K) -> _V | None:
        """Return the value under the key and forget it."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def values(self) -> Iterable[_V]:
        """Return every kept value, oldest first."""
        return (value for value, _ in self._kept.values())

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self._kept)

    def _size(self, key: _K) -> int:
        return self._kept[key][1]
