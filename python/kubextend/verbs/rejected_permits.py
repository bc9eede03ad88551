"""Pods that a Permit plugin rejected, and the answer to their next filter call.

bind can answer such a pod with an Error only, and kube-scheduler retries an Error after a few
seconds, again and again. kubextend therefore keeps the rejection: the pod's next filter call
rejects every node with Permit's reason, and kube-scheduler parks the pod. The plugin may wake the
pod; kubextend wakes the pod after a while in any case, since not every plugin does.
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
    """A rejection, which holds until its time is over or the pod is activated."""

    pod: core.Pod
    status: Status
    hold_s: float
    until_s: float
    holds: bool = True


class RejectedPermits:
    """Rejections by pod UID; safe to use from many threads.

    The rejections of one process only: after a restart, or where different replicas answer bind and
    filter, kube-scheduler simply tries the pod again.

    Plugins activate pods through this class: a pod that a plugin activates may succeed, so its
    rejection no longer holds.

    Args:
        activator: makes kube-scheduler ask about a pod again; None: nobody does.
        clock: monotonic seconds.
        limit: pods remembered; beyond it the one rejected first is forgotten and woken.
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
        """Keep a pod that Permit rejected from being tried again for 10 s, doubling up to 5 min."""
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
                    # The pod may be parked by now, and ``due`` no longer finds it.
                    self._forgotten.append(oldest.pod)

    def find(self, uid: str) -> Status | None:
        """Return why the pod is not tried now; None where it is tried."""
        rejected = self._rejected.get(uid)
        if rejected is None or not rejected.holds or rejected.until_s <= self._clock():
            return None
        return rejected.status

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or gone."""
        if self._rejected:
            with self._lock:
                self._rejected.pop(uid, None)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Let the pods be tried again, as they may succeed now; kube-scheduler asks soon."""
        pods = list(pods)
        with self._lock:
            for pod in pods:
                rejected = self._rejected.get(pod.uid)
                if rejected is not None:
                    rejected.holds = False
        if self._activator is not None:
            self._activator.activate(pods)

    def due(self) -> list[core.Pod]:
        """Return, once, each pod that is tried again from now on; call this about once a second."""
        now = self._clock()
        with self._lock:
            over = [each for each in self._rejected.values() if each.holds and each.until_s <= now]
            for rejected in over:
                rejected.holds = False
            forgotten, self._forgotten = self._forgotten, []
        return [*forgotten, *(rejected.pod for rejected in over)]

    def __len__(self) -> int:
        """Return how many pods are remembered, with those that are tried again."""
        return len(self._rejected)
