"""Keeps a NodeStore equal to the cluster's nodes, and reports deleted nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubextend.cluster.watch import Kind, Listener, Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend import core
    from kubextend.cluster.client import Cluster
    from kubextend.cluster.watch import Key


def _keys(store: core.NodeStore) -> Iterable[Key]:
    return (("", name) for name in store.nodes().names)


NODES: Final = Kind("nodes", "/api/v1/nodes", _keys)


def follow_nodes(
    cluster: Cluster,
    store: core.NodeStore,
    on_change: Callable[[], object] = lambda: None,
    *,
    on_deleted: Callable[[str], object] = lambda _name: None,
    on_listed: Callable[[], object] = lambda: None,
) -> Reflector[core.NodeStore]:
    """Return a reflector, not started yet, that fills ``store`` with the cluster's nodes.

    ``on_deleted`` and ``on_listed`` run on the watch's thread, so they must not wait.

    Args:
        cluster: the connection to the Kubernetes API.
        store: the store of nodes; only this reflector may change it.
        on_change: called on a thread of its own soon after nodes changed, once for many changes.
        on_deleted: called with the name of a deleted node, even if a new node has the same name.
        on_listed: called after each complete list of nodes; nodes that were deleted before the list
            are missing in it, without a call of ``on_deleted``.
    """
    listener = _Deletions(on_deleted, on_listed)
    return Reflector(cluster, store, on_change, kind=NODES, listener=listener)


@dataclass(slots=True)
class _Deletions(Listener):
    """Calls ``on_deleted`` for each node that the watch deletes, and ``on_listed`` after lists."""

    on_deleted: Callable[[str], object]
    on_listed: Callable[[], object]

    def listed(self) -> None:
        """Call ``on_listed``."""
        self.on_listed()

    def applied(self, event: core.WatchEvent) -> None:
        """Call ``on_deleted`` with the node's name if the watch event is a deletion."""
        if event.type == "DELETED":
            self.on_deleted(event.name)
