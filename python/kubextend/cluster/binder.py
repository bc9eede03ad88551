"""Binds pods to nodes by posting Bindings to the Kubernetes API, like the DefaultBinder plugin.

kube-apiserver binds a pod once, so posting a Binding twice is harmless. If a response leaves open
whether the pod is bound, the ``Binder`` reads the pod. Any number of threads may use one
``Binder``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubextend.cluster.api_call import (
    CONFLICT,
    NOT_FOUND,
    SERVER_ERROR,
    Call,
    RefusedError,
    UnreachableError,
    check_names,
    parsed_object,
)
from kubextend.errors import ClusterError
from kubextend.framework.handle import NO_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubextend.cluster.client import Cluster

TIMEOUT_S = 20.0
CALL_S = 10.0
FIRST_PAUSE_S = 0.1
PAUSE_S = 2.0
RIGHT = "create on pods/binding and get on pods"


class Binder:
    """Binds pods to nodes through the Kubernetes API, with retries.

    Args:
        cluster: the connection to the Kubernetes API.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def bind(  # noqa: PLR0913  all but four by name
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        timeout_s: float | None = None,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        """Bind a pod to a node, and return once the API confirms that the pod is on that node.

        A pod that was already bound to this node is a success.

        Args:
            namespace: namespace of the pod.
            name: name of the pod.
            uid: UID of the pod; another pod of the same name is never bound.
            node: name of the node.
            timeout_s: the most seconds for this call with all its attempts, if less than 20.
            annotations: what the Binding adds to the pod's annotations, in the same step.
            why_not: called right before each attempt; returns why the pod must not be bound to the
                node, or "" if it may be.

        Raises:
            ClusterError: the pod is not bound, or the result was not known in time; the message
                says why.
        """
        binding = _Binding(self._cluster, namespace, name, uid, node, annotations)
        limit_s = TIMEOUT_S if timeout_s is None else min(timeout_s, TIMEOUT_S)
        deadline, pause_s = time.monotonic() + limit_s, FIRST_PAUSE_S
        while not self._is_bound(binding, deadline, pause_s, why_not):
            pause_s = min(pause_s * 2, PAUSE_S)

    @staticmethod
    def _is_bound(
        binding: _Binding, deadline: float, pause_s: float, why_not: Callable[[], str]
    ) -> bool:
        """Post a Binding once, return whether the pod is bound, and pause if it is not.

        Raises: ClusterError: the pod cannot be bound, or must not, or time is up.
        """
        if why := why_not():
            raise ClusterError(why)
        failure = ClusterError(f"the API took no binding for pod {binding.pod} in time")
        # The process may have been paused since the last look at the clock.
        if (left_s := deadline - time.monotonic()) <= 0:
            raise failure
        try:
            if binding.settled(left_s):
                return True
        except (RefusedError, UnreachableError) as error:
            pause_s = _wait_s(error, pause_s)
            message = f"cannot bind pod {binding.pod} to {binding.node}: {error}"
            failure = ClusterError(message, error.status)
            failure.__cause__ = error
        if time.monotonic() + pause_s >= deadline:
            raise failure
        time.sleep(pause_s)
        return False


@dataclass(frozen=True, slots=True)
class _Binding:
    """The Binding of one pod to one node.

    kube-apiserver merges its annotations into the pod's.
    Source: kubernetes v1.36 pkg/registry/core/pod/storage/storage.go assignPod

    Raises: ClusterError: a name is none, or there is no UID.
    """

    cluster: Cluster
    namespace: str
    name: str
    uid: str
    node: str
    annotations: Mapping[str, str]

    def __post_init__(self) -> None:
        check_names("bind", namespace=self.namespace, pod=self.name, node=self.node)
        if not self.uid:
            message = f"cannot bind pod {self.pod}: the request names no UID"
            raise ClusterError(message)

    @property
    def pod(self) -> str:
        """The namespace and name of the pod."""
        return f"{self.namespace}/{self.name}"

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def _body(self) -> dict[str, object]:
        metadata: dict[str, object] = {"namespace": self.namespace, "name": self.name}
        metadata["uid"] = self.uid
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}

    def settled(self, left_s: float) -> bool:
        """Post the pod's Binding once, and return whether the pod is on the node now.

        Returns: True if the API confirms that the pod is on this node. False if the API did not
        answer the Binding and shows the pod on no node: another attempt may succeed.

        Raises:
            ClusterError: the pod cannot be bound to this node at all.
            RefusedError: the API refuses for now; another attempt may succeed.
            UnreachableError: the API does not respond, so nobody knows whether the pod is bound.
        """
        call_s = min(CALL_S, left_s / 2)
        call = Call("POST", f"{self._path}/binding", call_s, body=self._body(), right=RIGHT)
        try:
            self.cluster.request(call)
        except UnreachableError:
            return self._on_the_node(call_s)
        except RefusedError as error:
            # The pod is bound already, or its UID is another one.
            if error.status == CONFLICT and self._on_the_node(call_s):
                return True
            if error.status >= SERVER_ERROR:
                return self._on_the_node(call_s, error)
            if error.passes:
                raise
            raise self._final(error) from error
        return True

    def _on_the_node(self, call_s: float, trouble: RefusedError | None = None) -> bool:
        """Read the pod; return True if it is on the Binding's node, False if it is on no node.

        Raises:
            ClusterError: the pod is on another node, or another pod has its name.
            RefusedError: the API refuses for now, or the pod is on no node and ``trouble`` is set.
        """
        call = Call("GET", self._path, call_s, right=RIGHT)
        try:
            body = self.cluster.request(call)
        except RefusedError as error:
            if error.passes:
                raise
            raise self._final(error) from error
        pod = parsed_object(call, body)
        uid, node = pod.get("metadata", {}).get("uid"), pod.get("spec", {}).get("nodeName")
        if uid != self.uid:
            message = f"cannot bind pod {self.pod}: its UID is {uid}, not {self.uid}"
            raise ClusterError(message, CONFLICT)
        if node and node != self.node:
            message = f"pod {self.pod} is bound to node {node}, not to {self.node}"
            raise ClusterError(message, CONFLICT)
        if not node and trouble is not None:
            raise trouble
        return bool(node)

    def _final(self, error: RefusedError) -> ClusterError:
        hint = "; it was deleted" if error.status == NOT_FOUND else ""
        message = f"cannot bind pod {self.pod} to {self.node}: {error.reason}{hint}"
        return ClusterError(message, error.status)


def _wait_s(error: ClusterError, pause_s: float) -> float:
    asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
    return pause_s if asked_s is None else max(asked_s, FIRST_PAUSE_S)
