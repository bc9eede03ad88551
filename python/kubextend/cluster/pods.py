"""Keeps a PodStore equal to the cluster's pods, for plugins and the queue, and reads single pods.

Callbacks report that a pod was deleted or bound. If a pod is deleted or bound while no watch is
open, the next list shows that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kubextend import core
from kubextend.cluster.api_call import Call, RefusedError, UnreachableError, check_names
from kubextend.cluster.watch import LIST_SILENCE_S, Kind, Listener, Reflector
from kubextend.errors import ClusterError, WireError
from kubextend.framework.handle import MAX_POD_BYTES
from kubextend.framework.kept_parts import ALL_PARTS, NO_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend.cluster.client import Cluster
    from kubextend.cluster.watch import Key
    from kubextend.framework.kept_parts import KeptParts

CALL_S: Final = 5.0


def _keys(store: core.PodStore) -> Iterable[Key]:
    return ((pod.namespace, pod.name) for pod in store.pods())


_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
# When a selector no longer matches a pod, the API sends a DELETED event.
PODS: Final = Kind("pods", "/api/v1/pods", _keys, _NOT_ENDED)
PENDING_PODS: Final = Kind("pending pods", "/api/v1/pods", _keys, f"spec.nodeName=,{_NOT_ENDED}")


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


@dataclass(slots=True)
class _Fates(Listener):
    """Reports which pods lists and watch events show to be deleted, and which on a node."""

    store: core.PodStore
    awaited: Callable[[], Iterable[str]]
    on_deleted: Callable[[str], object]
    on_bound: Callable[[str], object]
    _awaited_before: set[str] = field(default_factory=set)
    _assumed_before: set[str] = field(default_factory=set)

    def list_begins(self) -> None:
        """Record, before a list, the pods that ``awaited`` returns and the store's assumed pods.

        Each recorded pod that still exists will be in the list.
        """
        self._awaited_before = set(self.awaited())
        self._assumed_before = {pod.uid for pod, _ in self.store.assumed()}

    def list_ends(self) -> None:
        """Record the pods that ``awaited`` returns and the store has.

        A pod that ``awaited`` returns only since the list began may be younger than the list, and
        so missing in the list: it is reported as deleted only if the store had it before.
        """
        self._awaited_before |= {uid for uid in self.awaited() if self.store.get(uid) is not None}

    def listed(self) -> None:
        """Report the recorded pods that a list shows to be deleted or bound."""
        for uid in self._assumed_before:
            # The store may never have known the pod: it came, was bound, and went while no watch
            # was open.
            if self.store.get(uid) is None:
                self.store.forget(uid)
        for uid in self._awaited_before:
            self._tell(uid, self.store.get(uid))

    def applied(self, event: core.PodEvent) -> None:
        """Call ``on_deleted`` or ``on_bound`` if a watch event shows the pod deleted or bound."""
        if event.type == "DELETED":
            self._tell(event.uid, None)
        elif event.pod is not None:
            self._tell(event.uid, event.pod)

    def _tell(self, uid: str, pod: core.Pod | None) -> None:
        # A finalizer keeps a deleted pod, but the API no longer binds it.
        if pod is None or pod.deletion_timestamp is not None:
            self.on_deleted(uid)
        elif pod.node_name:
            self.on_bound(uid)


def follow_pending_pods(
    cluster: Cluster,
    parts: KeptParts | None = None,
    *,
    on_list: Callable[[list[core.Pod]], object],
    on_pod: Callable[[core.Pod], object],
    on_gone: Callable[[str], object],
    shared: Reflector[core.PodStore] | None = None,
) -> Reflector[core.PodStore]:
    """Return a reflector, not started yet, that calls back about the pods that are on no node.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the connection to the Kubernetes API.
        parts: the optional parts of the pods that plugins need; None: none.
        on_list: called after each complete list, with all pods that are on no node.
        on_pod: called with a pod that was created or changed.
        on_gone: called with the UID of a pod that was bound to a node, has ended or was deleted.
        shared: a reflector of all pods that calls back and is returned; None: one of the pods that
            are on no node is made.
    """
    if shared is None:
        store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **(parts or NO_PARTS))
        shared = Reflector(cluster, store, kind=PENDING_PODS)
    shared.listen(_Pending(shared.store, on_list, on_pod, on_gone))
    return shared


@dataclass(slots=True)
class _Pending(Listener):
    """Passes lists and watch events of the pods that are on no node on to three callbacks."""

    store: core.PodStore
    on_list: Callable[[list[core.Pod]], object]
    on_pod: Callable[[core.Pod], object]
    on_gone: Callable[[str], object]
    # Most events of a watch of all pods are about pods on nodes.
    _told: set[str] = field(default_factory=set)

    def listed(self) -> None:
        """Call ``on_list`` with a complete list."""
        pods = [pod for pod in self.store.pods() if not pod.node_name]
        self._told = {pod.uid for pod in pods}
        self.on_list(pods)

    def applied(self, event: core.PodEvent) -> None:
        """Call ``on_pod`` with a pod that is on no node, and ``on_gone`` once it is no longer."""
        if event.pod is None:
            return
        if event.type != "DELETED" and not event.pod.node_name:
            self._told.add(event.uid)
            self.on_pod(event.pod)
        elif event.uid in self._told:
            self._told.discard(event.uid)
            self.on_gone(event.uid)


def list_pending_pods(cluster: Cluster, parts: KeptParts | None = None) -> list[core.Pod]:
    """List the pods of every namespace that are on no node and have not ended. Blocks.

    Args:
        cluster: the connection to the Kubernetes API.
        parts: the optional parts of the pods that plugins need; None: none.

    Raises: ClusterError: the API refused or did not answer; WireError: the answer is no list.
    """
    store = core.PodStore(**(parts or NO_PARTS))
    store.replace(cluster.request(PENDING_PODS.call(LIST_SILENCE_S, {})))
    return store.pods()


def list_pods(cluster: Cluster, parts: KeptParts | None = None) -> ListedPods:
    """List the pods of every namespace that have not ended, on nodes or not. Blocks.

    Args and errors are those of ``list_pending_pods``.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **(parts or NO_PARTS))
    store.replace(cluster.request(PODS.call(LIST_SILENCE_S, {})))
    return ListedPods(store)


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A store of pods that one list filled, with the attributes of a ``Reflector``.

    Attributes:
        store: the listed pods.
        synced: always True, as for a reflector that has its first list.
    """

    store: core.PodStore
    synced: bool = True


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
        check_names("read a pod", namespace=namespace, pod=name)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        call = Call("GET", path, CALL_S, right="get on pods")
        try:
            if (body := self._cluster.read(call)) is None:
                return None
            # The parser of watch events gets the pod wrapped into one.
            event = b'{"type":"ADDED","object":%b}' % body
            return core.PodStore(**ALL_PARTS).apply(event).pod
        except WireError as error:
            raise UnreachableError(call, error) from error
        except RefusedError as error:
            message = f"cannot read pod {namespace}/{name}: {error.reason}"
            raise ClusterError(message, error.status) from error
