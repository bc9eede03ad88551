"""The window: the pods whose gate is being removed, and the released pods that the queue waits for.

Where namespaces take turns, a pod may step aside: it takes no place any more, its own namespace
goes on waiting for it, and the other namespaces do not.
"""

from collections.abc import Iterator
from typing import Final

from kubextend.queue.entry import Entry, State

__all__ = ["VERDICTS", "Window"]

VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""The reasons that kube-scheduler gives for a pod that it has tried and not placed."""
MOST_AHEAD: Final = 2
"""With a window of 1, how many pods are released after one that stepped aside and that
kube-scheduler has not tried. kube-scheduler tries all of them first if their priority is higher. In
simulations in which 8 overtake a pod, other namespaces take nearly all attempts of a slow
kube-scheduler."""


class Window:
    """Knows which pods take a place, which have stepped aside, and whether there is room.

    Args:
        size: the number of places.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._most_ahead = MOST_AHEAD + size - 1
        # Each is a set in the order of arrival.
        self._entries: dict[Entry, None] = {}
        self._places: dict[Entry, None] = {}
        self._late: dict[Entry, None] = {}
        self._by_namespace: dict[str, dict[Entry, None]] = {}
        self._releases = 0

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all pods, with those that stepped aside, in the order of their coming."""
        return iter(tuple(self._entries))

    def __contains__(self, entry: Entry) -> bool:
        """Return whether the queue waits for the pod, in the window or beside it."""
        return entry in self._entries

    def enter(self, entry: Entry) -> None:
        """Give a pod a place, from now on."""
        if entry.state is State.RELEASED:
            self._releases += 1
            entry.release = self._releases
        self._entries[entry] = self._places[entry] = None
        self._by_namespace.setdefault(entry.pod.namespace, {})[entry] = None

    def leave(self, entry: Entry) -> None:
        """Forget a pod for which the queue no longer waits."""
        for pods in (self._entries, self._places, self._late):
            pods.pop(entry, None)
        mine = self._by_namespace[entry.pod.namespace]
        del mine[entry]
        if not mine:
            del self._by_namespace[entry.pod.namespace]
        entry.beside = False

    def step_aside(self, entry: Entry) -> None:
        """Take the pod's place away; call this again once kube-scheduler has tried the pod."""
        entry.beside = True
        self._places.pop(entry, None)
        if entry.state is State.RELEASED and entry.pod.scheduled_reason not in VERDICTS:
            self._late[entry] = None
        else:
            self._late.pop(entry, None)

    def taking_places(self) -> list[Entry]:
        """Return the pods that take a place."""
        return [entry for entry in self._places if not entry.is_large_releasing]

    def released(self) -> list[Entry]:
        """Return the released pods that take a place."""
        return [entry for entry in self._places if entry.state is State.RELEASED]

    def has_room(self) -> bool:
        """Return whether another pod may be released."""
        return len(self.taking_places()) < self._size and not self.overtaken()

    def overtaken(self) -> list[Entry]:
        """Return the untried pods beside the window after which as many were released as may be."""
        latest = self._releases - self._most_ahead
        return [entry for entry in self._late if entry.release <= latest]

    def of(self, namespace: str) -> list[Entry]:
        """Return the pods of a namespace, with those that stepped aside."""
        return list(self._by_namespace.get(namespace, ()))

    def awaited(self, namespace: str) -> Entry | None:
        """Return the pod for which its namespace waits; None: the namespace need not wait.

        A namespace waits for each pod whose first patch was refused. It waits for the other pods
        that stepped aside while it has as many pods in the window and beside it as there are
        places.
        """
        mine = [entry for entry in self.of(namespace) if not entry.is_large_releasing]
        beside = [entry for entry in mine if entry.beside]
        refused = [entry for entry in beside if entry.state is State.RELEASING]
        waits = refused or (beside and len(mine) >= self._size)
        return min(beside, key=lambda entry: entry.sequence) if waits else None
