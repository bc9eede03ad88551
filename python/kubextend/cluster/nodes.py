"""Follows the nodes, and tells which of them are gone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kubextend.cluster.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend import core
    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)


def follow_nodes(
    cluster: Cluster,
    store: core.NodeStore,
    on_change: Callable[[], object] = lambda: None,
    *,
    on_deleted: Callable[[str], object] = lambda _name: None,
    on_listed: Callable[[], object] = lambda: None,
) -> Reflector[core.NodeStore]:
    """Return a reflector of the nodes, not started yet.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the API.
        store: filled by this reflector alone.
        on_change: as of ``Reflector``.
        on_deleted: called with the name of a deleted node, even if another node takes the name.
        on_listed: called after each whole list, which names no deletions.
    """
    return Reflector(cluster, store, on_change, listener=_Deletions(on_deleted, on_listed))


class _Deletions:
    """Calls back for each deletion."""

    def __init__(
        self, on_deleted: Callable[[str], object], on_listed: Callable[[], object]
    ) -> None:
        self._on_deleted = on_deleted
        self._on_listed = on_listed

    def list_begins(self) -> None:
        """Do nothing: the list is not known yet."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Swap the list in, and then call ``on_listed``."""
        commit()
        try:
            self._on_listed()
        except Exception:
            log.exception("the callback for a list of nodes failed")

    def applied(self, event: core.WatchEvent) -> None:
        """Call ``on_deleted`` if the event is a deletion."""
        if event.type != "DELETED":
            return
        try:
            self._on_deleted(event.name)
        except Exception:
            log.exception("the callback for the deletion of node %s failed", event.name)
