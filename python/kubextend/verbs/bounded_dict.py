"""A dict that forgets its oldest value: users make as many pods as they like."""

from typing import TypeVar

__all__ = ["BoundedDict"]

_V = TypeVar("_V")


class BoundedDict(dict[str, _V]):
    """Values in the order in which they were put. Only one thread at a time may use it.

    Args:
        most: the most values.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: str, value: _V) -> _V | None:
        """Keep a value as the newest; return the oldest value if it had to go, else None."""
        self.pop(key, None)
        self[key] = value
        return self.pop(next(iter(self))) if len(self) > self._most else None
