"""How many pods of each namespace kube-scheduler has and cannot place.

kube-scheduler tries such a pod again and again, and a gate cannot be put back. A pod that an
extender rejected is tried after every event of the cluster, such as the binding of any pod. Whoever
may create pods could have kube-scheduler try thousands, and all released pods wait behind them.
"""

from collections import Counter
from collections.abc import Callable, Iterable

__all__ = ["UnschedulableCounts"]


class UnschedulableCounts:
    """The unschedulable pods of each namespace, and when a namespace with many gets one more.

    Args:
        most: as many pods of a namespace are released without a pause.
        pause_s: how long a namespace with ``most`` such pods waits for its next one; with twice as
            many it waits twice as long.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, pause_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._pause_s = pause_s
        self._clock = clock
        self._counts: Counter[str] = Counter()
        # The namespaces with many: since when, or since their last release.
        self._since_s: dict[str, float] = {}

    def add(self, namespace: str) -> None:
        """Count one more pod that kube-scheduler cannot place."""
        self._counts[namespace] += 1
        if self._counts[namespace] >= self._most:
            self._since_s.setdefault(namespace, self._clock())

    def remove(self, namespace: str) -> None:
        """Count one pod fewer that kube-scheduler cannot place."""
        self._counts[namespace] -= 1
        if self._counts[namespace] < self._most:
            self._since_s.pop(namespace, None)
        if not self._counts[namespace]:
            del self._counts[namespace]

    def released(self, namespace: str) -> None:
        """Note that a pod of the namespace was released."""
        if namespace in self._since_s:
            self._since_s[namespace] = self._clock()

    def count(self, namespace: str) -> int:
        """Return how many pods of the namespace kube-scheduler cannot place."""
        return self._counts[namespace]

    def next_at_s(self, namespace: str) -> float | None:
        """Return when the next pod of the namespace may be released; None: at any time."""
        since_s = self._since_s.get(namespace)
        if since_s is None:
            return None
        return since_s + self._pause_s * self._counts[namespace] / self._most

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces with many."""
        return tuple(self._since_s)
