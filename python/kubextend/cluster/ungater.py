"""Takes a scheduling gate off pods, and nothing else.

The patch names one gate and the pod's UID: it cannot take off another gate, meet another pod of the
same name, or change anything besides. Sending it twice is harmless, so it is sent again while that
may help and others can wait.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from kubextend.cluster.call import (
    NOT_FOUND,
    STRATEGIC_MERGE,
    TOO_MANY_REQUESTS,
    Call,
    RefusedError,
    UnreachableError,
    is_addressable,
)
from kubextend.cluster.outbox import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod
    from kubextend.errors import ClusterError

log = logging.getLogger(__name__)

NO_POD = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Nothing of the answer is read, so it need not hold the pod."""
CALL_S = 5.0
FIRST_PAUSE_S = 0.2
PAUSE_S = 2.0
"""Short, as a pod that waits for its next attempt keeps others waiting once the API is back."""
PATIENCE_S = 15.0
"""A lease cannot be renewed either while the API is away, so after 10 s this replica leads no more:
what lasts longer is about the pod."""
MOST_REFUSALS = 6
"""An API server that has just started forbids what it allows a second later, and other writers of a
pod pass, so refusals are final after five seconds. At the first, later pods would go first."""
REFUSALS_FORGOTTEN_S = 300.0
"""Somebody may make many pods that can never be patched: the queue waits for all of them together
five seconds in so long."""
API_WIDE = frozenset({TOO_MANY_REQUESTS, 502, 503, 504})
"""Overload, or nothing behind a gateway; a 500 may be about the one pod, as where etcd finds it too
large."""
AT_ONCE = 16
INVALID = 422
FORBIDDEN = 403


class Fate(Enum):
    """What became of a pod whose gate was to be taken off."""

    RELEASED = auto()
    """It has the gate no more."""
    GONE = auto()
    """There is no such pod any more."""
    REFUSED = auto()
    """The pod cannot be patched now."""
    RETURNED = auto()
    """It was not tried, or not to its end: we may not any more."""


class Told(Protocol):
    """Hears what became of a pod, on a thread of the pool."""

    def __call__(self, pod: Pod, fate: Fate, why: str, /) -> object:
        """``why`` is said of those that were refused."""


class Ungater:
    """Patches pods, several at a time.

    Args:
        cluster: the API.
        gate: its name.
        at_once: how many patches may be under way, besides that of one large pod.
        may: asked before each patch.
        told: hears of each pod what became of it.
        patience_s: the longest that one pod is tried while the API does not answer.
        first_pause_s: between the first two attempts; it doubles from one to the next.
        clock: seconds, monotonic.
        wait: for so many seconds, or until it is stopped, between attempts.
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
        # Each attempt after a refusal takes one.
        refusals = at_once * (MOST_REFUSALS - 1)
        self._refusals = TokenBucket(refusals / REFUSALS_FORGOTTEN_S, refusals, clock)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._pool = ThreadPoolExecutor(at_once, "kubextend-ungater")
        # Nobody waits for the patch of a large pod.
        self._large_pods = ThreadPoolExecutor(1, "kubextend-ungater-large")
        self._failing = False

    def release(self, pod: Pod) -> None:
        """The pod's gate is taken off, soon. Never waits."""
        pool = self._large_pods if pod.truncated else self._pool
        pool.submit(self._release, pod)

    def finish(self) -> None:
        """Waits until it is known of each pod what became of it; takes no further one."""
        for pool in (self._pool, self._large_pods):
            pool.shutdown()

    def stop(self) -> None:
        """Waits for patches that are under way; none begins after this."""
        self._stopped.set()
        for pool in (self._pool, self._large_pods):
            pool.shutdown(cancel_futures=True)

    def _release(self, pod: Pod) -> None:
        try:
            fate, why = self._patched(pod)
        except Exception:
            log.exception("pod %s/%s could not be released", pod.namespace, pod.name)
            fate, why = Fate.REFUSED, "releasing it failed in a way it should not"
        self._told(pod, fate, why)

    def _patched(self, pod: Pod) -> tuple[Fate, str]:
        """What became of the pod; tries again for as long as others can wait for that."""
        pause_s = self._first_pause_s
        until_s = self._clock() + self._patience_s
        refusals = 0
        while not self._stopped.is_set() and self._may():
            try:
                self._cluster.request(ungating(pod, self._gate))
            except (RefusedError, UnreachableError) as error:
                if isinstance(error, RefusedError) and _is_gone(error):
                    return Fate.GONE, ""
                refusals += _is_about_the_pod(error)
                left_s = until_s - self._clock()
                if left_s <= 0 or refusals == MOST_REFUSALS or not self._may_wait(pod, error):
                    return _refused(error)
                self._say(error)
                self._wait(min(max(pause_s, _asked_s(error)), left_s))
                pause_s = min(2 * pause_s, PAUSE_S)
            else:
                self._failing = False
                return Fate.RELEASED, ""
        return Fate.RETURNED, ""

    def _may_wait(self, pod: Pod, error: RefusedError | UnreachableError) -> bool:
        """Whether later pods can wait for another attempt at this one.

        kube-apiserver compares tolerations each with each: a patch of 14,000 takes 31 s of CPU,
        which it spends though nobody waits for the answer any more. So a large pod has one attempt.
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
    """Takes the gate off all these pods. Blocks.

    Returns: what became of each, in the order in which that came out; RETURNED: not in time.
    """
    deadline = time.monotonic() + timeout_s
    fates: list[tuple[Pod, Fate, str]] = []
    ungater = Ungater(
        cluster,
        gate,
        at_once=AT_ONCE,
        may=lambda: time.monotonic() < deadline,
        patience_s=timeout_s,
        told=lambda pod, fate, why: fates.append((pod, fate, why)),
    )
    for pod in pods:
        ungater.release(pod)
    ungater.finish()
    return fates


def ungating(pod: Pod, gate: str) -> Call:
    """The patch that takes one gate off one pod.

    Raises: ValueError: the pod's names are none of the API's.
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
    """Whether there is no such pod any more, or only another one of its name."""
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
        return Fate.REFUSED, f"the API does not answer when its gate is taken off: {error}"
    return Fate.REFUSED, f"the API does not let its gate be taken off: {error.reason}{hint}"
