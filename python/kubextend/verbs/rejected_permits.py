"""Pods that a Permit plugin rejected, and what their next filter call is told.

bind can answer such a pod with an Error only, and kube-scheduler makes a new attempt of an error
after a few seconds, again and again. So the rejection is kept: the pod's next filter call rejects
every node with Permit's reason, and kube-scheduler parks the pod. It is woken when the plugin
activates it, and otherwise after a while, since nothing says that every plugin will.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubextend import core
from kubextend.framework.handle import Activator
from kubextend.framework.status import Status

__all__ = ["RejectedPermits"]

_HOLD_S = 10.0
_LONGEST_HOLD_S = 300.0
_LIMIT = 4096


@dataclass(slots=True)
class _Rejected:
    """A rejection; it holds until its time is over or the pod is activated."""

    pod: core.Pod
    status: Status
    hold_s: float
    until_s: float
    holds: bool = True


class RejectedPermits:
    """Rejections by pod UID; safe to use from many threads.

    They are those of this process: after a restart, or with bind and filter answered by different
    replicas, a pod is simply tried again.

    It stands between the plugins and what wakes pods: a pod that a plugin activates may succeed,
    so it is tried again.

    Args:
        activator: makes kube-scheduler ask about a pod again; None: nobody does.
        clock: seconds that only go forward.
        limit: pods remembered; beyond it the one rejected first is forgotten, and woken.
    """

    def __init__(
        self,
        activator: Activator | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        limit: int = _LIMIT,
    ) -> None:
        self._activator = activator
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._rejected: OrderedDict[str, _Rejected] = OrderedDict()
        self._forgotten: list[core.Pod] = []

    def remember(self, pod: core.Pod, status: Status) -> None:
        """Permit rejected the pod: for 10 s it is not tried again, doubling up to 5 min."""
        now = self._clock()
        with self._lock:
            last = self._rejected.pop(pod.uid, None)
            hold_s = _HOLD_S
            if last is not None and now < last.until_s + _LONGEST_HOLD_S:
                hold_s = min(2 * last.hold_s, _LONGEST_HOLD_S)
            self._rejected[pod.uid] = _Rejected(pod, status, hold_s, now + hold_s)
            if len(self._rejected) > self._limit:
                _, oldest = self._rejected.popitem(last=False)
                if oldest.holds:
                    # It may be parked by now, and its time is never over.
                    self._forgotten.append(oldest.pod)

    def find(self, uid: str) -> Status | None:
        """Why the pod is not to be tried now; None: it is."""
        rejected = self._rejected.get(uid)
        if rejected is None or not rejected.holds or rejected.until_s <= self._clock():
            return None
        return rejected.status

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        if self._rejected:
            with self._lock:
                self._rejected.pop(uid, None)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """The pods may succeed now: they are tried again, and kube-scheduler asks soon."""
        pods = list(pods)
        with self._lock:
            for pod in pods:
                rejected = self._rejected.get(pod.uid)
                if rejected is not None:
                    rejected.holds = False
        if self._activator is not None:
            self._activator.activate(pods)

    def due(self) -> list[core.Pod]:
        """Pods that are tried again from now on; each once. To be called about once a second."""
        now = self._clock()
        with self._lock:
            over = [each for each in self._rejected.values() if each.holds and each.until_s <= now]
            for rejected in over:
                rejected.holds = False
            forgotten, self._forgotten = self._forgotten, []
        return [*forgotten, *(rejected.pod for rejected in over)]

    def __len__(self) -> int:
        """How many pods are remembered, those that are tried again among them."""
        return len(self._rejected)
