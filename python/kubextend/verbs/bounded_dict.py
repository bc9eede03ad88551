"""A dict that forgets its oldest values: users make as many pods as they like, and large ones."""

import math
from typing import TypeVar

__all__ = ["BoundedDict"]

_V = TypeVar("_V")


class BoundedDict(dict[str, _V]):
    """Values in the order in which they were put. Only one thread at a time may use it.

    Args:
        most: the most values.
        most_bytes: the most bytes of all values but the newest, which always stays.
    """

    def __init__(self, most: int, most_bytes: float = math.inf) -> None:
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def put(self, key: str, value: _V, size_bytes: int = 0) -> list[_V]:
        """Keep a value as the newest; return those that had to go, oldest first."""
        self.pop(key)
        gone = []
        while self and (len(self) >= self._most or self._bytes > self._most_bytes):
            oldest = next(iter(self))
            gone.append(self[oldest])
            del self[oldest]
        self[key] = value
        self._sizes[key] = size_bytes
        self._bytes += size_bytes
        return gone

    # A missing key is no error here, as it is in a dict.
    def pop(self, key: str, default: _V | None = None) -> _V | None:  # type: ignore[override]
        """Forget a value and return it; return ``default`` if there is none."""
        self._bytes -= self._sizes.pop(key, 0)
        return super().pop(key, default)

    def __delitem__(self, key: str) -> None:
        """Forget a value."""
        self._bytes -= self._sizes.pop(key, 0)
        super().__delitem__(key)

    def clear(self) -> None:
        """Forget all values."""
        super().clear()
        self._sizes.clear()
        self._bytes = 0
