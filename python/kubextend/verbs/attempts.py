"""The CycleState of each pod's last attempt: begun by filter, read by prioritize and bind.

The requests name a pod and no attempt, so the UID of the pod is what finds it. An attempt that
left no node is dropped; one whose bind never comes is forgotten when many others came after it.
"""

import threading
from collections import OrderedDict
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
        nominated_alone: kube-scheduler asks about the nominated node first, and about all nodes in
            the same cycle where that one is rejected.
    """

    pod: core.Pod
    state: CycleState
    nominated_alone: bool = False


class Attempts:
    """The last attempt of each pod; safe to use from many threads.

    Args:
        limit: attempts kept, as of ``KeptPods``.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._lock = threading.Lock()
        self._attempts: KeptPods[str, Attempt] = KeptPods(limit)
        self._limit = limit
        # The nominated node of each pod whose last attempt asked about that one alone, in vain.
        self._left_nominated: OrderedDict[str, str] = OrderedDict()

    def begin(self, pod: core.Pod, nodes: core.Nodes | None = None) -> Attempt:
        """A new attempt, which takes the place of the pod's last one.

        Where in-tree filters left no other node, kube-scheduler's call for the nominated node and
        its call for all nodes are equal. One follows the other, so the second is for all nodes.

        Args:
            pod: the pod.
            nodes: those that kube-scheduler asks about; None: it does not ask which fit.
        """
        only = nodes.names[0] if nodes is not None and len(nodes) == 1 else ""
        nominated_alone = bool(only) and only == pod.nominated_node_name
        with self._lock:
            if self._left_nominated.pop(pod.uid, None) == only:
                nominated_alone = False
            attempt = Attempt(pod, CycleState(), nominated_alone)
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
        """Forgets it, unless a newer one took its place: it left no node, or it failed."""
        uid = attempt.pod.uid
        with self._lock:
            if self._attempts.get(uid) is not attempt:
                return
            self._attempts.pop(uid)
            if attempt.nominated_alone:
                self._left_nominated[uid] = attempt.pod.nominated_node_name
                if len(self._left_nominated) > self._limit:
                    self._left_nominated.popitem(last=False)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._attempts)
