"""Keeps a PodStore equal to the cluster's pods, by list and watch.

Callbacks report that a pod was deleted or bound. If a pod is deleted or bound while no watch is
open, the next list shows that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kubextend.cluster.reflector import Kind, Listener, Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend import core
    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

PODS: Final = Kind("pods", "/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed")
"""The pods of the cluster that have not ended. When a pod ends, the field selector no longer
matches the pod, so the API sends a DELETED event."""


def follow_pods(
    cluster: Cluster,
    store: core.PodStore,
    on_change: Callable[[], object] = lambda: None,
    *,
    awaited: Callable[[], Iterable[str]] = tuple,
    on_deleted: Callable[[str], object] = lambda _uid: None,
    on_bound: Callable[[str], object] = lambda _uid: None,
) -> Reflector[core.PodStore]:
    """Return a reflector, not started yet, that fills ``store`` with the pods of every namespace.

    ``awaited``, ``on_deleted`` and ``on_bound`` run on the watch's thread, so they must not wait.
    ``on_deleted`` and ``on_bound`` may be called more than once for a pod.

    Args:
        cluster: the connection to the Kubernetes API.
        store: the store of pods; only this reflector may fill it.
        on_change: called on a thread of its own soon after pods changed, once for many changes.
        awaited: returns the UIDs of the pods that kubextend waits for now. A list names no
            deletions, so after each list the reflector looks whether these pods are in the list.
        on_deleted: called with the UID of a pod that is deleted, is being deleted, or has ended.
        on_bound: called with the UID of a pod that is on a node.
    """
    fates = _Fates(store, awaited, on_deleted, on_bound)
    return Reflector(cluster, store, on_change, kind=PODS, listener=fates)


class _Fates(Listener):
    """Reports which pods lists and watch events show to be deleted, and which on a node."""

    def __init__(
        self,
        store: core.PodStore,
        awaited: Callable[[], Iterable[str]],
        on_deleted: Callable[[str], object],
        on_bound: Callable[[str], object],
    ) -> None:
        self._store = store
        self._awaited = awaited
        self._on_deleted = on_deleted
        self._on_bound = on_bound
        self._awaited_before: set[str] = set()
        self._assumed_before: set[str] = set()

    def list_begins(self) -> None:
        """Record, before a list, the pods that ``awaited`` returns and the store's assumed pods.

        Each recorded pod that still exists will be in the list.
        """
        self._awaited_before = set(self._awaited())
        self._assumed_before = {pod.uid for pod, _ in self._store.assumed()}

    def swap(self, commit: Callable[[], object]) -> None:
        """Store a complete list, and report pods of ``awaited`` that are deleted or bound.

        A pod that ``awaited`` returns only since the list began may be younger than the list, and
        so missing in the list: it is reported as deleted only if the store had it before.
        """
        known = {uid for uid in self._awaited() if self._store.get(uid) is not None}
        commit()
        for uid in self._assumed_before:
            # The store may never have known the pod: it came, was bound, and went while no watch
            # was open.
            if self._store.get(uid) is None:
                self._store.forget(uid)
        for uid in self._awaited_before | known:
            self._tell(uid, self._store.get(uid))

    def applied(self, event: core.PodEvent) -> None:
        """Call ``on_deleted`` or ``on_bound`` if a watch event shows the pod deleted or bound."""
        if event.type == "DELETED":
            self._tell(event.uid, None)
        elif event.pod is not None:
            self._tell(event.uid, event.pod)

    def _tell(self, uid: str, pod: core.Pod | None) -> None:
        try:
            # A finalizer keeps a deleted pod, but the API no longer binds it.
            if pod is None or pod.deletion_timestamp is not None:
                self._on_deleted(uid)
            elif pod.node_name:
                self._on_bound(uid)
        except Exception:
            log.exception("the callback for pod %s failed", uid)
