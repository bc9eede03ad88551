"""RdmaAware: lets pods with the label ``high-comm=true`` run on RDMA nodes, and no other pods."""

from kubextend import core
from kubextend.framework.admission import AdmissionRules, RequiredNodes
from kubextend.plugins.native import NativeFilter

__all__ = ["RdmaAware"]


class RdmaAware(NativeFilter):
    """Lets only pods with the label ``high-comm=true`` run, on nodes with ``rdma=true``.

    The plugin rejects pods without that label on every node. The reasons of rejections are "Pod
    does not have high-comm=true label" and "Node does not support RDMA"; kube-scheduler tries no
    preemption.
    """

    name = "RdmaAware"

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return the label that the pod or the node lacks."""
        if pod.labels.get("high-comm") != "true":
            return "the label high-comm=true of the pod"
        if node is None or node.label("rdma") == "true":
            return ""
        return "the label rdma=true"

    @classmethod
    def admission(cls, args: None) -> AdmissionRules:
        """Return the rule for pods with the label; a call rejects the pods without the label."""
        del args
        return AdmissionRules(
            required=(RequiredNodes("rdma=true", pod_selector="high-comm=true"),),
            filter_beyond="rejects pods without the label high-comm=true on every node",
        )
