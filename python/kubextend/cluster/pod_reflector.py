"""Keeps a PodStore equal to the cluster's pods, by list and watch.

Callbacks report that a pod was deleted or bound. If a pod is deleted or bound while no watch is
open, the next list shows that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kubextend.cluster.reflector import Kind, Listener, Reflector
from kubextend.framework.handle import MAX_POD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend import core
    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

PODS: Final = Kind("pods", "/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed")
"""The pods of the cluster that have not ended. When a pod ends, the field selector no longer
matches the pod, so the API sends a DELETED event."""

MOST_NAMED = 10


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
        self._truncated = TruncatedPods()

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
        self._truncated.listed(self._store.truncated())
        for uid in self._assumed_before:
            # The store may never have known the pod: it came, was bound, and went while no watch
            # was open.
            if self._store.get(uid) is None:
                self._store.forget(uid)
        for uid in self._awaited_before | known:
            self._tell(uid, self._store.get(uid))

    def applied(self, event: core.PodEvent) -> None:
        """Call ``on_deleted`` or ``on_bound`` if a watch event shows the pod deleted or bound."""
        self._truncated.applied(event)
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


class TruncatedPods:
    """Logs the names of pods whose too large fields the pod store does not keep.

    A pod is logged after each list that has it, and once if a watch event shows it first.
    """

    def __init__(self) -> None:
        self._named: set[str] = set()

    def listed(self, pods: list[core.Pod]) -> None:
        """Log those pods of a complete list whose too large fields the store does not keep.

        Args:
            pods: the pods of the list that the store keeps without some fields; may be empty.
        """
        self._named = {pod.uid for pod in pods}
        if pods:
            _warn_of_truncated(pods)

    def applied(self, event: core.PodEvent) -> None:
        """Log a watch event's pod if the store keeps it without large fields, once for each pod."""
        if event.type == "DELETED":
            self._named.discard(event.uid)
        elif event.pod is not None and event.pod.truncated and event.uid not in self._named:
            self._named.add(event.uid)
            _warn_of_truncated([event.pod])


def _warn_of_truncated(pods: list[core.Pod]) -> None:
    log.warning(
        "%d pods have more than %d bytes of tolerations, node affinity and annotations, or of"
        " requests, gates, labels and containers, or a schedulerName longer than any name; they are"
        " kept without what is too large, and a plugin that reads that of such a pod fails: %s",
        len(pods),
        MAX_POD_BYTES,
        ", ".join(f"{pod.namespace}/{pod.name}" for pod in pods[:MOST_NAMED]),
    )
