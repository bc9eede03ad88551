"""HighCommPodFilter: pods with the label ``high-comm`` run only on nodes with RDMA."""

from kubextend import core
from kubextend.framework.admission import AdmissionRules, RequiredNodes
from kubextend.plugins.native import NativeFilter

__all__ = ["HighCommPodFilter"]

_RDMA_LABEL = "node.kubernetes.io/rdma-enabled"


class HighCommPodFilter(NativeFilter):
    """Lets a pod with the label key ``high-comm``, whatever its value, onto RDMA nodes only.

    An RDMA node has the label ``node.kubernetes.io/rdma-enabled=true``. Pods without the label pass
    on every node. The reason of a rejection is "Node does not support RDMA"; kube-scheduler tries
    no preemption on a rejected node.
    """

    name = "HighCommPodFilter"

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return the label with which a node accepts the pod; "" if the node has the label."""
        if node is None or "high-comm" not in pod.labels:
            return ""
        lacks = node.label(_RDMA_LABEL) != "true"
        return f"the label {_RDMA_LABEL}=true" if lacks else ""

    @classmethod
    def admission(cls, args: None) -> AdmissionRules:
        """Return the plugin's one rule, which says all that the plugin does."""
        del args
        rdma = RequiredNodes("node.kubernetes.io/rdma-enabled=true", pod_selector="high-comm")
        return AdmissionRules(required=(rdma,))
