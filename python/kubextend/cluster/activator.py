"""Wakes unschedulable pods, by a condition of kubextend on the pod.

The condition is an update of the pod, which makes kube-scheduler try the pod again; a node event
from before the pod became unschedulable does not. The caller never waits. Limits delay a wake-up,
and it is lost only if the API refuses it for good.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.api_call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.write_queue import TokenBucket, WaitingWrites, Write, WriteQueue, WriteStats

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
"""kube-scheduler's own backoff begins at a second: more frequent wake-ups have no effect."""
CALL_S = 5.0


class Activator:
    """Patches pods to wake them.

    Args:
        cluster: the API.
        rate: patches a second in the long run.
        burst: patches at once.
        pod_interval_s: the least time between two patches of one pod.
        clock: monotonic seconds.
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
        self._queue = WriteQueue(
            cluster,
            WaitingWrites(TokenBucket(rate, burst, clock), pod_interval_s, clock),
            name="kubextend-activator",
            trouble="pods cannot be woken",
        )
        self._generation = count(1)

    @property
    def stats(self) -> WriteStats:
        """How many patches were sent, refused or dropped."""
        return self._queue.stats

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make kube-scheduler try each pod again, soon. Never waits, never raises.

        A pod that already waits for its patch is patched once. A pod that cannot be woken
        keeps no other pod from being woken.
        """
        for pod in pods:
            try:
                self._wake(pod)
            except Exception:
                self.stats.dropped += 1
                log.exception("pod %s/%s cannot be woken", pod.namespace, pod.name)

    def stop(self) -> None:
        """Begin no further patch, and drop the waiting ones."""
        self._queue.stop()

    def _wake(self, pod: Pod) -> None:
        if is_addressable(pod):
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
            self._queue.put(Write.about(pod, pod.uid, partial(self._patch, path, pod.uid)))
        else:
            self.stats.dropped += 1

    def _patch(self, path: str, uid: str) -> Call:
        body = patch(uid, next(self._generation), datetime.now(UTC))
        return Call("PATCH", path, CALL_S, body=body, content_type=STRATEGIC_MERGE)


def patch(uid: str, generation: int, now: datetime) -> dict[str, object]:
    """Return the patch of ``pods/status`` that sets our condition anew.

    Args:
        uid: UID of the pod; the API refuses the patch for another pod of the same name.
        generation: a number that differs between patches, so that each one is an update.
        now: the present time, with its time zone.
    """
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": f"nodes changed and may fit now ({generation})",
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
