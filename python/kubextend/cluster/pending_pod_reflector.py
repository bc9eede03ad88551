"""Follows the pods that are on no node and have not ended, by list and watch, for callbacks.

A field selector picks the pending pods, so the API reports a pod as DELETED once the pod is bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubextend import core
from kubextend.cluster.reflector import Kind, Listener, Reflector
from kubextend.framework.handle import MAX_POD_BYTES
from kubextend.framework.kept_parts import NO_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster
    from kubextend.framework.kept_parts import KeptParts

PENDING_PODS: Final = Kind(
    "pending pods",
    "/api/v1/pods",
    "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed",
)


def follow_pending_pods(
    cluster: Cluster,
    parts: KeptParts | None = None,
    *,
    on_list: Callable[[list[core.Pod]], object],
    on_pod: Callable[[core.Pod], object],
    on_gone: Callable[[str], object],
) -> Reflector[core.PodStore]:
    """Return a reflector, not started yet, that calls back about the pods that are on no node.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the connection to the Kubernetes API.
        parts: the optional parts of the pods that plugins need; None: none.
        on_list: called after each complete list, with all pods that are on no node.
        on_pod: called with a pod that was created or changed.
        on_gone: called with the UID of a pod that was bound to a node, has ended or was deleted.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **(parts or NO_PARTS))
    told = _Told(store, on_list, on_pod, on_gone)
    return Reflector(cluster, store, kind=PENDING_PODS, listener=told)


class _Told(Listener):
    """Passes lists and watch events of pending pods on to three callbacks."""

    def __init__(
        self,
        store: core.PodStore,
        on_list: Callable[[list[core.Pod]], object],
        on_pod: Callable[[core.Pod], object],
        on_gone: Callable[[str], object],
    ) -> None:
        self._store = store
        self._on_list = on_list
        self._on_pod = on_pod
        self._on_gone = on_gone

    def swap(self, commit: Callable[[], object]) -> None:
        """Put a complete list of pods into the store, and call ``on_list`` with all listed pods."""
        commit()
        self._on_list(self._store.pods())

    def applied(self, event: core.PodEvent) -> None:
        """Call ``on_gone`` for a DELETED event of a pod, and ``on_pod`` for each other event."""
        if event.type == "DELETED":
            self._on_gone(event.uid)
        elif event.pod is not None:
            self._on_pod(event.pod)
