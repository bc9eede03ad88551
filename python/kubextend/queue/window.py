"""The window: the pods whose gate is being removed, and the released pods that the queue waits for.

If namespaces take turns, a pod may step aside: the pod then takes no place in the window, and only
the pod's own namespace waits for it. A late pod is a released pod that has stepped aside before
kube-scheduler tried it; pods that kube-scheduler would try before a late pod may have to wait for
the late pod too.
"""

from collections.abc import Iterator
from typing import Final

from kubextend.queue.entry import Entry, State
from kubextend.queue.overtaken_pods import OvertakenPods

__all__ = ["VERDICTS", "Window"]

VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""The reasons that kube-scheduler gives for a pod that it has tried and not placed."""


class Window:
    """Limits how many pods the queue releases, or waits for after their release, at a time.

    A pod that steps aside frees its place in the window; then only the pod's namespace waits for
    the pod.

    Args:
        size: the number of places in the window.

    Attributes:
        late: the released pods that kube-scheduler has not tried soon.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # Each of these dicts is a set in order of arrival.
        self._entries: dict[Entry, None] = {}
        self._places: dict[Entry, None] = {}
        # Namespace -> the pods that take a place in the window, and the pods that have stepped
        # aside.
        self._in_window: dict[str, dict[Entry, None]] = {}
        self._beside: dict[str, dict[Entry, None]] = {}
        self.late = OvertakenPods(size)
        # Large pods whose gate is being removed.
        self._large: dict[Entry, None] = {}

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all pods, including those that stepped aside, in order of arrival."""
        return iter(tuple(self._entries))

    def __contains__(self, entry: Entry) -> bool:
        """Return whether the queue, or only the pod's namespace, waits for a pod."""
        return entry in self._entries

    def enter(self, entry: Entry) -> None:
        """Give a pod a place in the window; a large pod gets none while its gate is being removed.

        kube-apiserver compares each toleration of a patched pod with each other toleration. The
        patch that removes the gate of a pod with 14,000 tolerations takes longer than a patch may
        take. If such large pods took places, a user who may create pods could make the queue wait
        for one large pod after the other.
        """
        self._entries[entry] = None
        if entry.state is State.RELEASING and entry.pod.truncated:
            self._large[entry] = None
            return
        self._places[entry] = None
        self._in_window.setdefault(entry.pod.namespace, {})[entry] = None

    def leave(self, entry: Entry, now_s: float) -> None:
        """Remove a pod for which the queue no longer waits."""
        del self._entries[entry]
        if entry.state is State.RELEASED and now_s < entry.leaves_at_s:
            self.late.remove(entry, now_s)
        else:
            self.late.drop(entry)
        self._large.pop(entry, None)
        self._give_up_place(entry)
        _remove(self._beside, entry)
        entry.beside = False

    def step_aside(self, entry: Entry, now_s: float) -> None:
        """Take away a pod's place in the window; only the pod's own namespace still waits for it.

        Call this method again once kube-scheduler has tried the pod.
        """
        self._give_up_place(entry)
        self._beside.setdefault(entry.pod.namespace, {})[entry] = None
        was_tried, entry.beside = entry.beside and entry not in self.late, True
        if entry.state is not State.RELEASED or was_tried:
            return
        if entry.pod.scheduled_reason in VERDICTS:
            self.late.remove(entry, now_s)
        else:
            self.late.add(entry)

    def has_large(self) -> bool:
        """Return whether the gate of a pod with too large a manifest is being removed.

        kubextend keeps such a pod, for example with thousands of tolerations, without these fields.
        """
        return bool(self._large)

    def taking_places(self) -> list[Entry]:
        """Return the pods that take a place in the window."""
        return list(self._places)

    def released(self) -> list[Entry]:
        """Return the pods in the window whose scheduling gate is removed, and that wait for a node.

        The other pods in the window have the gate still.
        """
        return [entry for entry in self._places if entry.state is State.RELEASED]

    def has_room(self) -> bool:
        """Return whether the window has a free place, so that another pod may be released."""
        return len(self._places) < self._size

    def of(self, namespace: str) -> list[Entry]:
        """Return those pods of a namespace for which the queue, or only the namespace, waits."""
        return [*self._beside.get(namespace, ()), *self._in_window.get(namespace, ())]

    def awaited(self, namespace: str) -> Entry | None:
        """Return the pod for which a namespace waits; None: the namespace need not wait.

        A namespace waits for each pod whose first patch was refused. The namespace waits for its
        other pods that stepped aside while it has as many pods, in the window or stepped aside, as
        the window has places.
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
    """Remove a pod from the pods of its namespace, if the pod is among these."""
    pods = by_namespace.get(entry.pod.namespace, {})
    pods.pop(entry, None)
    if not pods:
        by_namespace.pop(entry.pod.namespace, None)
