"""A plugin hears of the objects in the API once its start has ended, and not before."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from kubextend import app, config, discovery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripted_api import ScriptedApi

    from kubextend.framework import Handle, KubeObject


class Hears:
    """Starts once the informer has listed; hears of nodes."""

    name = "Hears"
    informers = ("nodes",)
    told: list[str]

    def __init__(self, handle: Handle) -> None:
        self._nodes = handle.informer("nodes")
        self._nodes.on_change(self._heard)

    def start(self) -> None:
        while not (self._nodes.synced and self._nodes.list()):
            time.sleep(0.01)
        self.told.append("started")

    def filter(self, *_: Any) -> None:
        raise NotImplementedError

    def _heard(self, _before: KubeObject | None, now: KubeObject | None) -> None:
        assert now is not None
        self.told.append(now["metadata"]["name"])


def test_a_handler_of_the_constructor_waits_for_the_start(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    Hears.told = []
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Hears"}]}}}],
    }
    built = app.build(config.parse(tree, known=discovery.known_plugins({"Hears": Hears})))
    api.put_node("n1")
    built.follow()
    asyncio.run(built.start())
    eventually(lambda: len(Hears.told) > 1)
    built.stop()
    assert Hears.told == ["started", "n1"]
