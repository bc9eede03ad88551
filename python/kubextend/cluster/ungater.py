"""Removes a scheduling gate from pods, and changes nothing else.

The patch names one gate and the pod's UID: it cannot remove another gate, reach another pod of the
same name, or change anything else. Sending the patch twice is harmless, so the ungater repeats it
while that may help and later pods can wait.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from kubextend.cluster.api_call import (
    NOT_FOUND,
    STRATEGIC_MERGE,
    TOO_MANY_REQUESTS,
    Call,
    RefusedError,
    UnreachableError,
    is_addressable,
)
from kubextend.cluster.write_queue import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod
    from kubextend.errors import ClusterError

log = logging.getLogger(__name__)

NO_POD = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""kubextend does not read the answer, so the answer need not hold the pod."""
CALL_S = 5.0
FIRST_PAUSE_S = 0.2
PAUSE_S = 2.0
"""Short: once the API is back, a pod that waits for its next attempt keeps later pods waiting."""
PATIENCE_S = 15.0
"""While the API is away this replica cannot renew its lease and stops leading after 10 s: a
failure that lasts longer is about the pod."""
MOST_REFUSALS = 6
"""An API server that has just started forbids what it allows a second later, and conflicts with
other writers pass, so refusals are final only after five seconds. If the first refusal were final,
later pods would go first."""
REFUSALS_FORGOTTEN_S = 300.0
"""Somebody may make many pods that can never be patched: the queue waits at most five seconds in
each such span for all of them together."""
API_WIDE = frozenset({TOO_MANY_REQUESTS, 502, 503, 504})
"""Overload, or a gateway without a server; a 500 may be about one pod, such as a pod that is too
large for etcd."""
AT_ONCE = 16
INVALID = 422
FORBIDDEN = 403


class Fate(Enum):
    """What became of a pod whose gate was to be removed."""

    RELEASED = auto()
    """The pod no longer has the gate."""
    GONE = auto()
    """The pod no longer exists."""
    REFUSED = auto()
    """The pod cannot be patched now."""
    RETURNED = auto()
    """The pod was not patched, because this replica may no longer do so."""
    REFUSED_ONCE = auto()
    """The first patch of the pod was refused; the ungater tries again, and another fate follows."""


class Told(Protocol):
    """Hears what became of a pod, on a thread of the pool."""

    def __call__(self, pod: Pod, fate: Fate, why: str, /) -> object:
        """Note the fate of a pod; ``why`` has a text for refused pods."""


@dataclass(slots=True)
class _Attempts:
    """How far the attempts at one pod are.

    Attributes:
        until_s: when the last attempt may begin.
        pause_s: the pause after the next failure.
        wait_s: the pause before the next attempt.
        refusals: how many patches were refused because of the pod.
    """

    until_s: float
    pause_s: float
    wait_s: float = 0.0
    refusals: int = 0


