"""Removes one scheduling gate from pods by patches to the Kubernetes API.

The patch names one gate and the pod's UID: the patch cannot remove another gate, change another
field, or reach another pod of the same name. To send the patch twice is harmless, so an ``Ungater``
repeats a failed patch within limits of time and number.
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
    ONLY_METADATA,
    STRATEGIC_MERGE,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
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

CALL_S = 5.0
FIRST_PAUSE_S = 0.2
PAUSE_S = 2.0
"""Longest pause in seconds between two patches of a pod. The pause is short because a pod that
waits for its next patch keeps later pods waiting after the API is back."""
PATIENCE_S = 15.0
"""Seconds during which a patch without a response is repeated. While the API is unreachable, this
replica stops being the leader after 10 s, so a failure that lasts longer is due to the pod."""
MOST_REFUSALS = 6
"""How often the API may refuse the patches of a pod, in about five seconds, before the ungater
gives the pod up. An API server that has just started forbids what it allows a second later, and
conflicts with other writers pass."""
REFUSALS_FORGOTTEN_S = 300.0
"""Seconds in which all pods whose patch was refused may together use a limited number of repeated
patches. If a user creates many pods that can never be patched, the queue therefore waits for about
five seconds in each such span for all of these pods together."""
API_WIDE = frozenset({UNAUTHORIZED, TOO_MANY_REQUESTS, 502, 503, 504})
"""HTTP statuses that concern the whole API: credentials, overload, a gateway. The status 500
is not among them because it may concern one pod, such as a pod that is too large for etcd."""
AT_ONCE = 16


class Fate(Enum):
    """The result of removing the scheduling gate of one pod."""

    RELEASED = auto()
    """The pod no longer has the gate."""
    GONE = auto()
    """The pod no longer exists."""
    REFUSED = auto()
    """The pod cannot be patched: the API keeps refusing, or does not respond."""
    RETURNED = auto()
    """The pod was not patched: the ungater was stopped, or ``may`` returned False."""
    REFUSED_ONCE = auto()
    """The API refused the first patch of the pod. The ungater tries again, and reports a second
    fate later."""


class OnFate(Protocol):
    """The function that an ``Ungater`` calls after it removed a pod's scheduling gate, or failed.

    The function runs on a thread of the ungater.
    """

    def __call__(self, pod: Pod, fate: Fate, why: str, /) -> object:
        """Take note of the result of removing a pod's scheduling gate.

        Args:
            pod: the pod.
            fate: the result.
            why: the reason if the fate is REFUSED, else empty.
        """


@dataclass(slots=True)
class _Attempts:
    """The state of the attempts to remove one pod's gate.

    Attributes:
        until_s: the time after which no further attempt begins, in seconds of the ungater's clock.
        pause_s: seconds to pause after the next failure.
        wait_s: seconds to pause before the next attempt.
        refusals: how many patches the API refused because of the pod.
    """

    until_s: float
    pause_s: float
    wait_s: float = 0.0
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long an ungater tries to patch a pod, and how long it pauses between attempts.

    Attributes:
        patience_s: seconds after which no further attempt at a pod begins.
        first_s: seconds between the first two attempts at a pod; doubles with each attempt.
        clock: returns the present time in monotonic seconds.
        wait: waits between attempts for the given seconds; None: also ends when the ungater stops.
    """

    patience_s: float = PATIENCE_S
    first_s: float = FIRST_PAUSE_S
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] | None = None


