"""Counts the released pods that kube-scheduler cannot place, and delays namespaces with many.

kube-scheduler tries an unschedulable pod again and again, and a removed gate cannot be put back. A
pod that an extender rejected is tried after every event of the cluster, such as the binding of any
pod. Without delays, a user could make kube-scheduler try thousands of pods, and all other released
pods would wait behind these.
"""

from collections import Counter
from collections.abc import Callable, Iterable

__all__ = ["UnschedulableDelays"]


class UnschedulableDelays:
    """Counts unschedulable pods by namespace, and pauses the releases of a namespace with many.

    Args:
        most: the number of unschedulable pods from which on a namespace has pauses.
        pause_s: how many seconds a namespace with ``most`` unschedulable pods waits for its next
            release; with twice as many pods the namespace waits twice as long.
        clock: returns monotonic seconds.
    """

    def __init__(self, most: int, pause_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._pause_s = pause_s
        self._clock = clock
        self._counts: Counter[str] = Counter()
        # Namespace with at least ``most`` pods -> since when, or the time of its last release.
        self._since_s: dict[str, float] = {}

    def add(self, namespace: str) -> None:
        """Add one to the namespace's count of pods that kube-scheduler cannot place."""
        self._counts[namespace] += 1
        if self._counts[namespace] >= self._most:
            self._since_s.setdefault(namespace, self._clock())

    def remove(self, namespace: str) -> None:
        """Subtract one from the namespace's count of pods that kube-scheduler cannot place."""
        self._counts[namespace] -= 1
        if self._counts[namespace] < self._most:
            self._since_s.pop(namespace, None)
        if not self._counts[namespace]:
            del self._counts[namespace]

    def released(self, namespace: str) -> None:
        """Begin a pause of the namespace after a release, if it has many unschedulable pods."""
        if namespace in self._since_s:
            self._since_s[namespace] = self._clock()

    def count(self, namespace: str) -> int:
        """Return how many pods of the namespace kube-scheduler cannot place."""
        return self._counts[namespace]

    def next_at_s(self, namespace: str) -> float | None:
        """Return when, in seconds of ``clock``, the namespace may release a pod; None: any time."""
        since_s = self._since_s.get(namespace)
        if since_s is None:
            return None
        return since_s + self._pause_s * self._counts[namespace] / self._most

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces that have at least ``most`` unschedulable pods."""
        return tuple(self._since_s)
