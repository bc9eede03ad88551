"""PrioritySort: the order that kube-scheduler has by itself."""

from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["PrioritySort"]


class PrioritySort:
    """Pods of higher priority go first, of equal ones the one that waits longer.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort/priority_sort.go
    """

    name = "PrioritySort"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Whether ``a`` goes before ``b``."""
        first, second = a.pod.priority or 0, b.pod.priority or 0
        return first > second or (first == second and a.timestamp < b.timestamp)
