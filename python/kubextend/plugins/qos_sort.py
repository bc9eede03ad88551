"""QOSSort: of pods of equal priority those go first that promise most of what they use."""

from typing import Final

from kubextend.framework.plugin import QueuedPodInfo

__all__ = ["QOSSort"]

_RANKS: Final = {"Guaranteed": 3, "Burstable": 2, "BestEffort": 1}


class QOSSort:
    """Higher priority first; Guaranteed before Burstable before BestEffort; who waits longer first.

    Source: kubernetes-sigs/scheduler-plugins pkg/qos/queue_sort.go
    """

    name = "QOSSort"

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Whether ``a`` goes before ``b``."""
        return _key(a) < _key(b)


def _key(info: QueuedPodInfo) -> tuple[int, int, float]:
    pod = info.pod
    return -(pod.priority or 0), -_RANKS.get(pod.qos_class, 0), info.timestamp
