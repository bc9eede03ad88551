"""All calls of the Kubernetes API: list and watch, Bindings, patches, Leases and Events.

No other package imports ``kubernetes``. This package imports ``kubernetes`` only in functions such
as ``connect``, so a process without a cluster never loads that library.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubextend.cluster.api_call import NAME, RefusedError, UnreachableError
from kubextend.cluster.binder import Binder
from kubextend.cluster.conditions import Activator, WaitingPodMarker
from kubextend.cluster.election import Election, LeaseName, lease_holder
from kubextend.cluster.events import EventRecorder
from kubextend.cluster.informers import Informers
from kubextend.cluster.leader import Leader, PodName
from kubextend.cluster.nodes import follow_nodes
from kubextend.cluster.outbox import Outbox
from kubextend.cluster.pod_story import awaited, pod_events, read_manifest
from kubextend.cluster.pods import (
    PodReader,
    follow_pending_pods,
    follow_pods,
    list_pending_pods,
    list_pods,
)
from kubextend.cluster.port_forward import port_of_pod, ready_pods
from kubextend.cluster.questions import (
    Right,
    api_time,
    list_admission,
    list_node_names,
    missing_rights,
    server_version,
)
from kubextend.cluster.ungater import Fate, Ungater, Ungating, ungate
from kubextend.cluster.watch import Reflector
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from kubextend.cluster.client import Cluster

__all__ = [
    "Activator",
    "Binder",
    "Election",
    "EventRecorder",
    "Fate",
    "Informers",
    "Leader",
    "LeaseName",
    "Outbox",
    "PodName",
    "PodReader",
    "Reflector",
    "RefusedError",
    "Right",
    "Ungater",
    "Ungating",
    "UnreachableError",
    "WaitingPodMarker",
    "api_time",
    "awaited",
    "check_kubeconfig",
    "connect",
    "follow_nodes",
    "follow_pending_pods",
    "follow_pods",
    "lease_holder",
    "list_admission",
    "list_node_names",
    "list_pending_pods",
    "list_pods",
    "missing_rights",
    "own_namespace",
    "own_pod",
    "pod_events",
    "port_of_pod",
    "read_manifest",
    "ready_pods",
    "server_version",
    "unconnected_client",
    "ungate",
]

_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace() -> str | None:
    """Return the Kubernetes namespace of this process; None outside of a pod."""
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    try:
        return _NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def own_pod() -> PodName:
    """Return the namespace and name of the pod that this process runs in.

    Raises: ClusterError: the environment does not name the pod.
    """
    namespace, name = own_namespace(), os.environ.get("POD_NAME", "")
    if not namespace or not NAME.fullmatch(namespace) or not NAME.fullmatch(name):
        message = (
            "server.lease needs the name of this pod: set POD_NAME and POD_NAMESPACE in the"
            " container's env, from metadata.name and metadata.namespace by fieldRef"
        )
        raise ClusterError(message)
    return PodName(namespace, name)


def unconnected_client() -> ApiClient:
    """Return a Kubernetes API client without credentials, for plugins that never run.

    A check of the configuration constructs the plugins and calls none of their methods.
    """
    from kubernetes.client import ApiClient, Configuration  # noqa: PLC0415 - as in ``connect``

    return ApiClient(Configuration(no_proxy="*"))


def check_kubeconfig(path: str, context: str | None = None) -> None:
    """Check that a kubeconfig file is valid, and has a context and that context's cluster.

    The check runs no credential command that the file names.

    Args:
        path: an existing kubeconfig file.
        context: the context of the file; None means the file's current context.

    Raises:
        ClusterError: the file lacks the context or its cluster, or is no valid kubeconfig.
    """
    from kubextend.cluster import credentials  # noqa: PLC0415 - as in ``connect``

    credentials.Context.of(path, context)


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """Read credentials and return a connection to their cluster, which need not be reachable yet.

    The function makes no call to the Kubernetes API.

    Args:
        kubeconfig: a kubeconfig file; None means ``$KUBECONFIG`` or ``~/.kube/config``, or the
            service account of the pod if this process runs in one and no context is given.
        context: the context of the kubeconfig file; None means the file's current context.

    Raises:
        ClusterError: there are no usable credentials; the message names the file and the remedy.
    """
    from kubextend.cluster import client  # noqa: PLC0415 - loads kubernetes, a quarter second

    return client.connect(kubeconfig, context)
