"""PrioritySort: kube-scheduler's default order of pods, by priority and then by waiting time."""

from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["PrioritySort"]


class PrioritySort:
    """Orders pods by priority, highest first, and equal priorities by waiting time, longest first.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort/priority_sort.go
    """

    name = "PrioritySort"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether the queue releases pod ``a`` before pod ``b``."""
        first, second = a.pod.priority or 0, b.pod.priority or 0
        return first > second or (first == second and a.timestamp < b.timestamp)
