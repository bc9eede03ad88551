"""Wakes pods that kube-scheduler has parked: a condition of ours on the pod is an update of it.

An update of the pod's own is what makes kube-scheduler look at it again (nothing that happened
to a node before it parked the pod will). Never makes its caller wait; a wake-up is delayed by
limits, and lost only when the API refuses it for good.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.call import CONFLICT, NAME, NOT_FOUND, Call, RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod
    from kubextend.errors import ClusterError

log = logging.getLogger(__name__)

CONDITION = "kubextend.dev/Activated"
REASON = "NodesChanged"
MERGE = "application/strategic-merge-patch+json"
"""Conditions merge by type: the pod's other conditions stay as they are."""

RATE = 20.0
BURST = 50
POD_INTERVAL_S = 1.0
"""kube-scheduler's own backoff begins at a second: waking a pod more often does nothing."""
MAX_WAITING = 10_000
ATTEMPTS = 4
CALL_S = 5.0
JOIN_S = 2.0
INVALID = 422


@dataclass(slots=True)
class ActivatorStats:
    """What happened since the start, for metrics."""

    patched: int = 0
    gone: int = 0
    failed: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Wake:
    namespace: str
    name: str
    uid: str
    attempt: int = 1


class TokenBucket:
    """At most ``rate`` a second, ``burst`` at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    def take(self) -> float:
        """0 and one token less, or the seconds until there is one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._rate
        self._tokens -= 1.0
        return 0.0


class Activator:
    """Patches pods from one thread of its own, which begins with the first pod.

    Args:
        cluster: the API.
        rate: patches a second in the long run.
        burst: patches at once.
        pod_interval_s: the least time between two patches of one pod.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        rate: float = RATE,
        burst: int = BURST,
        pod_interval_s: float = POD_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = ActivatorStats()
        self._cluster = cluster
        self._bucket = TokenBucket(rate, burst, clock)
        self._pod_interval_s = pod_interval_s
        self._clock = clock
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, _Wake]] = []
        self._waiting: set[str] = set()
        self._patched_at: dict[str, float] = {}
        self._order = count()
        self._generation = count(1)
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._failing = False

    def activate(self, pods: Iterable[Pod]) -> None:
        """Each pod will be looked at again by kube-scheduler, soon. Never waits.

        A pod that is already waiting to be patched is patched once.
        """
        with self._changed:
            for pod in pods:
                self._add(_Wake(pod.namespace, pod.name, pod.uid))
            if self._thread is None and self._due and not self._stopped:
                self._thread = threading.Thread(
                    target=self._run, name="kubextend-activator", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """No patch begins after this; those that wait are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def _add(self, wake: _Wake) -> None:
        if wake.uid in self._waiting:
            return
        named = wake.uid and NAME.fullmatch(wake.namespace) and NAME.fullmatch(wake.name)
        if not named or len(self._due) >= MAX_WAITING:
            self.stats.dropped += 1
            return
        due_at = self._patched_at.get(wake.uid, float("-inf")) + self._pod_interval_s
        self._push(max(due_at, self._clock()), wake)

    def _push(self, due_at: float, wake: _Wake) -> None:
        self._waiting.add(wake.uid)
        heapq.heappush(self._due, (due_at, next(self._order), wake))

    def _run(self) -> None:
        while (wake := self._next()) is not None:
            try:
                self._patch(wake)
            except (RefusedError, UnreachableError) as error:
                self._failed(wake, error)
            except Exception:
                self.stats.failed += 1
                log.exception("waking a pod failed in a way it should not")

    def _next(self) -> _Wake | None:
        """The next pod whose time has come, within the rate; None once stopped."""
        with self._changed:
            while not self._stopped:
                wait_s = self._wait_s()
                if wait_s == 0.0:
                    return self._pop()
                self._changed.wait(wait_s)
        return None

    def _wait_s(self) -> float | None:
        if not self._due:
            return None
        early_s = self._due[0][0] - self._clock()
        return early_s if early_s > 0 else self._bucket.take()

    def _pop(self) -> _Wake:
        wake = heapq.heappop(self._due)[2]
        self._waiting.discard(wake.uid)
        now = self._clock()
        if len(self._patched_at) > MAX_WAITING:
            recent = now - self._pod_interval_s
            self._patched_at = {uid: at for uid, at in self._patched_at.items() if at > recent}
        self._patched_at[wake.uid] = now
        return wake

    def _patch(self, wake: _Wake) -> None:
        self._cluster.request(
            Call(
                "PATCH",
                f"/api/v1/namespaces/{wake.namespace}/pods/{wake.name}/status",
                CALL_S,
                body=patch(wake.uid, next(self._generation), datetime.now(UTC)),
                content_type=MERGE,
            )
        )
        self.stats.patched += 1
        self._failing = False

    def _failed(self, wake: _Wake, error: RefusedError | UnreachableError) -> None:
        if _gone(error):
            self.stats.gone += 1
            return
        if not self._failing:
            self._failing = True
            log.warning("pods cannot be woken: %s", error)
        again = isinstance(error, UnreachableError) or error.passes
        if not again or wake.attempt >= ATTEMPTS:
            self.stats.failed += 1
            return
        asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
        pause_s = max(asked_s or 0.0, 2.0 ** (wake.attempt - 1))
        with self._changed:
            if wake.uid not in self._waiting:
                later = _Wake(wake.namespace, wake.name, wake.uid, wake.attempt + 1)
                self._push(self._clock() + pause_s, later)


def _gone(error: ClusterError) -> bool:
    """Whether the pod is not there: deleted, or another one of its name (422 on its UID)."""
    other = error.status == INVALID and "metadata.uid" in str(error)
    return other or error.status in {NOT_FOUND, CONFLICT}


def patch(uid: str, generation: int, now: datetime) -> dict[str, object]:
    """The patch of ``pods/status`` that sets our condition anew.

    Args:
        uid: a pod of the same name with another one is left alone.
        generation: differs from patch to patch, so that each one is an update.
        now: with its time zone.
    """
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": f"nodes changed and may fit now ({generation})",
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
