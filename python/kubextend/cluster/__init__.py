"""Everything that talks to the Kubernetes API: list/watch, binding, patches, leases, Events.

The only package that imports ``kubernetes``, and only once ``connect`` is called: a process
without a cluster never loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubextend.cluster.activator import Activator
from kubextend.cluster.binder import Binder
from kubextend.cluster.call import RefusedError, UnreachableError
from kubextend.cluster.election import Election, LeaseName, lease_holder
from kubextend.cluster.events import EventRecorder, list_set_aside
from kubextend.cluster.nodes import follow_nodes
from kubextend.cluster.pending_pods import follow_pending_pods, list_pending_pods
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
    "list_set_aside",
    "own_namespace",
    "unconnected_client",
    "ungate",
]

_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace() -> str | None:
    """The namespace that this process runs in; None outside of any pod."""
    try:
        return _NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def unconnected_client() -> ApiClient:
    """A client for plugins that are made and never run, without credentials."""
    from kubernetes.client import ApiClient  # noqa: PLC0415 - as in ``connect``

    return ApiClient()


def check_kubeconfig(path: str, context: str | None = None) -> None:
    """The file has the context, with its cluster and user; no command in it is run.

    Args:
        path: a kubeconfig file that is there.
        context: of that file, other than its current one.

    Raises: ClusterError: it has not, or cannot be understood.
    """
    from kubextend.cluster import client  # noqa: PLC0415 - as in ``connect``

    client.check_kubeconfig(path, context)


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """The cluster that the credentials point to; no call is made yet, so it may be down.

    Args:
        kubeconfig: a kubeconfig file; None means the pod's service account where there is one,
            else ``$KUBECONFIG`` or ``~/.kube/config``.
        context: a context of that file other than its current one.

    Raises:
        ClusterError: there are no usable credentials; says in which file, and what to do.
    """
    from kubextend.cluster import client  # noqa: PLC0415 - loads kubernetes, a quarter second

    return client.connect(kubeconfig, context)
