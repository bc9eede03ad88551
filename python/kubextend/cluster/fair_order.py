"""Turns: items of many owners, ordered so that no owner waits for all items of another.

Queues of writes use turns: their calls concern pods of every tenant and share one rate.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

IN_A_ROW = 20
"""Pods of one group are useful together, so as many of them have their turn in a row."""


class Turns(Generic[T]):
    """Items by namespace and group: namespaces take turns, and so do the groups of each.

    The first item of a new namespace, or of a new group in its namespace, is next. A namespace that
    runs out of items keeps its place in the line until its turn comes, so that nobody is always the
    first.
    """

    def __init__(self) -> None:
        self._namespaces: OrderedDict[str, _Groups[T]] = OrderedDict()
        self._size = 0

    def put(self, namespace: str, group: int, item: T) -> None:
        """Add an item, whose turn comes after the other items of its group."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = _Groups()
            self._namespaces.move_to_end(namespace, last=False)
        self._namespaces[namespace].put(group, item)
        self._size += 1

    def take(self) -> T:
        """Remove and return the next item.

        Raises: KeyError: there is no item.
        """
        while True:
            namespace, groups = self._namespaces.popitem(last=False)
            if groups.size:
                break
        self._namespaces[namespace] = groups
        self._size -= 1
        return groups.take()

    def drop(self) -> T:
        """Remove and return the newest item in the largest group of the largest namespace.

        Raises: ValueError: there is no item.
        """
        largest = max(self._namespaces.values(), key=lambda groups: groups.size)
        dropped = largest.drop()
        self._size -= 1
        return dropped

    def __len__(self) -> int:
        """Return how many items there are."""
        return self._size


class _Groups(Generic[T]):
    """The items of one namespace."""

    def __init__(self) -> None:
        self.size = 0
        self._groups: OrderedDict[int, deque[T]] = OrderedDict()
        self._in_a_row = 0

    def put(self, group: int, item: T) -> None:
        if group not in self._groups:
            self._groups[group] = deque()
            self._groups.move_to_end(group, last=False)
            self._in_a_row = 0
        self._groups[group].append(item)
        self.size += 1

    def take(self) -> T:
        while not (items := next(iter(self._groups.values()))):
            self._groups.popitem(last=False)
            self._in_a_row = 0
        self._in_a_row += 1
        self.size -= 1
        taken = items.popleft()
        if self._in_a_row == IN_A_ROW or not items:
            self._groups.move_to_end(next(iter(self._groups)))
            self._in_a_row = 0
        return taken

    def drop(self) -> T:
        self.size -= 1
        return max(self._groups.values(), key=len).pop()
