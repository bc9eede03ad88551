"""A plugin hears of the objects in the API once its start has ended, and not before."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from kubextend import app, config, discovery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripted_api import ScriptedApi

    from kubextend.framework import Handle, KubeObject


class Hears:
    """Hears of nodes; starts once another plugin has heard of one."""

    name = "Hears"
    informers = ("nodes",)
    told: list[str]

    def __init__(self, handle: Handle) -> None:
        handle.informer("nodes").on_change(self._heard)

    def start(self) -> None:
        Beside.heard.wait()
        self.told.append("started")

    def filter(self, *_: Any) -> None:
        raise NotImplementedError

    def _heard(self, _before: KubeObject | None, now: KubeObject | None) -> None:
        assert now is not None
        self.told.append(now["metadata"]["name"])


class Beside:
    """Hears of nodes without a start, after ``Hears`` has been told."""

    name = "Beside"
    informers = ("nodes",)
    heard: threading.Event

    def __init__(self, handle: Handle) -> None:
        handle.informer("nodes").on_change(lambda *_: self.heard.set())

    def filter(self, *_: Any) -> None:
        raise NotImplementedError


def test_a_handler_of_the_constructor_waits_for_the_start(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    Hears.told, Beside.heard = [], threading.Event()
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Hears"}, {"name": "Beside"}]}}}],
    }
    known = discovery.known_plugins({"Hears": Hears, "Beside": Beside})
    built = app.build(config.parse(tree, known=known))
    api.put_node("n1")
    built.follow()
    asyncio.run(built.start())
    eventually(lambda: len(Hears.told) > 1)
    built.stop()
    assert Hears.told == ["started", "n1"]
