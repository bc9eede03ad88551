"""Keeps one value for each pod by its UID, within a limit on the bytes of all values.

The limit is needed because users who may create pods choose the number and the size of the pods.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from kubextend import core

__all__ = ["KeptPods"]

# Thousands of usual pods.
_MOST_BYTES: Final = 16 * 1024 * 1024


class _OfPod(Protocol):
    pod: core.Pod

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that the value takes, together with its pod."""


_V = TypeVar("_V", bound=_OfPod)


class KeptPods(Generic[_V]):
    """Values by pod UID, in the order in which they were put. Only one thread at a time may use it.

    Beyond ``most_bytes``, the namespace whose values take the most bytes loses its oldest value.
    Many or large pods of one namespace therefore do not push out pods of another namespace.

    Args:
        most_bytes: bound on the memory of all values together.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, _V] = {}
        self._sizes: dict[str, tuple[str, int]] = {}
        self._by_namespace: Counter[str] = Counter()
        # The pods of each namespace, oldest first: a search for the oldest would read all pods.
        self._order: dict[str, dict[str, None]] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes that all values take together."""
        return self._bytes

    def put(self, value: _V) -> list[_V]:
        """Keep a value as the latest, in place of its pod's old value; return dropped values."""
        uid, namespace, size = value.pod.uid, value.pod.namespace, value.held_bytes
        before = self._sizes.get(uid)
        if before is not None and before[0] == namespace:
            # Most pods come again, and a pod's namespace never changes.
            order = self._order[namespace]
            del self._kept[uid], order[uid]
            more_bytes = size - before[1]
        else:
            self.pop(uid)
            order = self._order.setdefault(namespace, {})
            more_bytes = size
        self._kept[uid] = value
        self._sizes[uid] = namespace, size
        order[uid] = None
        if more_bytes:
            self._count(namespace, more_bytes)
        gone = []
        while self._bytes > self._most_bytes:
            largest = max(self._by_namespace, key=self._by_namespace.__getitem__)
            oldest = next(iter(self._order[largest]))
            gone.append(self._kept[oldest])
            self.pop(oldest)
        return gone

    def get(self, uid: str) -> _V | None:
        """Return the value of the pod with this UID; None: no value is kept for the pod."""
        return self._kept.get(uid)

    def pop(self, uid: str) -> None:
        """Forget the value of the pod with this UID, if a value is kept."""
        if self._kept.pop(uid, None) is not None:
            namespace, size = self._sizes.pop(uid)
            del self._order[namespace][uid]
            if not self._order[namespace]:
                del self._order[namespace]
            self._count(namespace, -size)

    def recount(self, uid: str) -> None:
        """Count the bytes of a pod's value anew, because the value takes less than before."""
        if (value := self._kept.get(uid)) is not None:
            namespace, size = self._sizes[uid]
            self._sizes[uid] = namespace, value.held_bytes
            self._count(namespace, value.held_bytes - size)

    def values(self) -> Iterable[_V]:
        """Return every value, oldest first."""
        return self._kept.values()

    def latest(self, most: int) -> list[_V]:
        """Return the last ``most`` values, the newest first."""
        return list(islice(reversed(self._kept.values()), most))

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self._kept)

    def _count(self, namespace: str, more_bytes: int) -> None:
        self._bytes += more_bytes
        self._by_namespace[namespace] += more_bytes
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]
