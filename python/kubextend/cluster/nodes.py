"""Following the nodes, and hearing which of them are gone."""

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
    """A reflector of the nodes, not started yet.

    The callbacks run on the watch's thread, so they must not wait.

    Args:
        cluster: the API.
        store: filled by this alone.
        on_change: as of ``Reflector``.
        on_deleted: given the name of a node that is deleted, even if another one takes its name.
        on_listed: called after each whole list, which names no deletions.
    """
    return Reflector(cluster, store, on_change, listener=_Deletions(on_deleted, on_listed))


class _Deletions:
    """Tells of each deletion."""

    def __init__(
        self, on_deleted: Callable[[str], object], on_listed: Callable[[], object]
    ) -> None:
        self._on_deleted = on_deleted
        self._on_listed = on_listed

    def list_begins(self) -> None:
        """Nothing is known yet."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Says afterwards that the list is in."""
        commit()
        try:
            self._on_listed()
        except Exception:
            log.exception("what was told of a list of nodes failed")

    def applied(self, event: core.WatchEvent) -> None:
        """Tells of one event."""
        if event.type != "DELETED":
            return
        try:
            self._on_deleted(event.name)
        except Exception:
            log.exception("what was told of node %s failed", event.name)