class Ungater:
    """Removes one gate from pods, several pods at a time.

    Args:
        cluster: the API.
        gate: the name of the gate.
        at_once: how many patches may be under way, besides that of one large pod and further
            attempts at pods that were refused.
        may: asked before each patch whether this replica may patch.
        told: called with the fate of each pod.
        patience_s: the longest that one pod is tried while the API does not answer.
        first_pause_s: seconds between the first two attempts; doubles with each attempt.
        clock: monotonic seconds.
        wait: waits for some seconds, or until the ungater is stopped, between attempts.
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing it is joined to
        self,
        cluster: Cluster,
        gate: str,
        *,
        at_once: int,
        may: Callable[[], bool],
        told: Told,
        patience_s: float = PATIENCE_S,
        first_pause_s: float = FIRST_PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._cluster = cluster
        self._gate = gate
        self._may = may
        self._told = told
        self._patience_s = patience_s
        self._first_pause_s = first_pause_s
        self._clock = clock
        # Each attempt after a refusal takes one token.
        refusals = at_once * (MOST_REFUSALS - 1)
        self._refusals = TokenBucket(refusals / REFUSALS_FORGOTTEN_S, refusals, clock)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._pool = ThreadPoolExecutor(at_once, "kubextend-ungater")
        # The patch of a large pod has a thread of its own, so that no other pod waits for it.
        self._large_pods = ThreadPoolExecutor(1, "kubextend-ungater-large")
        # So have the pauses between attempts at a refused pod.
        self._refused_once = ThreadPoolExecutor(at_once, "kubextend-ungater-refused")
        self._pools = (self._pool, self._large_pods, self._refused_once)
        self._failing = False

    def release(self, pod: Pod) -> None:
        """Remove the pod's gate, soon. Never waits."""
        pool = self._large_pods if pod.truncated else self._pool
        attempts = _Attempts(self._clock() + self._patience_s, self._first_pause_s)
        pool.submit(self._release, pod, attempts)

    def finish(self) -> None:
        """Wait until the fate of each pod is known; accept no further pod."""
        for pool in self._pools:
            pool.shutdown()

    def stop(self) -> None:
        """Wait for patches that are under way; begin no further one."""
        self._stopped.set()
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def _release(self, pod: Pod, attempts: _Attempts) -> None:
        try:
            fate, why = self._patched(pod, attempts)
        except Exception:
            log.exception("pod %s/%s could not be released", pod.namespace, pod.name)
            fate, why = Fate.REFUSED, "kubextend failed unexpectedly while releasing it"
        self._told(pod, fate, why)
        if fate is Fate.REFUSED_ONCE:
            self._refused_once.submit(self._release, pod, attempts)

    def _patched(self, pod: Pod, attempts: _Attempts) -> tuple[Fate, str]:
        """Patch the pod, and try again for as long as later pods can wait; return its fate."""
        while True:
            if attempts.wait_s:
                self._wait(attempts.wait_s)
            if self._stopped.is_set() or not self._may():
                return Fate.RETURNED, ""
            try:
                self._cluster.request(ungating(pod, self._gate))
            except (RefusedError, UnreachableError) as error:
                if isinstance(error, RefusedError) and _is_gone(error):
                    return Fate.GONE, ""
                if not self._may_try_again(pod, attempts, error):
                    return _refused(error)
                self._say(error)
                if _is_about_the_pod(error) and attempts.refusals == 1:
                    return Fate.REFUSED_ONCE, ""
            else:
                self._failing = False
                return Fate.RELEASED, ""

    def _may_try_again(
        self, pod: Pod, attempts: _Attempts, error: RefusedError | UnreachableError
    ) -> bool:
        """Count a failure, and return whether another attempt follows after ``wait_s``."""
        attempts.refusals += _is_about_the_pod(error)
        left_s = attempts.until_s - self._clock()
        if left_s <= 0 or attempts.refusals == MOST_REFUSALS or not self._may_wait(pod, error):
            return False
        attempts.wait_s = min(max(attempts.pause_s, _asked_s(error)), left_s)
        attempts.pause_s = min(2 * attempts.pause_s, PAUSE_S)
        return True

    def _may_wait(self, pod: Pod, error: RefusedError | UnreachableError) -> bool:
        """Return whether later pods can wait for another attempt at this pod.

        kube-apiserver compares each toleration with each other one: a patch of a pod with 14,000
        takes 31 s of CPU, even if nobody waits for the answer. A large pod has one attempt only.
        """
        if not _is_about_the_pod(error):
            return not pod.truncated
        with self._lock:
            return self._refusals.take() == 0.0

    def _say(self, trouble: Exception) -> None:
        if not self._failing:
            self._failing = True
            log.warning("pods cannot be released, trying again: %s", trouble)


def ungate(
    cluster: Cluster, gate: str, pods: Sequence[Pod], *, timeout_s: float = 120.0
) -> list[tuple[Pod, Fate, str]]:
    """Remove the gate from all these pods. Blocks.

    Returns: the fate of each pod, in the order in which it became known; RETURNED: not in time.
    """
    deadline = time.monotonic() + timeout_s
    fates: list[tuple[Pod, Fate, str]] = []

    def told(pod: Pod, fate: Fate, why: str) -> None:
        if fate is not Fate.REFUSED_ONCE:
            fates.append((pod, fate, why))

    ungater = Ungater(
        cluster,
        gate,
        at_once=AT_ONCE,
        may=lambda: time.monotonic() < deadline,
        patience_s=timeout_s,
        told=told,
    )
    for pod in pods:
        ungater.release(pod)
    ungater.finish()
    return fates


def ungating(pod: Pod, gate: str) -> Call:
    """Return the patch that removes one gate from one pod.

    Raises: ValueError: the pod's names are not valid in the API.
    """
    if not is_addressable(pod):
        message = f"{pod.namespace!r}/{pod.name!r} is no pod of the API"
        raise ValueError(message)
    return Call(
        "PATCH",
        f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
        CALL_S,
        query={"fieldManager": "kubextend-queue"},
        body={
            "metadata": {"uid": pod.uid},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]},
        },
        content_type=STRATEGIC_MERGE,
        accept=NO_POD,
    )


def _is_gone(error: RefusedError) -> bool:
    """Return whether the pod no longer exists, or another pod has its name."""
    other_pod = error.status == INVALID and "metadata.uid" in str(error)
    return other_pod or error.status == NOT_FOUND


def _is_about_the_pod(error: RefusedError | UnreachableError) -> bool:
    return isinstance(error, RefusedError) and error.status not in API_WIDE


def _asked_s(error: ClusterError) -> float:
    return (error.retry_after_s or 0.0) if isinstance(error, RefusedError) else 0.0


def _refused(error: RefusedError | UnreachableError) -> tuple[Fate, str]:
    hint = "; grant patch on pods" if error.status == FORBIDDEN else ""
    log.warning("a pod is set aside: %s%s", error, hint)
    if isinstance(error, UnreachableError):
        return Fate.REFUSED, f"the API does not answer a request to remove its gate: {error}"
    return Fate.REFUSED, f"the API refuses to remove its gate: {error.reason}{hint}"
