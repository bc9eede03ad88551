"""A queue in which namespaces take turns, so that no namespace waits for all items of another.

``WriteQueue`` orders its API calls by a queue of this kind, because the calls concern pods of all
namespaces and share one rate limit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

IN_A_ROW = 20
"""How many items of one group the queue hands out in a row. Pods of one group, such as a gang, are
useful only together."""


class Turns(Generic[T]):
    """A queue of items in which namespaces take turns, and in each namespace its groups.

    A group is a number that the caller gives with the item, such as a hash of a pod's labels. The
    first item of a new namespace, or of a new group in its namespace, is taken next. A namespace
    without items keeps its place until its turn comes, so that a namespace that adds one item after
    another is not always first.
    """

    def __init__(self) -> None:
        self._namespaces: OrderedDict[str, _Groups[T]] = OrderedDict()
        self._size = 0

    def put(self, namespace: str, group: int, item: T) -> None:
        """Add an item behind the items of its namespace and group."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = _Groups()
            self._namespaces.move_to_end(namespace, last=False)
        self._namespaces[namespace].put(group, item)
        self._size += 1

    def take(self) -> T:
        """Remove and return the item whose turn is next.

        Raises: KeyError: the queue is empty.
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

        Call this method only if the queue holds an item.
        """
        largest = max(self._namespaces.values(), key=lambda groups: groups.size)
        dropped = largest.drop()
        self._size -= 1
        return dropped

    def __len__(self) -> int:
        """Return how many items the queue holds."""
        return self._size


class _Groups(Generic[T]):
    """The items of one namespace, whose groups take turns of up to ``IN_A_ROW`` items."""

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
