"""The CycleState of each pod's last attempt: filter begins it, prioritize and bind read it.

A request names a pod and no attempt, so kubextend finds an attempt by the UID of its pod. kubextend
drops an attempt that left no node, and forgets one without a bind once many others came after it.
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
        pod: the pod as the filter request brought it.
        state: what the plugins of the attempt tell each other.
        nominated_alone: whether kube-scheduler asks about the nominated node alone; if that node is
            rejected, kube-scheduler asks about all nodes in the same cycle.
    """

    pod: core.Pod
    state: CycleState
    nominated_alone: bool = False


class Attempts:
    """The last attempt of each pod; safe to use from many threads.

    Args:
        limit: attempts kept, see ``KeptPods``.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._lock = threading.Lock()
        self._attempts: KeptPods[str, Attempt] = KeptPods(limit)
        self._limit = limit
        # The nominated node of each pod whose last attempt was about that node alone, and left no
        # node.
        self._left_nominated: OrderedDict[str, str] = OrderedDict()

    def begin(self, pod: core.Pod, nodes: core.Nodes | None = None) -> Attempt:
        """Begin an attempt, which replaces the pod's last one.

        Where in-tree filters left no other node, kube-scheduler's call for the nominated node and
        its call for all nodes are equal. The second of two such calls is for all nodes.

        Args:
            pod: the pod.
            nodes: the nodes that kube-scheduler asks filter about; None: the call is no filter
                call.
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
        """Return the pod's last attempt, if it is still known."""
        with self._lock:
            return self._attempts.get(uid)

    def take(self, uid: str) -> Attempt | None:
        """Return the pod's last attempt and forget it: a bind keeps the attempt it began with."""
        with self._lock:
            return self._attempts.pop(uid)

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt that left no node or failed, unless a newer one has replaced it."""
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
        """Return how many attempts are kept."""
        return len(self._attempts)
