"""Wakes pods that kube-scheduler has parked: a condition of ours on the pod is an update of it.

An update of the pod's own is what makes kube-scheduler look at it again (nothing that happened
to a node before it parked the pod will). Never makes its caller wait; a wake-up is delayed by
limits, and lost only when the API refuses it for good.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.outbox import Letter, Letters, Outbox, OutboxStats, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

log = logging.getLogger(__name__)

CONDITION = "kubextend.dev/Activated"
REASON = "NodesChanged"

RATE = 20.0
BURST = 50
POD_INTERVAL_S = 1.0
"""kube-scheduler's own backoff begins at a second: waking a pod more often does nothing."""
CALL_S = 5.0


class Activator:
    """Patches pods.

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
        self._outbox = Outbox(
            cluster,
            Letters(TokenBucket(rate, burst, clock), pod_interval_s, clock),
            name="kubextend-activator",
            trouble="pods cannot be woken",
        )
        self._generation = count(1)

    @property
    def stats(self) -> OutboxStats:
        """What became of the patches."""
        return self._outbox.stats

    def activate(self, pods: Iterable[Pod]) -> None:
        """Each pod will be looked at again by kube-scheduler, soon. Never waits, never raises.

        A pod that is already waiting to be patched is patched once. A pod that cannot be woken
        keeps no other pod from being woken.
        """
        for pod in pods:
            try:
                self._wake(pod)
            except Exception:
                self.stats.dropped += 1
                log.exception("pod %s/%s cannot be woken", pod.namespace, pod.name)

    def stop(self) -> None:
        """No patch begins after this; those that wait are dropped."""
        self._outbox.stop()

    def _wake(self, pod: Pod) -> None:
        if is_addressable(pod):
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
            self._outbox.put(Letter.about(pod, pod.uid, partial(self._patch, path, pod.uid)))
        else:
            self.stats.dropped += 1

    def _patch(self, path: str, uid: str) -> Call:
        body = patch(uid, next(self._generation), datetime.now(UTC))
        return Call("PATCH", path, CALL_S, body=body, content_type=STRATEGIC_MERGE)


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
