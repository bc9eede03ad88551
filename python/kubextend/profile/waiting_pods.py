"""Keeps the pods that wait in Permit until plugins allow or reject them, or a timeout passes.

A waiting pod costs a future, and a timer for each plugin that holds it, but no thread.

Source: kubernetes v1.36 pkg/scheduler/framework/runtime/waiting_pods_map.go
"""

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from kubextend import core
from kubextend.config import Duration
from kubextend.framework.status import Status
from kubextend.metrics import ScrapedGauge

__all__ = ["MAX_PERMIT_WAIT_S", "WaitingPod", "WaitingPods"]

_LOGGER = logging.getLogger(__name__)

MAX_PERMIT_WAIT_S: Final = 15 * 60.0
"""The longest wait in seconds, as in kube-scheduler."""


class WaitingPod:
    """One pod that Permit plugins hold. Any thread may call the methods.

    Args:
        pod: the pod.
        node_name: the node that the pod is to run on.
        waits_s: plugin name -> timeout in seconds; the first timeout that passes rejects the pod.
    """

    __slots__ = (
        "_answer",
        "_decided",
        "_lock",
        "_loop",
        "_pending",
        "_rejected",
        "_waits_s",
        "node_name",
        "pod",
        "rejected_by",
        "since_s",
    )

    def __init__(self, pod: core.Pod, node_name: str, waits_s: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self.since_s = time.time()
        # The plugin that rejected the pod; empty: a person did, or nobody.
        self.rejected_by = ""
        self._waits_s = waits_s
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Status] = self._loop.create_future()
        self._lock = threading.Lock()
        self._decided = False
        self._rejected = False
        self._pending = {
            name: self._loop.call_later(wait_s, self._timed_out, name, wait_s)
            for name, wait_s in waits_s.items()
        }

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The names of the Permit plugins that still hold the pod."""
        with self._lock:
            return tuple(self._pending)

    @property
    def rejected(self) -> bool:
        """Whether the pod was rejected or failed, or its binding cycle waits no more."""
        return self._rejected or self._answer.cancelled()

    @property
    def deadline_s(self) -> float | None:
        """The Unix time at which the first timeout rejects the pod; None: no plugin holds it."""
        waits_s = [self._waits_s[name] for name in self.pending_plugins]
        return self.since_s + min(waits_s) if waits_s else None

    def allow(self, plugin: str) -> bool:
        """Stop one plugin from holding the pod; return False if the plugin did not hold the pod.

        Once no plugin holds the pod, its binding cycle goes on.
        """
        with self._lock:
            timer = self._pending.pop(plugin, None)
            last = timer is not None and not self._pending
        if timer is not None:
            self._loop.call_soon_threadsafe(timer.cancel)
        if last:
            return self._decide(Status.success())
        return timer is not None

    def reject(self, plugin: str, reason: str) -> bool:
        """End the pod's wait with Unschedulable; return False if the wait was decided before."""
        return self._decide(Status.unschedulable(reason), plugin)

    def send_back(self, reason: str) -> bool:
        """End the pod's wait with an Error; return False if the wait was decided before."""
        return self._decide(Status.error(reason))

    def wait(self) -> Awaitable[Status]:
        """Return an awaitable for the decision about the pod."""
        return self._answer

    def end(self) -> None:
        """Reject the pod if it is undecided, because nobody waits for the decision any more."""
        self._decide(Status.unschedulable("the wait has ended"))

    def _timed_out(self, plugin: str, wait_s: float) -> None:
        if plugin not in self.pending_plugins:
            # The plugin allowed the pod at the moment of the timeout.
            return
        # This sentence is kube-scheduler's own.
        waited = Duration(round(wait_s * 1e9))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _decide(self, status: Status, plugin: str = "") -> bool:
        with self._lock:
            if self._decided:
                return False
            self._decided = True
            self.rejected_by = plugin
            self._rejected = not status.is_success
            timers = list(self._pending.values())
            self._pending.clear()
        self._loop.call_soon_threadsafe(self._resolve, status, timers)
        return True

    def _resolve(self, status: Status, timers: list[asyncio.TimerHandle]) -> None:
        for timer in timers:
            timer.cancel()
        if not self._answer.done():
            self._answer.set_result(status)


