"""Reaches a port of a pod through the Kubernetes API server, as ``kubectl port-forward`` does.

The API server passes the bytes of a port on as they are. Its proxy of Services and pods reads HTTP,
and takes the bearer token out of a request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kubextend.cluster.api_call import NOBODY, Call, check_names, parsed_object
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    import socket

    from kubextend.cluster.client import Cluster

CALL_S = 10.0
FORBIDDEN: Final = "403"
# Source: websocket-client 1.9 WebSocketBadStatusException
_STATUS: Final = re.compile(r"Handshake status (\d+) ([^-]*)")
_RIGHT: Final = """\
your user may not reach pod {namespace}/{pod} through the Kubernetes API: that takes this rule of a
Role in the namespace {namespace}:
- apiGroups: [""]
  resources: [pods/portforward]
  verbs: [get, create]"""


def ready_pods(cluster: Cluster, namespace: str, service: str) -> list[str]:
    """Return the names of the ready pods of a Service, sorted. Blocks.

    Raises: ClusterError: the pods could not be listed, or there are none.
    """
    check_names("find a Service", namespace=namespace, Service=service)
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    query = {"labelSelector": f"kubernetes.io/service-name={service}", "limit": "100"}
    call = Call("GET", path, CALL_S, query)
    slices: list[dict[str, Any]] = parsed_object(call, cluster.request(call)).get("items") or []
    targets = [
        endpoint.get("targetRef") or {}
        for each in slices
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    names = {str(each["name"]) for each in targets if each.get("kind") == "Pod"}
    if not names:
        message = f"the Service {namespace}/{service} has no ready pod, or does not exist"
        raise ClusterError(message)
    return sorted(names)


def port_of_pod(cluster: Cluster, namespace: str, pod: str, port: int) -> socket.socket:
    """Return a socket of this process whose bytes go to and from a TCP port of a pod. Blocks.

    Raises: ClusterError: the API server refused.
    """
    from kubernetes.client import ApiException, CoreV1Api  # noqa: PLC0415 - as in ``connect``
    from kubernetes.stream import portforward  # noqa: PLC0415

    ask = CoreV1Api(cluster.api_client).connect_get_namespaced_pod_portforward
    try:
        found: socket.socket = portforward(ask, pod, namespace, ports=str(port)).socket(port)
    except ApiException as error:
        said = str(error.reason)
        status = _STATUS.match(said)
        if status is not None and status[1] == FORBIDDEN and not NOBODY.search(said):
            raise ClusterError(_RIGHT.format(namespace=namespace, pod=pod)) from error
        if status is not None:
            said = f"status {status[1]} {status[2]}".rstrip()
        message = f"pod {namespace}/{pod} cannot be reached through the Kubernetes API: {said}"
        raise ClusterError(message) from error
    return found
