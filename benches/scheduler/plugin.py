"""What the Go extender does, as a plugin in Python that is asked about each node."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Status

__all__ = ["PerNode"]

_NO_RDMA = Status.unresolvable("Node does not support RDMA")


class PerNode:
    """Pods with ``high-comm`` go to nodes with RDMA; those have 100 points."""

    name = "PerNode"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        del state
        return _NO_RDMA if "high-comm" in pod.labels and not _has_rdma(node) else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        del state
        return 100 if "high-comm" in pod.labels and _has_rdma(node) else 0


def _has_rdma(node: NodeInfo) -> bool:
    return node.label("node.kubernetes.io/rdma-enabled") == "true"
