"""Follows the pods that are on no node yet, and lists them once.

A pod that is bound leaves the selection, so the API reports it as deleted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubextend import core
from kubextend.cluster.api_call import Call
from kubextend.cluster.pods import PODS, TruncatedPods
from kubextend.cluster.reflector import LIST_SILENCE_S, PAGE_ITEMS, Kind, Reflector
from kubextend.framework.handle import MAX_POD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

PENDING_PODS: Final = Kind(
    "pending pods",
    "/api/v1/pods",
    "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed",
)


def follow_pending_pods(
    cluster: Cluster,
    *,
    on_list: Callable[[list[core.Pod]], object],
    on_pod: Callable[[core.Pod], object],
    on_gone: Callable[[str], object],
) -> Reflector[core.PodStore]:
    """Return a reflector of the pods of every namespace that are on no node, not started yet.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the API.
        on_list: called with every pod after each list.
        on_pod: called with a pod as it is now.
        on_gone: called with the UID of a pod that is on a node, has ended or is deleted.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES)
    told = _Told(store, on_list, on_pod, on_gone)
    return Reflector(cluster, store, kind=PENDING_PODS, listener=told)


def list_pending_pods(cluster: Cluster) -> list[core.Pod]:
    """Return the pods of every namespace that are on no node now. Blocks.

    Raises:
        RefusedError: the API refuses.
        UnreachableError: the API does not answer.
        WireError: the answer is something else.
    """
    return _listed(cluster, core.PodStore(), PENDING_PODS).pods()


def list_pods(cluster: Cluster) -> ListedPods:
    """Return every pod that has not ended, for plugins that look at pods. Blocks.

    Raises: as ``list_pending_pods``.
    """
    return ListedPods(_listed(cluster, core.PodStore(max_pod_bytes=MAX_POD_BYTES), PODS))


@dataclass(frozen=True, slots=True)
class ListedPods:
    """Pods that were listed once, in place of watched ones."""

    store: core.PodStore
    synced: bool = True


def _listed(cluster: Cluster, store: core.PodStore, kind: Kind) -> core.PodStore:
    relist = store.relist()
    query = {"fieldSelector": kind.field_selector, "limit": str(PAGE_ITEMS)}
    while True:
        call = Call("GET", kind.path, LIST_SILENCE_S, query)
        page = relist.page(cluster.request(call))
        if not page.continue_token:
            break
        query["continue"] = page.continue_token
    relist.commit()
    return store


class _Told:
    """Passes on what the watch brings."""

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
        self._truncated = TruncatedPods()

    def list_begins(self) -> None:
        """Do nothing: the list is not known yet."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Swap the list in, and pass it on as a whole."""
        commit()
        self._truncated.listed(self._store.truncated())
        self._on_list(self._store.pods())

    def applied(self, event: core.PodEvent) -> None:
        """Pass on one event."""
        self._truncated.applied(event)
        if event.type == "DELETED":
            self._on_gone(event.uid)
        elif event.pod is not None:
            self._on_pod(event.pod)
