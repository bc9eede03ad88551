"""Whether the node that kube-scheduler chose may still take the pod when it is to be bound.

A pod may be held for minutes, and the API binds it to a node that does not exist any more.
"""

from typing import Final

from kubextend import core

__all__ = ["DELETED", "why_not_on"]

DELETED: Final = "the node was deleted"
_NOT_KNOWN: Final = "the node is not among those that kubextend watches"
_CORDONED: Final = "the node is cordoned, and the pod does not tolerate that"
_TAINT: Final = "node.kubernetes.io/unschedulable"


def why_not_on(node: core.NodeInfo | None, pod: core.Pod) -> str:
    """Why the pod must not be bound to the node as it is now; empty where it may.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/nodeunschedulable Filter
    """
    if node is None or not node.known:
        return _NOT_KNOWN
    if node.unschedulable and not any(map(_tolerates_cordons, pod.tolerations)):
        return _CORDONED
    return ""


def _tolerates_cordons(toleration: tuple[str, str, str, str]) -> bool:
    """Whether it tolerates the taint of cordoned nodes, NoSchedule with an empty value.

    Source: kubernetes v1.36 staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    """
    key, operator, value, effect = toleration
    if effect not in {"", "NoSchedule"} or key not in {"", _TAINT}:
        return False
    return operator == "Exists" or (operator in {"", "Equal"} and not value)
