"""A heap whose entries become outdated in place, and are dropped once they would be first."""

import heapq
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["LazyHeap"]

LEAST: Final = 64
"""Below so many entries, nobody looks for outdated ones."""


class _Entry(Protocol):
    @property
    def is_current(self) -> bool:
        """Whether the entry still counts; once False, it stays so until it is pushed again."""

    def __lt__(self, other: Any, /) -> bool: ...


E = TypeVar("E", bound=_Entry)


class LazyHeap(Generic[E]):
    """A binary heap that has at most about twice as many entries as are current.

    If the order of the entries contradicts itself, the heap's order is arbitrary; no entry is lost.
    """

    def __init__(self) -> None:
        self._entries: list[E] = []
        self._limit = LEAST

    def push(self, entry: E) -> None:
        """Add an entry; takes time that grows as the logarithm of the number of entries."""
        heapq.heappush(self._entries, entry)
        if len(self._entries) > self._limit:
            self._entries = [each for each in self._entries if each.is_current]
            heapq.heapify(self._entries)
            self._limit = max(LEAST, 2 * len(self._entries))

    @property
    def first(self) -> E | None:
        """The first current entry, which stays in the heap; None: there is none."""
        while self._entries and not self._entries[0].is_current:
            heapq.heappop(self._entries)
        return self._entries[0] if self._entries else None

    def ordered(self) -> list[E]:
        """Return the current entries, sorted; one that was pushed twice is there twice."""
        return sorted(each for each in self._entries if each.is_current)
