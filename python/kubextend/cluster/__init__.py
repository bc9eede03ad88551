"""Everything that talks to the Kubernetes API: list/watch, binding, waking pods, Events.

The only package that imports ``kubernetes``, and only once ``connect`` is called: a process
without a cluster never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubextend.cluster.activator import Activator
from kubextend.cluster.binder import Binder
from kubextend.cluster.call import RefusedError, UnreachableError
from kubextend.cluster.events import EventRecorder
from kubextend.cluster.pods import PodReader, follow_pods
from kubextend.cluster.reflector import Reflector

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

__all__ = [
    "Activator",
    "Binder",
    "EventRecorder",
    "PodReader",
    "Reflector",
    "RefusedError",
    "UnreachableError",
    "connect",
    "follow_pods",
]


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
