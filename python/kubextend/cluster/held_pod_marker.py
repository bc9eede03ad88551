"""Marks pods that Permit plugins hold as unschedulable, so that an autoscaler of nodes counts them.

A held pod is on no node yet, and an autoscaler takes the held pod's node for empty. Autoscalers
count the pods whose condition ``PodScheduled`` is False with the reason ``Unschedulable``. A thread
sends the patches of the status at a limited rate. ``status.nominatedNodeName`` is never set:
Karpenter does not count a pod that has one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.api_call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.events import waiting_on_permit
from kubextend.cluster.write_queue import (
    TokenBucket,
    WaitingWrites,
    Write,
    WriteQueue,
    WriteStats,
    writes_counted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

RATE = 50.0
BURST = 100
PAUSE_S = 2.0
"""Seconds for which a pod is held before it is marked: most groups are complete earlier."""
POD_INTERVAL_S = 1.0
CALL_S = 5.0


@dataclass(frozen=True, slots=True)
class _Held:
    """Where a pod is to run, and the names of the plugins that hold the pod."""

    node_name: str
    plugins: tuple[str, ...]


class HeldPodMarker:
    """Sets the condition ``PodScheduled`` of held pods to False, with the reason Unschedulable.

    A Binding sets the condition to True again, and kube-scheduler replaces it after a rejection. A
    mark is lost if the API refuses the patch for good, if the patch fails four times in a row, or
    if more than 10,000 marks wait.

    Args:
        cluster: the connection to the Kubernetes API.
        rate: the highest mean number of patches a second.
        burst: how many patches may be sent without a pause.
        pause_s: how many seconds a pod is held before it is marked.
        clock: returns the present time in monotonic seconds.
    """

    METRICS: ClassVar = writes_counted("kubextend_held_pod_marks", "Marks of held pods")

    def __init__(
        self,
        cluster: Cluster,
        *,
        rate: float = RATE,
        burst: int = BURST,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause_s = pause_s
        self._held: dict[str, _Held] = {}
        self._queue = WriteQueue(
            cluster,
            WaitingWrites(TokenBucket(rate, burst, clock), POD_INTERVAL_S, clock),
            name="kubextend-held-pods",
            trouble="held pods cannot be marked",
        )

    @property
    def stats(self) -> WriteStats:
        """How many marks were sent, refused or dropped since the start."""
        return self._queue.stats

    def hold(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """Queue the mark of a pod whose wait in Permit begins; never wait.

        Args:
            pod: the pod that is held.
            node_name: the node that the pod is to run on.
            plugins: names of the plugins that hold the pod.
        """
        if not is_addressable(pod):
            self.stats.dropped += 1
            return
        self._held[pod.uid] = _Held(node_name, tuple(plugins))
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        write = Write.about(pod, pod.uid, partial(self._patch, path, pod.uid))
        self._queue.put(write, self._pause_s)

    def release(self, uid: str) -> None:
        """Forget a pod whose wait in Permit has ended: its mark is not sent any more."""
        self._held.pop(uid, None)

    def stop(self) -> None:
        """Send no further mark."""
        self._queue.stop()

    def _patch(self, path: str, uid: str) -> Call | None:
        held = self._held.get(uid)
        if held is None:
            return None
        body = mark(uid, held.node_name, held.plugins, datetime.now(UTC))
        return Call("PATCH", path, CALL_S, body=body, content_type=STRATEGIC_MERGE)


def mark(uid: str, node_name: str, plugins: Sequence[str], now: datetime) -> dict[str, object]:
    """Return the patch of ``pods/status`` that marks a held pod.

    Args:
        uid: UID of the pod; the API refuses the patch for another pod of the same name.
        node_name: the node that the pod is to run on.
        plugins: names of the plugins that hold the pod.
        now: the present time, with its time zone.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": waiting_on_permit(node_name, plugins).text,
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
