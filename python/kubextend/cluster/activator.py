"""Makes kube-scheduler try unschedulable pods again, by setting a condition on each pod's status.

kube-scheduler tries an unschedulable pod again when the pod is updated. A thread sends the patches
of the status at a limited rate. A patch is lost if the API refuses the patch for good, if the patch
fails four times in a row, or if more than 10,000 patches wait.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.api_call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.write_queue import (
    TokenBucket,
    WaitingWrites,
    Write,
    WriteQueue,
    WriteStats,
    writes_counted,
)

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
"""Seconds between two patches of one pod. kube-scheduler's own backoff begins at one second, so
more frequent patches have no effect."""
CALL_S = 5.0


class Activator:
    """Makes kube-scheduler try unschedulable pods again, by patches of the status of the pods.

    Args:
        cluster: the connection to the Kubernetes API.
        rate: the highest mean number of patches a second.
        burst: how many patches may be sent without a pause.
        pod_interval_s: the least seconds between two patches of one pod.
        clock: returns the present time in monotonic seconds.
    """

    METRICS: ClassVar = writes_counted("kubextend_activations", "Wake-ups of pods")

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
        """How many patches of pods' status were sent, refused or dropped since the start."""
        return self._queue.stats

    def activate(self, pods: Iterable[Pod]) -> None:
        """Queue a patch of each pod's status that makes kube-scheduler try the pod again.

        The call never waits and never raises. A pod whose patch is already queued is patched once.
        A pod that cannot be patched is logged; the remaining pods are still patched.
        """
        for pod in pods:
            try:
                self._wake(pod)
            except Exception:
                self.stats.dropped += 1
                log.exception("pod %s/%s cannot be woken", pod.namespace, pod.name)

    def stop(self) -> None:
        """Stop sending patches, and drop the patches that are still queued."""
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
    """Return the patch of ``pods/status`` that sets the condition ``kubextend.dev/Activated``.

    Args:
        uid: UID of the pod; the API refuses the patch for another pod of the same name.
        generation: a number that differs between patches, so that each patch updates the pod.
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
