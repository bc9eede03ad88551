"""Looks whether a node still has room for a pod, right before the pod is bound to the node.

Another scheduler may have bound pods to the node since kube-scheduler chose it. The Kubernetes API
binds a pod to a full node without complaint, and the kubelet then fails the pod.
"""

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.handle import NodeSource, PodSource
from kubextend.metrics import Family, Metrics
from kubextend.verbs.bind_node_check import NOT_KNOWN

__all__ = ["Guard"]

_LOGGER = logging.getLogger(__name__)

_REFUSALS: Final = Family(
    "kubextend_guard_refusals",
    "Bindings that the guard prevented: the node had no room, or nobody could tell.",
)
_NOT_LISTED: Final = "kubextend is not ready: nodes and pods are not listed yet"
_NOT_COUNTED: Final = "the pod was deleted, or is bound to another node"
_TOO_LARGE: Final = "the pod is too large to see whether it fits"
_PODS: Final = "pods"
# How many resources a reason and a log line name; a node may lack thousands.
_MOST_NAMED: Final = 10


class _Lack(NamedTuple):
    """A resource of which a node has too little for a pod."""

    resource: str
    wanted: int
    free: int
    allocatable: int

    @property
    def reason(self) -> str:
        """The reason that kube-scheduler gives for the same lack."""
        return "Too many pods" if self.resource == _PODS else f"Insufficient {self.resource}"

    def __str__(self) -> str:
        return f"{self.resource}: {self.wanted} wanted, {self.free} of {self.allocatable} free"


class Guard:
    """Compares a node's allocatable resources with the requests of the pods on the node.

    The pods on the node are those that the watch shows there, of every scheduler, and the assumed
    pods. Any thread may call.

    Args:
        nodes: the watched nodes.
        pods: the watched pods and the assumed ones.
        metrics: counts the refusals.
    """

    def __init__(self, nodes: NodeSource, pods: PodSource, metrics: Metrics) -> None:
        self._nodes = nodes
        self._pods = pods
        self._refusals = metrics.counter(_REFUSALS)

    def why_not(self, uid: str, node: str) -> str:
        """Return why a pod must not be bound to a node; empty if the node has room for the pod.

        Args:
            uid: the UID of the pod, which is assumed on the node.
            node: the name of the node.
        """
        why = self._why_not(uid, node)
        if why:
            self._refusals.inc()
        return why

    def _why_not(self, uid: str, node: str) -> str:
        if not (self._nodes.synced and self._pods.synced):
            return _NOT_LISTED
        snapshot = self._pods.store.snapshot()
        pod = snapshot.pod_on(node, uid)
        if pod is None:
            return _NOT_COUNTED
        there = self._nodes.store.get(node, snapshot)
        if there is None:
            return NOT_KNOWN
        try:
            lacks = list(_lacks(pod, there))
        except TruncatedPodError:
            return _TOO_LARGE
        if not lacks:
            return ""
        _LOGGER.warning(
            "the guard binds no pod %s/%s of scheduler %s to node %s: %s",
            *(pod.namespace, pod.name, pod.scheduler_name, node),
            "; ".join(map(str, lacks[:_MOST_NAMED])),
        )
        reasons = ", ".join(sorted(lack.reason for lack in lacks)[:_MOST_NAMED])
        return f"the node has no room left for the pod: {reasons}"


def _lacks(pod: core.Pod, node: core.NodeInfo) -> Iterator[_Lack]:
    """Yield each resource of which the pods on a node, this pod included, request too much.

    A resource that this pod does not request may be short. An extended resource of which the node
    has none is left out: a driver of dynamic resource allocation may provide it.

    Source: kubernetes v1.37 pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest,
    shouldDelegateResourceToDRA
    """
    for resource, wanted in {**pod.requests, _PODS: 1}.items():
        allocatable = node.allocatable(resource)
        if wanted <= 0 or (allocatable == 0 and core.is_dra_extended_resource(resource)):
            continue
        free = allocatable - (node.requested(resource) - wanted)
        if wanted > free:
            yield _Lack(resource, wanted, free, allocatable)
