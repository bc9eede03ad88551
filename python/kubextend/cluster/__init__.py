"""Everything that talks to the Kubernetes API: list/watch, binding, patches, leases, Events.

No other package imports ``kubernetes``. This package imports it once ``connect`` is called, so a
process without a cluster never loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubextend.cluster.activator import Activator
from kubextend.cluster.api_call import RefusedError, UnreachableError
from kubextend.cluster.binder import Binder
from kubextend.cluster.election import Election, LeaseName, lease_holder
from kubextend.cluster.events import EventRecorder, list_set_aside
from kubextend.cluster.nodes import follow_nodes
from kubextend.cluster.pending_pods import follow_pending_pods, list_pending_pods, list_pods
from kubextend.cluster.pods import PodReader, follow_pods
from kubextend.cluster.reflector import Reflector
from kubextend.cluster.ungater import Fate, Ungater, ungate

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from kubextend.cluster.client import Cluster

__all__ = [
    "Activator",
    "Binder",
    "Election",
    "EventRecorder",
    "Fate",
    "LeaseName",
    "PodReader",
    "Reflector",
    "RefusedError",
    "Ungater",
    "UnreachableError",
    "check_kubeconfig",
    "connect",
    "follow_nodes",
    "follow_pending_pods",
    "follow_pods",
    "lease_holder",
    "list_pending_pods",
    "list_pods",
    "list_set_aside",
    "own_namespace",
    "unconnected_client",
    "ungate",
]

_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace() -> str | None:
    """Return the namespace that this process runs in; None outside of a pod."""
    try:
        return _NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def unconnected_client() -> ApiClient:
    """Return a client without credentials, for plugins that are made and never run."""
    from kubernetes.client import ApiClient  # noqa: PLC0415 - as in ``connect``

    return ApiClient()


def check_kubeconfig(path: str, context: str | None = None) -> None:
    """Check that the file has the context, with its cluster and user; runs no command in it.

    Args:
        path: an existing kubeconfig file.
        context: a context of that file, other than its current one.

    Raises: ClusterError: the file lacks one of them, or cannot be understood.
    """
    from kubextend.cluster import client  # noqa: PLC0415 - as in ``connect``

    client.check_kubeconfig(path, context)


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """Return the cluster of the credentials; makes no call yet, so the cluster may be down.

    Args:
        kubeconfig: a kubeconfig file; None means the pod's service account where there is one, else
            ``$KUBECONFIG`` or ``~/.kube/config``.
        context: a context of that file other than its current one.

    Raises:
        ClusterError: there are no usable credentials; the message says in which file, and what to
            do.
    """
    from kubextend.cluster import client  # noqa: PLC0415 - loads kubernetes, a quarter second

    return client.connect(kubeconfig, context)
