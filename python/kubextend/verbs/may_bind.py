"""Says whether the pod of a bind request may still be bound to its node.

Permit may hold a pod for minutes, and the Kubernetes API takes a Binding to a node that is full,
cordoned or deleted, and from a replica that leads no more.
"""

from typing import Final

from kubextend import core
from kubextend.profile import Profile
from kubextend.verbs.bind_room_check import NOT_KNOWN
from kubextend.verbs.context import Context

__all__ = ["DELETED", "GONE", "POD_DELETED", "MayBind"]

POD_DELETED: Final = "the pod is deleted"
"""Why a bind whose pod is deleted fails."""
DELETED: Final = "the node was deleted"
GONE: Final = frozenset({DELETED, NOT_KNOWN})
"""What ``why_not_on_node`` returns, after a complete list, of a node that was deleted."""

_CORDONED: Final = "the node is cordoned, and the pod does not tolerate that"
_TAINT: Final = "node.kubernetes.io/unschedulable"


class MayBind:
    """What a bind found when it began, compared with how things are. Any thread may ask.

    Four things may end a bind: this replica leads no more, the pod is deleted, the node is deleted
    or cordoned, or the node has no room left.

    Args:
        context: what all verbs share.
        pod: the pod to bind.
        node: the name of the node that kube-scheduler chose.
        profile: the pod's profile; None: none.
    """

    def __init__(self, context: Context, pod: core.Pod, node: str, profile: Profile | None) -> None:
        self._context, self._pod, self._node = context, pod, node
        stateful = profile is not None and profile.needs_leader
        # Before any check: a replica may lose the lead and win it again during one bind, and
        # another replica decides in between.
        self._leader = context.cluster.leader if stateful or context.guard is not None else None
        self._term = 0 if self._leader is None else self._leader.term
        chosen = context.watched_node(node)
        self._chosen_uid = None if chosen is None else chosen.uid
        # kube-scheduler may know a new pod or node earlier than kubextend. With plugins, the node
        # has to be known in the end.
        self._pod_was_there = not self.is_gone
        self._node_counts = (chosen is not None and chosen.known) or (
            profile is not None and profile.binds_with_plugins
        )

    @property
    def is_gone(self) -> bool:
        """Whether pods are watched, and the watch shows the pod no more, or not yet."""
        pods = self._context.cluster.pods
        return pods is not None and pods.store.get(self._pod.uid) is None

    def why_over(self) -> str:
        """Return why the pod must not be bound at all any more; empty: it may be."""
        if self._leader is not None and (why := self._leader.why_over(self._term)):
            return why
        return POD_DELETED if self._pod_was_there and self.is_gone else ""

    def why_not_there(self) -> str:
        """Return why the pod must not be bound to the node now; empty: it may be."""
        guard = self._context.guard
        why_not = self.why_not_on_node() if self._node_counts else ""
        return why_not or ("" if guard is None else guard.why_not(self._pod.uid, self._node))

    def why_not_on_node(self) -> str:
        """Return why the node, as the watch shows it, must not take the pod; empty: it may.

        Source: kubernetes v1.36 pkg/scheduler/framework/plugins/nodeunschedulable Filter
        """
        if self._context.cluster.nodes is None:
            # Nodes of full-mode requests may be outdated by now.
            return ""
        node = self._context.watched_node(self._node)
        if node is None or not node.known:
            return NOT_KNOWN
        if self._chosen_uid is not None and node.uid != self._chosen_uid:
            # Another node has the name now, and no decision about the old node holds for the new.
            return DELETED
        if node.unschedulable and not any(map(_tolerates_cordons, self._pod.tolerations)):
            return _CORDONED
        return ""

    def seconds(self, left_s: float | None) -> float | None:
        """Return the lesser of some seconds and those for which this replica surely leads.

        Args:
            left_s: the seconds; None: no limit.
        """
        if self._leader is None:
            return left_s
        leads_s = self._leader.left_s()
        return leads_s if left_s is None else min(left_s, leads_s)


def _tolerates_cordons(toleration: tuple[str, str, str, str]) -> bool:
    """Return whether a toleration covers the taint of cordoned nodes: NoSchedule, empty value.

    Source: kubernetes v1.36 staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    """
    key, operator, value, effect = toleration
    if effect not in {"", "NoSchedule"} or key not in {"", _TAINT}:
        return False
    return operator == "Exists" or (operator in {"", "Equal"} and not value)
