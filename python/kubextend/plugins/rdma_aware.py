"""RdmaAware: runs pods that declare much communication on RDMA nodes, and rejects all others."""

from kubextend import core
from kubextend.plugins.native import NativeFilter

__all__ = ["RdmaAware"]


class RdmaAware(NativeFilter):
    """Lets only pods with the label ``high-comm=true`` run, on nodes with ``rdma=true``.

    The reasons of rejections are "Pod does not have high-comm=true label" and "Node does not
    support RDMA"; kube-scheduler tries no preemption.
    """

    name = "RdmaAware"

    def __init__(self) -> None:
        self._native = core.NativePlugin.named(self.name)
