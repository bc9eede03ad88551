"""The CycleState of each pod's last attempt: begun by filter, read by prioritize and bind.

The requests name a pod and no attempt, so the UID of the pod is what finds it. An attempt that
left no node is dropped; one whose bind never comes is forgotten when many others came after it.
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
        pod: as the filter request brought it.
        state: what its plugins tell each other.
    """

    pod: core.Pod
    state: CycleState


class Attempts:
    """The last attempt of each pod; safe to use from many threads.

    Args:
        limit: attempts kept, as of ``KeptPods``.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._lock = threading.Lock()
        self._attempts: KeptPods[str, Attempt] = KeptPods(limit)

    def begin(self, pod: core.Pod) -> Attempt:
        """A new attempt, which takes the place of the pod's last one."""
        attempt = Attempt(pod, CycleState())
        with self._lock:
            self._attempts.put(pod.uid, attempt, pod)
        return attempt

    def find(self, uid: str) -> Attempt | None:
        """The pod's last attempt, if it is still known."""
        with self._lock:
            return self._attempts.get(uid)

    def take(self, uid: str) -> Attempt | None:
        """The same, and it is forgotten: a bind keeps the one it started with."""
        with self._lock:
            return self._attempts.pop(uid)

    def drop(self, attempt: Attempt) -> None:
        """Forgets it, unless a newer one took its place."""
        with self._lock:
            if self._attempts.get(attempt.pod.uid) is attempt:
                self._attempts.pop(attempt.pod.uid)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._attempts)
