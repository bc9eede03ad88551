"""Checks whether the node that kube-scheduler chose may still take the pod when bind begins.

Permit may hold a pod for minutes, and kube-apiserver would bind the pod to a node that no longer
exists.
"""

from typing import Final

from kubextend import core

__all__ = ["DELETED", "GONE", "NOT_KNOWN", "why_not_on"]

DELETED: Final = "the node was deleted"
NOT_KNOWN: Final = "the node is not among those that kubextend watches"
GONE: Final = frozenset({DELETED, NOT_KNOWN})
"""The results of ``why_not_on`` that, after a complete list, mean that the node was deleted."""

_CORDONED: Final = "the node is cordoned, and the pod does not tolerate that"
_TAINT: Final = "node.kubernetes.io/unschedulable"


def why_not_on(node: core.NodeInfo | None, pod: core.Pod, chosen_uid: str | None = None) -> str:
    """Return why the pod must not be bound to the node as it is now; empty: it may be bound.

    Args:
        node: the node as the watch shows it; None if the watch shows no node of this name.
        pod: the pod to bind.
        chosen_uid: the UID of the node when the bind began; None: the UID was not known then.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/nodeunschedulable Filter
    """
    if node is None or not node.known:
        return NOT_KNOWN
    if chosen_uid is not None and node.uid != chosen_uid:
        # Another node has the name now, and no decision about the old node holds for the new one.
        return DELETED
    if node.unschedulable and not any(map(_tolerates_cordons, pod.tolerations)):
        return _CORDONED
    return ""


def _tolerates_cordons(toleration: tuple[str, str, str, str]) -> bool:
    """Return whether a toleration covers the taint of cordoned nodes: NoSchedule, empty value.

    Source: kubernetes v1.36 staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    """
    key, operator, value, effect = toleration
    if effect not in {"", "NoSchedule"} or key not in {"", _TAINT}:
        return False
    return operator == "Exists" or (operator in {"", "Equal"} and not value)
