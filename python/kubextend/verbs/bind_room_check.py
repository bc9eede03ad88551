"""Looks whether a node still has room for a pod, right before the pod is bound to the node.

Another scheduler may have bound pods to the node since kube-scheduler chose it. The Kubernetes API
binds a pod to a full node without complaint, and the kubelet then fails the pod.
"""

import logging
import threading
from collections.abc import Iterator
from typing import Final

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.handle import NodeSource, PodSource
from kubextend.metrics import Family, Metrics

__all__ = ["NOT_KNOWN", "Guard"]

_LOGGER = logging.getLogger(__name__)

_REFUSALS: Final = Family(
    "kubextend_guard_refusals",
    "Bindings that the guard prevented: the node had no room, or nobody could tell.",
)
NOT_KNOWN: Final = "the node is not among those that kubextend watches"
_NOT_LISTED: Final = "kubextend is not ready: nodes and pods are not listed yet"
_NOT_COUNTED: Final = "the pod was deleted, or is bound to another node"
_TOO_LARGE: Final = "the pod is too large to see whether it fits"
_PODS: Final = "pods"
# How many resources a reason and a log line name; a node may lack thousands.
_MOST_NAMED: Final = 10


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
        # Whoever posts a Binding must not see a pod that is assumed only to look for room.
        self._looking = threading.Lock()

    def assume(self, pod: core.Pod, node: str) -> str:
        """Count a pod on its node from now on, in one step with the look for room.

        Returns: why the pod must not be bound to the node, and does not count there; empty: it may.
        """
        with self._looking:
            self._pods.store.assume(pod, node)
            if why := self._counted(pod.uid, node):
                self._pods.store.forget(pod.uid)
        return why

    def why_not(self, uid: str, node: str) -> str:
        """Return why a pod must not be bound to a node; empty if the node has room for the pod.

        Args:
            uid: the UID of the pod, which is assumed on the node.
            node: the name of the node.
        """
        with self._looking:
            return self._counted(uid, node)

    def _counted(self, uid: str, node: str) -> str:
        if why := self._why_full(uid, node):
            self._refusals.inc()
        return why

    def _why_full(self, uid: str, node: str) -> str:
        if not (self._nodes.synced and self._pods.synced):
            return _NOT_LISTED
        snapshot = self._pods.store.snapshot()
        if (pod := snapshot.pod_on(node, uid)) is None:
            return _NOT_COUNTED
        if (there := self._nodes.store.get(node, snapshot)) is None:
            return NOT_KNOWN
        try:
            lacks = dict(_lacks(pod, there))
        except TruncatedPodError:
            return _TOO_LARGE
        if not lacks:
            return ""
        _LOGGER.warning(
            "the guard binds no pod %s/%s of scheduler %s to node %s: %s",
            *(pod.namespace, pod.name, pod.scheduler_name, node),
            "; ".join(list(lacks.values())[:_MOST_NAMED]),
        )
        return f"the node has no room left for the pod: {', '.join(sorted(lacks)[:_MOST_NAMED])}"


def _lacks(pod: core.Pod, node: core.NodeInfo) -> Iterator[tuple[str, str]]:
    """Yield each resource of which the pods on a node, this pod included, request too much.

    A resource that this pod does not request may be short. An extended resource of which the node
    has none is left out: a driver of dynamic resource allocation may provide it.

    Yields: the reason that kube-scheduler gives for the same lack, and the amounts in words.
    Source: kubernetes v1.37 pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest,
    shouldDelegateResourceToDRA
    """
    for resource, wanted in {**pod.requests, _PODS: 1}.items():
        allocatable = node.allocatable(resource)
        if wanted <= 0 or (allocatable == 0 and core.is_dra_extended_resource(resource)):
            continue
        free = allocatable - (node.requested(resource) - wanted)
        if wanted > free:
            reason = "Too many pods" if resource == _PODS else f"Insufficient {resource}"
            yield reason, f"{resource}: {wanted} wanted, {free} of {allocatable} free"
