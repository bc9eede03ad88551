"""HighCommPodFilter: chatty pods go to nodes with RDMA."""

from kubextend import core
from kubextend.plugins.native import NativeFilter

__all__ = ["HighCommPodFilter"]


class HighCommPodFilter(NativeFilter):
    """A pod with the label key ``high-comm``, whatever its value, needs an RDMA node.

    Such a node is labelled ``node.kubernetes.io/rdma-enabled=true``; other pods pass. Rejected
    nodes say "Node does not support RDMA" and are not worth a preemption.
    """

    name = "HighCommPodFilter"

    def __init__(self) -> None:
        self._native = core.NativePlugin.named(self.name)
