"""The CycleState of each pod's last attempt: filter begins it, prioritize and bind read it.

A request names a pod and no attempt, so kubextend finds an attempt by the UID of its pod. kubextend
drops an attempt that left no node, and forgets one without a bind once many others came after it.
"""

import threading
from dataclasses import dataclass

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.verbs.kept_pods import KeptPods

__all__ = ["Attempt", "Attempts"]

_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scheduling attempt of a pod.

    Attributes:
        pod: the pod as the filter request brought it.
        state: what the plugins of the attempt tell each other.
    """

    pod: core.Pod
    state: CycleState


class Attempts:
    """The last attempt of each pod; safe to use from many threads.

    Args:
        limit: attempts kept, see ``KeptPods``.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._lock = threading.Lock()
        self._attempts: KeptPods[str, Attempt] = KeptPods(limit)

    def begin(self, pod: core.Pod) -> Attempt:
        """Begin an attempt, which replaces the pod's last one."""
        attempt = Attempt(pod, CycleState())
        with self._lock:
            self._attempts.put(pod.uid, attempt, pod)
        return attempt

    def find(self, uid: str) -> Attempt | None:
        """Return the pod's last attempt, if it is still known."""
        with self._lock:
            return self._attempts.get(uid)

    def take(self, uid: str) -> Attempt | None:
        """Return the pod's last attempt and forget it: a bind keeps the attempt it began with."""
        with self._lock:
            return self._attempts.pop(uid)

    def drop(self, attempt: Attempt) -> None:
        """Forget the attempt, unless a newer one has replaced it."""
        with self._lock:
            if self._attempts.get(attempt.pod.uid) is attempt:
                self._attempts.pop(attempt.pod.uid)

    def __len__(self) -> int:
        """Return how many attempts are kept."""
        return len(self._attempts)
