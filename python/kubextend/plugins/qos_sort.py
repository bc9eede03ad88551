"""QOSSort: orders pods by priority, and pods of equal priority by QoS class."""

from typing import Final

from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["QOSSort"]

_RANKS: Final = {"Guaranteed": 3, "Burstable": 2, "BestEffort": 1}


class QOSSort:
    """Orders pods by priority, then Guaranteed, Burstable, BestEffort, then longest wait first.

    Source: kubernetes-sigs/scheduler-plugins pkg/qos/queue_sort.go
    """

    name = "QOSSort"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether the queue releases pod ``a`` before pod ``b``."""
        return _key(a) < _key(b)


def _key(info: QueuedPodInfo) -> tuple[int, int, float]:
    pod = info.pod
    return -(pod.priority or 0), -_RANKS.get(pod.qos_class, 0), info.timestamp
