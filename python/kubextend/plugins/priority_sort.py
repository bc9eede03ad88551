"""PrioritySort: kube-scheduler's own order."""

from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["PrioritySort"]


class PrioritySort:
    """Orders by priority, highest first; of equal priority, the pod that waits longer goes first.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort/priority_sort.go
    """

    name = "PrioritySort"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether ``a`` goes before ``b``."""
        first, second = a.pod.priority or 0, b.pod.priority or 0
        return first > second or (first == second and a.timestamp < b.timestamp)
