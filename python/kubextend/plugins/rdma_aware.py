"""RdmaAware: only pods that say they are chatty, only on nodes with RDMA."""

from kubextend import core
from kubextend.plugins.native import NativeFilter

__all__ = ["RdmaAware"]


class RdmaAware(NativeFilter):
    """A pod needs the label ``high-comm=true`` to run at all, and then a node with ``rdma=true``.

    Rejected nodes say "Pod does not have high-comm=true label" or "Node does not support RDMA";
    neither is worth a preemption.
    """

    name = "RdmaAware"

    def __init__(self) -> None:
        self._native = core.NativePlugin.named(self.name)
