"""Follows the pods that have not ended, and reads single pods.

Whoever waits for a pod learns that the pod is gone or bound, even if that happened while the API
could not be followed: the next list shows it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kubextend import core
from kubextend.cluster.api_call import NAME, NOT_FOUND, Call, RefusedError, UnreachableError
from kubextend.cluster.reflector import Kind, Reflector
from kubextend.errors import ClusterError, WireError
from kubextend.framework.handle import MAX_POD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

PODS: Final = Kind("pods", "/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed")
"""A pod that ends while it is watched leaves the selection, so its event is DELETED."""

MOST_NAMED = 10

CALL_S = 5.0
FORBIDDEN = 403


def follow_pods(
    cluster: Cluster,
    store: core.PodStore,
    on_change: Callable[[], object] = lambda: None,
    *,
    awaited: Callable[[], Iterable[str]] = tuple,
    on_deleted: Callable[[str], object] = lambda _uid: None,
    on_bound: Callable[[str], object] = lambda _uid: None,
) -> Reflector[core.PodStore]:
    """Return a reflector of the pods of every namespace, not started yet.

    The callbacks run on the watch's thread, so they must not wait. A callback may come again for a
    pod.

    Args:
        cluster: the API.
        store: filled by this reflector alone.
        on_change: as of ``Reflector``.
        awaited: returns the UIDs that somebody waits for now; called around lists, which name no
            deletions.
        on_deleted: called with the UID of a pod that is deleted, is being deleted, or has ended.
        on_bound: called with the UID of a pod that is on a node.
    """
    fates = _Fates(store, awaited, on_deleted, on_bound)
    return Reflector(cluster, store, on_change, kind=PODS, listener=fates)


class _Fates:
    """Reports what became of pods."""

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
        """Note who is awaited and assumed: the list has every such pod that still exists."""
        self._awaited_before = set(self._awaited())
        self._assumed_before = {pod.uid for pod, _ in self._store.assumed()}

    def swap(self, commit: Callable[[], object]) -> None:
        """Swap the list in, and report awaited pods that are gone or bound since the watch broke.

        A pod that is awaited only since the list began may be younger than the list: such a pod is
        gone only if the store knew it.
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
        """Report what one event means for its pod."""
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
    """Logs the names of pods that are kept without some parts: once each, and in each list."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def listed(self, pods: list[core.Pod]) -> None:
        """Name such pods of a whole list."""
        self._named = {pod.uid for pod in pods}
        if pods:
            _warn_of_truncated(pods)

    def applied(self, event: core.PodEvent) -> None:
        """Name the pod of an event if the pod has become too large and has no line yet."""
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


class PodReader:
    """Reads single pods.

    Args:
        cluster: the API.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """Return the pod as the API has it now; None where there is none. Blocks.

        Raises: ClusterError: the pod could not be read; the message says why.
        """
        for what, text in (("namespace", namespace), ("pod", name)):
            if not NAME.fullmatch(text):
                message = f"cannot read a pod: {text!r} is no name of a {what}"
                raise ClusterError(message)
        call = Call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}", CALL_S)
        try:
            return _read(call, self._cluster.request(call))
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            hint = "; grant get on pods" if error.status == FORBIDDEN else ""
            message = f"cannot read pod {namespace}/{name}: {error.reason}{hint}"
            raise ClusterError(message, error.status) from error


def _read(call: Call, body: bytes) -> core.Pod | None:
    """Read the pod of an answer through the core, as an event that brings the pod."""
    try:
        return core.PodStore().apply(b'{"type":"ADDED","object":%b}' % body).pod
    except WireError as error:
        raise UnreachableError(call, error) from error