class WaitingPods:
    """The pods that Permit plugins hold now, by UID.

    Each waiting pod costs a connection. A pod beyond one of the two limits is rejected and not
    held: if held pods took all file descriptors, no pod could be bound.

    Args:
        max_wait_s: the most seconds for which a plugin may hold a pod, because kube-scheduler's
            bind request times out.
        max_pods: the most pods held at a time.
        max_pods_per_namespace: the most pods of one namespace held at a time.
    """

    METRICS: ClassVar[tuple["ScrapedGauge[WaitingPods]"]] = (
        ScrapedGauge("kubextend_waiting_pods", "Pods that Permit holds.", len),
    )

    def __init__(
        self,
        max_wait_s: float = MAX_PERMIT_WAIT_S,
        max_pods: float = math.inf,
        max_pods_per_namespace: float = math.inf,
    ) -> None:
        self.max_wait_s = min(max_wait_s, MAX_PERMIT_WAIT_S)
        self._max_pods = max_pods
        self._max_pods_per_namespace = max_pods_per_namespace
        self._pods: dict[str, WaitingPod] = {}
        self._by_namespace = Counter[str]()
        self._is_full = False
        self._on_hold: list[Callable[[WaitingPod], object]] = []
        self._on_end: list[Callable[[WaitingPod], object]] = []
        self._unreserving: set[str] = set()
        self._closed = ""

    def tell(
        self,
        on_hold: Callable[[WaitingPod], object],
        on_end: Callable[[WaitingPod], object] = lambda _: None,
    ) -> None:
        """Call ``on_hold`` when a pod's wait in Permit begins, and ``on_end`` when the wait ends.

        Neither function may block.
        """
        self._on_hold.append(on_hold)
        self._on_end.append(on_end)

    def add(self, waiting: WaitingPod) -> None:
        """Hold a pod; reject it if a limit is reached, or end its wait at once after ``close``."""
        pod = waiting.pod
        if pod.uid not in self._pods:
            if full := self._full(pod.namespace):
                self._say(pod, full)
                # ``unreserving`` ends this; the pod counts as failed before its Unreserve begins.
                self._unreserving.add(pod.uid)
                waiting.reject("", full)
                return
            self._by_namespace[pod.namespace] += 1
        self._pods[pod.uid] = waiting
        if self._closed:
            waiting.send_back(self._closed)
            return
        for on_hold in self._on_hold:
            on_hold(waiting)

    def close(self, reason: str) -> None:
        """End the waits of all held pods, now and later, with an Error. Any thread may call.

        A process that ends has little time, in which plugins must give up the reservations of held
        pods.
        """
        self._closed = reason
        for waiting in self:
            waiting.send_back(reason)

    def remove(self, waiting: WaitingPod) -> None:
        """Forget a pod's wait that has ended; a newer wait of the pod stays."""
        pod = waiting.pod
        if self._pods.get(pod.uid) is not waiting:
            return
        del self._pods[pod.uid]
        self._is_full = False
        self._by_namespace[pod.namespace] -= 1
        if not self._by_namespace[pod.namespace]:
            del self._by_namespace[pod.namespace]
        for on_end in self._on_end:
            on_end(waiting)

    def get(self, uid: str) -> WaitingPod | None:
        """Return the pod with this UID if Permit plugins hold it, else None."""
        return self._pods.get(uid)

    def send_back(self, uid: str, reason: str) -> bool:
        """End the wait of the pod with this UID with an Error; return False if it has none."""
        waiting = self.get(uid)
        return waiting is not None and waiting.send_back(reason)

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """End the wait of the pod with this UID as Unschedulable; return False if it has none."""
        waiting = self.get(uid)
        return waiting is not None and waiting.reject(plugin, reason)

    @contextmanager
    def unreserving(self, uid: str) -> Iterator[None]:
        """Return a context during which a pod counts as failed, with Unreserve still running."""
        self._unreserving.add(uid)
        try:
            yield
        finally:
            self._unreserving.discard(uid)

    def gives_up(self, uid: str) -> bool:
        """Return whether a pod's binding cycle failed and an Unreserve still has to run."""
        held = self._pods.get(uid)
        return uid in self._unreserving or (held is not None and held.rejected)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the pods that Permit plugins hold at this moment."""
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        """Return how many pods Permit plugins hold."""
        return len(self._pods)

    def _full(self, namespace: str) -> str:
        """Return why no further pod of the namespace may be held; empty if another may."""
        if len(self._pods) >= self._max_pods:
            return f"{self._max_pods} pods wait already, as extender.maxHeldPods allows"
        if self._by_namespace[namespace] >= self._max_pods_per_namespace:
            most = self._max_pods_per_namespace
            return (
                f"{most} pods of this namespace wait already,"
                " as extender.maxHeldPodsPerNamespace allows"
            )
        return ""

    def _say(self, pod: core.Pod, full: str) -> None:
        """Log once that a limit of held pods is reached, until a held pod leaves."""
        if not self._is_full:
            self._is_full = True
            _LOGGER.warning("pod %s/%s cannot be held: %s", pod.namespace, pod.name, full)
