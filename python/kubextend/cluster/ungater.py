"""Removes one scheduling gate from pods by patches to the Kubernetes API: one patch, one result.

The patch names one gate and the pod's UID: the patch cannot remove another gate, change another
field, or reach another pod of the same name. To send the patch twice is harmless.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from kubextend.cluster.api_call import (
    NOT_FOUND,
    ONLY_METADATA,
    STRATEGIC_MERGE,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    Call,
    RefusedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

log = logging.getLogger(__name__)

CALL_S = 5.0
API_WIDE = frozenset({UNAUTHORIZED, TOO_MANY_REQUESTS, 502, 503, 504})
"""HTTP statuses that concern the whole API: credentials, overload, a gateway. The status 500
is not among them because it may concern one pod, such as a pod that is too large for etcd."""
AT_ONCE = 16


class Fate(Enum):
    """What became of a patch that removes the scheduling gate of one pod."""

    RELEASED = auto()
    """The pod no longer has the gate."""
    GONE = auto()
    """The pod no longer exists."""
    REFUSED = auto()
    """The API refuses to patch the pod."""
    UNANSWERED = auto()
    """The API does not answer, or is overloaded: no other pod would fare better."""
    UNSENT = auto()
    """No patch was sent, because ``may`` returned False."""


@dataclass(frozen=True, slots=True)
class Ungating:
    """The result of one patch.

    Attributes:
        pod: the pod.
        fate: what became of the patch.
        why: the reason, if the gate is still there.
        retry_after_s: for how many seconds the API asks to send no patch.
    """

    pod: Pod
    fate: Fate
    why: str = ""
    retry_after_s: float = 0.0


class Ungater:
    """Removes one scheduling gate from pods, on threads of its own.

    Args:
        cluster: the connection to the Kubernetes API.
        gate: the name of the gate.
        at_once: how many patches may be under way at a time.
        may: called before each patch; returns whether this replica may still patch pods, as the
            leader.
        told: called with the result for each pod, on a thread of the ungater.
    """

    def __init__(
        self,
        cluster: Cluster,
        gate: str,
        *,
        at_once: int,
        may: Callable[[], bool],
        told: Callable[[Ungating], object],
    ) -> None:
        self._patch = partial(_patched, cluster, gate)
        self._may = may
        self._told = told
        self._pool = ThreadPoolExecutor(at_once, "kubextend-ungater")

    def release(self, pod: Pod) -> None:
        """Queue the one patch that removes a pod's gate; never wait."""
        self._pool.submit(self._release, pod)

    def stop(self) -> None:
        """Begin no further patch, and wait for the patches that are under way."""
        self._pool.shutdown(cancel_futures=True)

    def _release(self, pod: Pod) -> None:
        if not self._may():
            self._told(Ungating(pod, Fate.UNSENT))
            return
        try:
            self._told(self._patch(pod))
        except Exception:
            log.exception("pod %s/%s could not be released", pod.namespace, pod.name)
            self._told(Ungating(pod, Fate.REFUSED, "kubextend failed while it released the pod"))


def ungate(cluster: Cluster, gate: str, pods: Sequence[Pod]) -> list[Ungating]:
    """Remove a scheduling gate from several pods, and return the result for each. Blocks.

    Args:
        cluster: the connection to the Kubernetes API.
        gate: the name of the gate.
        pods: the pods that have the gate.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(partial(_patched, cluster, gate), pods))


def _patched(cluster: Cluster, gate: str, pod: Pod) -> Ungating:
    """Send one patch that removes a pod's gate, and return what became of it."""
    try:
        cluster.request(ungating(pod, gate))
    except UnreachableError as error:
        why = f"the API does not answer a request to remove {_gate_of(pod)}: {error}"
        return Ungating(pod, Fate.UNANSWERED, why)
    except RefusedError as error:
        if error.is_of_another_pod or error.status == NOT_FOUND:
            return Ungating(pod, Fate.GONE)
        why = f"the API refuses to remove {_gate_of(pod)}: {error.reason}"
        fate = Fate.UNANSWERED if error.status in API_WIDE else Fate.REFUSED
        return Ungating(pod, fate, why, error.retry_after_s or 0.0)
    return Ungating(pod, Fate.RELEASED)


def ungating(pod: Pod, gate: str) -> Call:
    """Return the API call that removes one scheduling gate from one pod of the API by a patch."""
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


def _gate_of(pod: Pod) -> str:
    group = pod.scheduling_group
    return f"its gate, for which its pod group {group} waits" if group else "its gate"
