"""The ready pods of a flow, in the order of their release; a flow has the pods of a namespace.

A pod group has one position in the order: that of its first ready member. kube-scheduler tries no
member of a group while one member has a scheduling gate, so the queue releases the members
together. If namespaces do not take turns, one flow has all pods.
"""

from collections.abc import Iterator, MutableSet

from kubextend.queue.entry import Entry
from kubextend.queue.heap import Before, Heap

__all__ = ["Line"]


class Line:
    """The ready pods of one flow in the order of their release: single pods, and pod groups.

    A change takes time that grows as the logarithm of the number of pods.

    Args:
        order: the order of the pods, and of the members of a group.
        begun: the groups of which the queue released a member and for which it still waits. The
            order leaves out their ready members, which the queue may release without a turn.
    """

    def __init__(self, order: Before[Entry], begun: MutableSet[str]) -> None:
        self._order = order
        self._begun = begun
        # The pods without a group, and the first member of each group that is not in ``begun``.
        self._heads = Heap(order)
        self._groups: dict[str, Heap[Entry]] = {}
        self._size = 0

    def __len__(self) -> int:
        """Return the number of ready pods, including the members of the groups of ``begun``."""
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all ready pods in no particular order."""
        yield from [entry for entry in self._heads if not entry.group]
        for members in self._groups.values():
            yield from members

    @property
    def has_first(self) -> bool:
        """Whether a pod stands in line."""
        return len(self._heads) > 0

    @property
    def first(self) -> Entry:
        """The first pod in line.

        Raises: IndexError: no pod stands in line.
        """
        return self._heads.first

    def push(self, entry: Entry) -> None:
        """Add a ready pod, or move a pod of the line that has changed to its new place."""
        if not entry.group:
            self._size += self._heads.push(entry)
            return
        members = self._leaves(entry.group)
        self._size += members.push(entry)
        self._stands(entry.group, members)

    def remove(self, entry: Entry) -> None:
        """Remove a pod; do nothing if the line does not have the pod."""
        if not entry.group:
            self._size -= self._heads.remove(entry)
            return
        members = self._leaves(entry.group)
        self._size -= members.remove(entry)
        self._stands(entry.group, members)

    def begin(self, group: str) -> None:
        """Take a group out of the line: its members may follow the one that was released."""
        members = self._leaves(group)
        self._begun.add(group)
        self._stands(group, members)

    def end(self, group: str) -> None:
        """Let the ready members of a group stand in line again."""
        self._begun.discard(group)
        self._stands(group, self._leaves(group))

    def member(self, group: str) -> Entry | None:
        """Return the first ready member of a group; None: no member is ready."""
        members = self._groups.get(group)
        return members.first if members else None

    def ordered(self) -> list[list[Entry]]:
        """Return lists in the order of release: each has one pod, or the members of a group.

        The groups of ``begun`` are left out.
        """
        return [self._with_members(head) for head in self._heads.ordered()]

    def begun(self) -> list[Entry]:
        """Return the ready members of groups of which a member was released, group by group."""
        groups = [members for group, members in self._groups.items() if group in self._begun]
        return [entry for members in groups for entry in members.ordered()]

    def _with_members(self, head: Entry) -> list[Entry]:
        return self._groups[head.group].ordered() if head.group else [head]

    def _leaves(self, group: str) -> Heap[Entry]:
        """Take the first member of a group out of the line; return all ready members."""
        members = self._groups.setdefault(group, Heap(self._order))
        if members:
            self._heads.remove(members.first)
        return members

    def _stands(self, group: str, members: Heap[Entry]) -> None:
        """Put the first member of a group into the line, unless the group has begun."""
        if not members:
            del self._groups[group]
        elif group not in self._begun:
            self._heads.push(members.first)
