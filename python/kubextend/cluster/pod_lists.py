"""Lists pods once by the Kubernetes API: those on no node, or all that have not ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubextend import core
from kubextend.cluster.pending_pod_reflector import PENDING_PODS
from kubextend.cluster.pod_reflector import PODS
from kubextend.cluster.reflector import LIST_SILENCE_S, PAGE_ITEMS, Kind
from kubextend.framework.handle import MAX_POD_BYTES
from kubextend.framework.kept_parts import NO_PARTS

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster
    from kubextend.framework.kept_parts import KeptParts


def list_pending_pods(cluster: Cluster, parts: KeptParts | None = None) -> list[core.Pod]:
    """List the pods of every namespace that are on no node and have not ended. Blocks.

    Args:
        cluster: the connection to the Kubernetes API.
        parts: the optional parts of the pods that plugins need; None: none.

    Raises:
        RefusedError: the API answered with an error status.
        UnreachableError: the API did not respond.
        WireError: the response is no list of pods.
    """
    return _listed(cluster, core.PodStore(**(parts or NO_PARTS)), PENDING_PODS).pods()


def list_pods(cluster: Cluster, parts: KeptParts | None = None) -> ListedPods:
    """List the pods of every namespace that have not ended, on nodes or not. Blocks.

    Args:
        cluster: the connection to the Kubernetes API.
        parts: the optional parts of the pods that plugins need; None: none.

    Raises:
        RefusedError: the API answered with an error status.
        UnreachableError: the API did not respond.
        WireError: the response is no list of pods.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **(parts or NO_PARTS))
    return ListedPods(_listed(cluster, store, PODS))


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A store of pods that one list filled, with the attributes of a ``Reflector``.

    Attributes:
        store: the listed pods.
        synced: always True, as for a reflector that has its first list.
    """

    store: core.PodStore
    synced: bool = True


def _listed(cluster: Cluster, store: core.PodStore, kind: Kind) -> core.PodStore:
    relist = store.relist()
    query = {"limit": str(PAGE_ITEMS)}
    while True:
        page = relist.page(cluster.request(kind.call(LIST_SILENCE_S, query)))
        if not page.continue_token:
            break
        query["continue"] = page.continue_token
    relist.commit()
    return store
