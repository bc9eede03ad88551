"""Pods that are on no node yet: following them, and listing them once.

One that is bound leaves the selection, so the API tells of it as of one that is deleted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kubextend import core
from kubextend.cluster.call import Call
from kubextend.cluster.pods import TruncatedPods
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
    """A reflector of the pods of every namespace that are on no node, not started yet.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the API.
        on_list: given all of them, whenever they were listed.
        on_pod: given one as it is now.
        on_gone: given the UID of one that is on a node, has ended or is deleted.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES)
    told = _Told(store, on_list, on_pod, on_gone)
    return Reflector(cluster, store, kind=PENDING_PODS, listener=told)


def list_pending_pods(cluster: Cluster) -> list[core.Pod]:
    """The pods of every namespace that are on no node now. Blocks.

    Raises:
        RefusedError: the API does not let us.
        UnreachableError: it does not answer.
        WireError: it answers something else.
    """
    store = core.PodStore()
    relist = store.relist()
    query = {"fieldSelector": PENDING_PODS.field_selector, "limit": str(PAGE_ITEMS)}
    while True:
        call = Call("GET", PENDING_PODS.path, LIST_SILENCE_S, query)
        page = relist.page(cluster.request(call))
        if not page.continue_token:
            break
        query["continue"] = page.continue_token
    relist.commit()
    return store.pods()


class _Told:
    """Hands on what the watch brings."""

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
        """Nothing is known yet."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Hands on the whole list."""
        commit()
        self._truncated.listed(self._store.truncated())
        self._on_list(self._store.pods())

    def applied(self, event: core.PodEvent) -> None:
        """Hands on one event."""
        self._truncated.applied(event)
        if event.type == "DELETED":
            self._on_gone(event.uid)
        elif event.pod is not None:
            self._on_pod(event.pod)