class Ungater:
    """Removes one scheduling gate from pods, on several threads.

    Args:
        cluster: the connection to the Kubernetes API.
        gate: the name of the gate.
        at_once: how many patches may be under way at a time. Truncated pods, which the store keeps
            without their large fields, are patched one at a time on a further thread. Repeated
            patches of refused pods have threads of their own.
        may: called before each patch; returns whether this replica may still patch pods, as the
            leader.
        told: called with the result of removing the gate of each pod.
        pauses: how long the ungater tries, and pauses between attempts.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate: str,
        *,
        at_once: int,
        may: Callable[[], bool],
        told: OnFate,
        pauses: Pauses = Pauses(),
    ) -> None:
        self._cluster = cluster
        self._gate = gate
        self._may = may
        self._told = told
        self._pauses = pauses
        self._clock = pauses.clock
        # Each attempt after a refusal takes one token.
        refusals = at_once * (MOST_REFUSALS - 1)
        self._refusals = TokenBucket(refusals / REFUSALS_FORGOTTEN_S, refusals)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._wait = pauses.wait or self._stopped.wait
        self._pool = ThreadPoolExecutor(at_once, "kubextend-ungater")
        # Patches of large pods have a thread of their own, so that no other pod waits for them.
        self._large_pods = ThreadPoolExecutor(1, "kubextend-ungater-large")
        # Repeated attempts at refused pods, with their pauses, have threads of their own as well.
        self._refused_once = ThreadPoolExecutor(at_once, "kubextend-ungater-refused")
        self._pools = (self._pool, self._large_pods, self._refused_once)
        self._failing = False

    def release(self, pod: Pod) -> None:
        """Queue the patch that removes a pod's gate; the function ``told`` gets the result.

        This method never waits.
        """
        pool = self._large_pods if pod.truncated else self._pool
        attempts = _Attempts(self._clock() + self._pauses.patience_s, self._pauses.first_s)
        pool.submit(self._release, pod, attempts)

    def finish(self) -> None:
        """Accept no further pod; wait until each removal of a gate is done or has failed."""
        for pool in self._pools:
            pool.shutdown()

    def stop(self) -> None:
        """Begin no further patch, and wait for the patches that are under way."""
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
        """Patch a pod to remove its gate, with repeats within limits; return fate and reason."""
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
                    return _refused(pod, error)
                self._say(error)
                if _is_about_the_pod(error) and attempts.refusals == 1:
                    return Fate.REFUSED_ONCE, ""
            else:
                self._failing = False
                return Fate.RELEASED, ""

    def _may_try_again(
        self, pod: Pod, attempts: _Attempts, error: RefusedError | UnreachableError
    ) -> bool:
        """Count a failed patch; return whether another attempt at the pod may follow.

        The method puts the seconds to wait before that attempt into ``attempts.wait_s``.
        """
        attempts.refusals += _is_about_the_pod(error)
        left_s = attempts.until_s - self._clock()
        if left_s <= 0 or attempts.refusals == MOST_REFUSALS or not self._may_wait(pod, error):
            return False
        attempts.wait_s = min(max(attempts.pause_s, _asked_s(error)), left_s)
        attempts.pause_s = min(2 * attempts.pause_s, PAUSE_S)
        return True

    def _may_wait(self, pod: Pod, error: RefusedError | UnreachableError) -> bool:
        """Return whether to repeat the patch of a pod's gate now, though later pods wait meanwhile.

        A limit on the rate of refused patches decides that.

        A truncated pod, which the store keeps without its large fields, is not patched again after
        a failure of the API: kube-apiserver compares each toleration with each other one, so that
        the patch of a pod with 14,000 tolerations takes 31 s of its CPU, even after the client
        closed the connection.
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
    """Remove a scheduling gate from several pods. Blocks for about ``timeout_s`` at most.

    Args:
        cluster: the connection to the Kubernetes API.
        gate: the name of the gate.
        pods: the pods that have the gate.
        timeout_s: the seconds after which no further patch begins.

    Returns: each pod with its fate and the reason, in the order in which the fates became known;
        RETURNED: time ran out before the pod was patched.
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
        told=told,
        pauses=Pauses(patience_s=timeout_s),
    )
    for pod in pods:
        ungater.release(pod)
    ungater.finish()
    return fates


def ungating(pod: Pod, gate: str) -> Call:
    """Return the API call that removes one scheduling gate from one pod by a patch.

    Raises: ValueError: the pod's namespace or name is not valid in the API, or its UID is empty.
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
        # Nobody reads the answer.
        accept=ONLY_METADATA,
        right="patch on pods",
    )


def _is_gone(error: RefusedError) -> bool:
    """Return whether an error means that a pod no longer exists, or another pod has its name."""
    return error.is_of_another_pod or error.status == NOT_FOUND


def _is_about_the_pod(error: RefusedError | UnreachableError) -> bool:
    return isinstance(error, RefusedError) and error.status not in API_WIDE


def _asked_s(error: ClusterError) -> float:
    return (error.retry_after_s or 0.0) if isinstance(error, RefusedError) else 0.0


def _refused(pod: Pod, error: RefusedError | UnreachableError) -> tuple[Fate, str]:
    name, gate = f"{pod.namespace}/{pod.name}", "its gate"
    facts = {"pod": name}
    if pod.scheduling_group:
        facts["pod_group"] = f"{pod.namespace}/{pod.scheduling_group}"
        name += f" of pod group {pod.scheduling_group}"
        gate += f", for which its pod group {pod.scheduling_group} waits"
    log.warning("pod %s is set aside: %s", name, error, extra=facts)
    if isinstance(error, UnreachableError):
        return Fate.REFUSED, f"the API does not answer a request to remove {gate}: {error}"
    return Fate.REFUSED, f"the API refuses to remove {gate}: {error.reason}"
