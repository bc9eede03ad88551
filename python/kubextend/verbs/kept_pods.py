"""Values by the UID of a pod, within a bound of bytes.

Anybody who may create pods chooses how many they are, and how large each is.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from kubextend import core

__all__ = ["KeptPods"]

# Thousands of usual pods.
_MOST_BYTES: Final = 16 * 1024 * 1024


class _OfPod(Protocol):
    pod: core.Pod

    @property
    def held_bytes(self) -> int:
        """The memory of the value, with its pod."""


_V = TypeVar("_V", bound=_OfPod)


class KeptPods(Generic[_V]):
    """Values in the order in which they came; not safe to use from many threads.

    Beyond the bound, the namespace that holds the most bytes loses its oldest value: nobody's many
    or large pods push out those of another namespace.

    Args:
        most_bytes: bound on the memory of all values.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, _V] = {}
        self._sizes: dict[str, tuple[str, int]] = {}
        self._by_namespace: Counter[str] = Counter()
        self._bytes = 0

    def put(self, value: _V) -> list[_V]:
        """Keep the value as its pod's only and as the latest; return the values that had to go."""
        uid, namespace, size = value.pod.uid, value.pod.namespace, value.held_bytes
        self.pop(uid)
        self._kept[uid] = value
        self._sizes[uid] = namespace, size
        self._count(namespace, size)
        gone = []
        while self._bytes > self._most_bytes:
            largest = max(self._by_namespace, key=self._by_namespace.__getitem__)
            oldest = next(uid for uid in self._kept if self._sizes[uid][0] == largest)
            gone.append(self._kept[oldest])
            self.pop(oldest)
        return gone

    def get(self, uid: str) -> _V | None:
        """Return the value of a pod."""
        return self._kept.get(uid)

    def pop(self, uid: str) -> None:
        """Forget the value of a pod, if there is one."""
        if self._kept.pop(uid, None) is not None:
            namespace, size = self._sizes.pop(uid)
            self._count(namespace, -size)

    def values(self) -> Iterable[_V]:
        """Return every value, oldest first."""
        return self._kept.values()

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self._kept)

    def _count(self, namespace: str, more_bytes: int) -> None:
        self._bytes += more_bytes
        self._by_namespace[namespace] += more_bytes
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]
