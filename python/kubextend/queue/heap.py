"""A binary heap: returns the first entry quickly, and removes any entry.

The heap moves entries by exchanging two at a time, and compares entries between exchanges. Every
entry is therefore in the heap exactly once, whatever the comparisons say.
"""

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Generic, Protocol, TypeVar

__all__ = ["Before", "Heap"]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Before(Protocol[T_contra]):
    """A strict order of entries; if it contradicts itself, the heap's order is arbitrary."""

    def before(self, a: T_contra, b: T_contra, /) -> bool:
        """Return whether entry ``a`` comes before entry ``b``; must not raise."""


class Heap(Generic[T]):
    """A binary heap of different entries, in the order of a ``Before``.

    Source: kubernetes v1.36 pkg/scheduler/backend/heap/heap.go
    """

    def __init__(self, order: Before[T]) -> None:
        self._order = order
        self._entries: list[T] = []
        self._at: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the entries of the heap, in no order."""
        return iter(self._entries)

    def push(self, entry: T) -> bool:
        """Add an entry, or move an entry of the heap that has changed to its new place.

        Returns: whether the heap did not have the entry.
        """
        is_new = entry not in self._at
        if is_new:
            self._at[entry] = len(self._entries)
            self._entries.append(entry)
        self._settle(self._at[entry])
        return is_new

    @property
    def first(self) -> T:
        """The first entry of the heap, which stays in the heap.

        Raises: IndexError: the heap is empty.
        """
        return self._entries[0]

    def first_where(self, is_wanted: Callable[[T], bool]) -> T | None:
        """Return the first entry for which ``is_wanted`` is true, after looking at every entry.

        Returns: the entry; None: ``is_wanted`` is true for no entry.
        """
        first = None
        for entry in filter(is_wanted, self._entries):
            if first is None or self._order.before(entry, first):
                first = entry
        return first

    def remove(self, entry: T) -> bool:
        """Remove an entry; return whether the heap had the entry."""
        at = self._at.get(entry)
        if at is None:
            return False
        last = len(self._entries) - 1
        self._swap(at, last)
        self._entries.pop()
        del self._at[entry]
        if at < last:
            self._settle(at)
        return True

    def ordered(self) -> list[T]:
        """Return every entry of the heap, sorted by the heap's order."""

        def compared(a: T, b: T) -> int:
            return -1 if self._order.before(a, b) else 1

        return sorted(self._entries, key=cmp_to_key(compared))

    def _settle(self, at: int) -> None:
        if self._risen(at) == at:
            self._sink(at)

    def _risen(self, at: int) -> int:
        """Move the entry at index ``at`` up while it is before its parent; return its new index."""
        while at > 0:
            above = (at - 1) // 2
            if not self._before(at, above):
                break
            self._swap(at, above)
            at = above
        return at

    def _sink(self, at: int) -> None:
        while (below := 2 * at + 1) < len(self._entries):
            other = below + 1
            if other < len(self._entries) and self._before(other, below):
                below = other
            if not self._before(below, at):
                break
            self._swap(at, below)
            at = below

    def _before(self, at: int, other: int) -> bool:
        return self._order.before(self._entries[at], self._entries[other])

    def _swap(self, at: int, other: int) -> None:
        entries = self._entries
        entries[at], entries[other] = entries[other], entries[at]
        self._at[entries[at]], self._at[entries[other]] = at, other
