"""Marks pods that Permit plugins hold as unschedulable, so that an autoscaler of nodes counts them.

A held pod is on no node yet, and an autoscaler takes the held pod's node for empty. Autoscalers
count the pods whose condition ``PodScheduled`` is False with the reason ``Unschedulable``.
``status.nominatedNodeName`` is never set: Karpenter does not count a pod that has one.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.event_recorder import waiting_on_permit
from kubextend.cluster.pod_conditions import Condition, PodConditions
from kubextend.cluster.write_queue import writes_counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

PAUSE_S = 2.0
"""Seconds for which a pod is held before it is marked: most groups are complete earlier."""


class WaitingPodMarker(PodConditions):
    """Sets the condition ``PodScheduled`` of held pods to False, with the reason Unschedulable.

    A Binding sets the condition to True again, and kube-scheduler replaces it after a rejection.

    Args:
        cluster: the connection to the Kubernetes API.
        pause_s: how many seconds a pod is held before it is marked.
        clock: returns the present time in monotonic seconds.
    """

    METRICS: ClassVar = writes_counted("kubextend_held_pod_marks", "Marks of held pods")

    rate, burst = 50.0, 100
    thread, trouble = "kubextend-held-pods", "held pods cannot be marked"

    def __init__(
        self,
        cluster: Cluster,
        clock: Callable[[], float] = time.monotonic,
        pause_s: float = PAUSE_S,
    ) -> None:
        super().__init__(cluster, clock)
        self._pause_s = pause_s
        self._marks: dict[str, Condition] = {}

    def hold(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """Queue the mark of a pod whose wait in Permit begins; never wait.

        Args:
            pod: the pod that is held.
            node_name: the node that the pod is to run on.
            plugins: names of the plugins that hold the pod.
        """
        self._marks[pod.uid] = mark(node_name, plugins)
        self._set(pod, partial(self._marks.get, pod.uid), self._pause_s)

    def release(self, uid: str) -> None:
        """Forget a pod whose wait in Permit has ended: its mark is not sent any more."""
        self._marks.pop(uid, None)


def mark(node_name: str, plugins: Sequence[str]) -> Condition:
    """Return the condition of a pod that these Permit plugins hold for this node."""
    message = waiting_on_permit(node_name, plugins).text
    return Condition("PodScheduled", "False", "Unschedulable", message)
