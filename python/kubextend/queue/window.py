"""The window: the pods whose gate is being removed, and the released pods that the queue waits for.

Where namespaces take turns, a pod may step aside: it then stands beside the window, takes no place
in it, and only its own namespace waits for it. A late pod has been released and has stepped aside
before kube-scheduler tried it.
"""

from collections.abc import Iterator
from typing import Final

from kubextend.queue.entry import Entry, State

__all__ = ["VERDICTS", "Window"]

VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""The reasons that kube-scheduler gives for a pod that it has tried and not placed."""
MOST_AHEAD: Final = 2
"""With a window of 1, how many more pods may be late before the first late pod delays the other
namespaces. kube-scheduler tries all of them first if their priority is higher. In simulations in
which 8 overtake a pod, other namespaces take nearly all attempts of a slow kube-scheduler."""
LONGEST_DELAY_S: Final = 4.0
"""For how many seconds after its release a late pod may delay other namespaces.

Each such delay that ends in vain halves the next one, until a late pod is tried in time. Some pods
are never tried, or get a verdict only after minutes, for example while a volume is made for them:
whoever may create namespaces could create one such pod in each.
"""


class Window:
    """Limits how many pods are being released, or are waited for after their release, at a time.

    A pod that steps aside frees its place in the window, and only its own namespace waits for it.

    Args:
        size: the number of places in the window.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._most_ahead = MOST_AHEAD + size - 1
        # Each is a set in the order of arrival.
        self._entries: dict[Entry, None] = {}
        self._places: dict[Entry, None] = {}
        # Released pods beside the window that kube-scheduler has not tried, with a serial number.
        self._late: dict[Entry, int] = {}
        # By namespace: the pods that take a place, and those that have stepped aside.
        self._in_window: dict[str, dict[Entry, None]] = {}
        self._beside: dict[str, dict[Entry, None]] = {}
        # Large pods whose gate is being removed.
        self._large: dict[Entry, None] = {}
        self._times_late = 0
        self._delay_s = LONGEST_DELAY_S

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all pods, with those that stepped aside, in the order of their coming."""
        return iter(tuple(self._entries))

    def __contains__(self, entry: Entry) -> bool:
        """Return whether the queue waits for the pod, even if only the pod's namespace waits."""
        return entry in self._entries

    def enter(self, entry: Entry) -> None:
        """Give a pod a place, from now on; a large pod whose gate is being removed takes none.

        kube-apiserver compares each toleration with each other one: 14,000 of them take more time
        than a patch may take. Whoever may create pods could have the queue wait for one such pod
        after the other.
        """
        self._entries[entry] = None
        if entry.state is State.RELEASING and entry.pod.truncated:
            self._large[entry] = None
            return
        self._places[entry] = None
        self._in_window.setdefault(entry.pod.namespace, {})[entry] = None

    def leave(self, entry: Entry) -> None:
        """Forget a pod for which the queue no longer waits."""
        del self._entries[entry]
        self._late.pop(entry, None)
        self._large.pop(entry, None)
        self._give_up_place(entry)
        _remove(self._beside, entry)
        entry.beside = False

    def step_aside(self, entry: Entry) -> None:
        """Take the pod's place away: only its own namespace still waits for the pod.

        Call this method again once kube-scheduler has tried the pod.
        """
        self._give_up_place(entry)
        self._beside.setdefault(entry.pod.namespace, {})[entry] = None
        entry.beside = True
        if entry.state is State.RELEASING or entry.pod.scheduled_reason in VERDICTS:
            self._late.pop(entry, None)
        elif entry not in self._late:
            self._times_late += 1
            self._late[entry] = self._times_late

    def tried(self, entry: Entry) -> None:
        """Note that kube-scheduler has tried a pod, perhaps one that stepped aside untried.

        In that case kube-scheduler is slow, and such pods may delay other namespaces for 4 s again.
        """
        if entry in self._late:
            self._delay_s = LONGEST_DELAY_S

    def let_overtake(self, now_s: float) -> None:
        """Let further pods overtake untried pods whose time to delay other namespaces is over."""
        for entry in self.overtaken():
            if now_s >= self.delays_until_s(entry):
                del self._late[entry]
                self._delay_s /= 2.0

    def delays_until_s(self, entry: Entry) -> float:
        """Return the time until which an untried pod may delay the pods of other namespaces."""
        return entry.entered_at_s + self._delay_s

    def has_large(self) -> bool:
        """Return whether the gate of a pod too large to be kept whole is being removed."""
        return bool(self._large)

    def taking_places(self) -> list[Entry]:
        """Return the pods that take a place."""
        return list(self._places)

    def released(self) -> list[Entry]:
        """Return the released pods that take a place."""
        return [entry for entry in self._places if entry.state is State.RELEASED]

    def has_room(self) -> bool:
        """Return whether another pod may be released."""
        return len(self._places) < self._size and not self.overtaken()

    def overtaken(self) -> list[Entry]:
        """Return the untried pods that stepped aside and that no further pod may overtake."""
        latest = self._times_late - self._most_ahead
        return [entry for entry, number in self._late.items() if number <= latest]

    def of(self, namespace: str) -> list[Entry]:
        """Return the pods of a namespace that take a place or have stepped aside."""
        return [*self._beside.get(namespace, ()), *self._in_window.get(namespace, ())]

    def awaited(self, namespace: str) -> Entry | None:
        """Return the pod for which its namespace waits; None: the namespace need not wait.

        A namespace waits for each pod whose first patch was refused. It waits for the other pods
        that stepped aside while it has as many pods in the window and beside it as there are
        places.
        """
        beside = self._beside.get(namespace)
        if not beside:
            return None
        is_full = len(beside) + len(self._in_window.get(namespace, ())) >= self._size
        if is_full or any(entry.state is State.RELEASING for entry in beside):
            return min(beside, key=lambda entry: entry.sequence)
        return None

    def _give_up_place(self, entry: Entry) -> None:
        self._places.pop(entry, None)
        _remove(self._in_window, entry)


def _remove(by_namespace: dict[str, dict[Entry, None]], entry: Entry) -> None:
    """Remove a pod from the pods of its namespace, if it is among them."""
    pods = by_namespace.get(entry.pod.namespace, {})
    pods.pop(entry, None)
    if not pods:
        by_namespace.pop(entry.pod.namespace, None)
