"""A Python plugin that filters and scores like the plain Go extender, with a call for each node."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Status

__all__ = ["PerNode"]

_NO_RDMA = Status.unresolvable("Node does not support RDMA")


class PerNode:
    """Keeps pods with the label ``high-comm`` on nodes with RDMA, and gives these nodes 100."""

    name = "PerNode"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        del state
        return _NO_RDMA if "high-comm" in pod.labels and not _has_rdma(node) else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        del state
        return 100 if "high-comm" in pod.labels and _has_rdma(node) else 0


def _has_rdma(node: NodeInfo) -> bool:
    return node.label("node.kubernetes.io/rdma-enabled") == "true"
