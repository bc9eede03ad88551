"""Reads single pods from the Kubernetes API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubextend import core
from kubextend.cluster.api_call import (
    NAME,
    NOT_FOUND,
    Call,
    RefusedError,
    UnreachableError,
)
from kubextend.errors import ClusterError, WireError
from kubextend.framework.kept_parts import ALL_PARTS

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

CALL_S = 5.0


class PodReader:
    """Reads single pods from the Kubernetes API.

    Args:
        cluster: the connection to the Kubernetes API.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """Read a pod from the Kubernetes API; return None if no pod has that name. Blocks.

        Raises: ClusterError: the pod could not be read; the message says why.
        """
        for what, text in (("namespace", namespace), ("pod", name)):
            if not NAME.fullmatch(text):
                message = f"cannot read a pod: {text!r} is no name of a {what}"
                raise ClusterError(message)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        call = Call("GET", path, CALL_S, right="get on pods")
        try:
            return _read(call, self._cluster.request(call))
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            message = f"cannot read pod {namespace}/{name}: {error.reason}"
            raise ClusterError(message, error.status) from error


def _read(call: Call, body: bytes) -> core.Pod | None:
    """Parse the JSON of one pod; the Rust parser gets it wrapped into a watch event."""
    try:
        return core.PodStore(**ALL_PARTS).apply(b'{"type":"ADDED","object":%b}' % body).pod
    except WireError as error:
        raise UnreachableError(call, error) from error
