"""A follower of the nodes hears of each node that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubextend import cluster, core

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripted_api import ScriptedApi


def test_deletions_and_lists_are_told_and_nothing_else(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    told: list[str] = []

    def on_deleted(name: str) -> None:
        told.append(f"deleted {name}")
        # What a listener raises must not end the watch.
        raise KeyError(name)

    for name in ("a", "b", "c"):
        api.put_node(name)
    store = core.NodeStore()
    reflector = cluster.follow_nodes(
        cluster.connect(str(kubeconfig)),
        store,
        on_deleted=on_deleted,
        on_listed=lambda: told.append(f"listed {sorted(store.nodes().names)}"),
    )
    reflector.start()
    try:
        eventually(lambda: reflector.synced)
        api.put_node("b", zone="z")
        api.delete_node("a")
        api.delete_node("b")
        api.put_node("b")
        api.delete_node("c")
        eventually(lambda: "deleted c" in told)
    finally:
        reflector.stop()
    assert told == ["listed ['a', 'b', 'c']", "deleted a", "deleted b", "deleted c"]
