"""A binary heap of pods: the next one at hand, any one removable.

Moves entries by exchanging two at a time and asks the order between exchanges, so whatever the
order answers, every entry that was pushed is in here once.
"""

from collections.abc import Iterator
from functools import cmp_to_key
from typing import Protocol

from kubextend.queue.entry import Entry

__all__ = ["Before", "Heap"]


class Before(Protocol):
    """A strict order; one that contradicts itself makes the heap's order arbitrary, no more."""

    def before(self, a: Entry, b: Entry) -> bool:
        """Whether ``a`` goes before ``b``; must not raise."""


class Heap:
    """Entries by the order of ``before``.

    Source: kubernetes v1.36 pkg/scheduler/backend/heap/heap.go
    """

    def __init__(self, order: Before) -> None:
        self._order = order
        self._entries: list[Entry] = []
        self._at: dict[Entry, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """In no order."""
        return iter(self._entries)

    def push(self, entry: Entry) -> None:
        """The entry is in here once, in its place; also after it has changed."""
        if entry not in self._at:
            self._at[entry] = len(self._entries)
            self._entries.append(entry)
        self._settle(self._at[entry])

    def pop(self) -> Entry:
        """The first, which is in here no more.

        Raises: IndexError: it is empty.
        """
        first = self._entries[0]
        self.remove(first)
        return first

    def remove(self, entry: Entry) -> None:
        """The entry is not in here, whether it was or not."""
        at = self._at.get(entry)
        if at is None:
            return
        last = len(self._entries) - 1
        self._swap(at, last)
        self._entries.pop()
        del self._at[entry]
        if at < last:
            self._settle(at)

    def ordered(self) -> list[Entry]:
        """All of them, the first first."""

        def compared(a: Entry, b: Entry) -> int:
            return -1 if self._order.before(a, b) else 1

        return sorted(self._entries, key=cmp_to_key(compared))

    def _settle(self, at: int) -> None:
        if self._risen(at) == at:
            self._sink(at)

    def _risen(self, at: int) -> int:
        """Where the entry comes to be when it goes before those above it."""
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
