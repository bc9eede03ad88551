"""Two replicas on one API: who decides, from when on, and what the next leader knows."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cluster_world import PATIENCE_S, eventually
from scripted_api import refusing

from kubextend import app, config
from kubextend.cluster import leader as leader_module
from kubextend.discovery import known_plugins
from kubextend.errors import ClusterError
from kubextend.framework import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripted_api import ScriptedApi

    from kubextend import core
    from kubextend.config import ExtenderConfiguration

LABEL = "kubextend.dev/leader"
NOT_LEADER = "kubextend is not ready: this replica does not lead"
NOT_SEEN = (
    "kubextend is not ready: this replica has begun to lead, and its watch of pods has not caught"
    " up yet"
)


class OnePlace:
    """Lets one pod with the label ``app`` onto a node."""

    name = "OnePlace"
    needs_pods = True

    def filter(self, state: Any, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        del state, pod
        taken = any("app" in other.labels for other in node.pods)
        return Status.unschedulable("taken") if taken else None


def configured(kubeconfig: Path, **lease: str) -> ExtenderConfiguration:
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "server": {"lease": lease},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"filter": {"enabled": [{"name": "OnePlace"}]}},
            }
        ],
    }
    return config.parse(tree, known=known_plugins({"OnePlace": OnePlace}))


class World:
    """The replicas of a test, each with a pod of its own name."""

    def __init__(self, api: ScriptedApi, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.api = api
        self._kubeconfig = kubeconfig
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(leader_module, "RETRY_S", 0.05)
        monkeypatch.setattr(leader_module, "LOOK_S", 0.02)
        api.put_node("n1")
        for name in ("first", "second"):
            api.put_pod(name, f"uid-{name}", phase="Running", labels={"is": "kubextend"})
        for name in ("one", "two"):
            api.put_pod(name, f"uid-{name}", labels={"app": "x"})

    @contextmanager
    def replica(self, pod: str) -> Iterator[app.App]:
        self._monkeypatch.setenv("POD_NAMESPACE", "default")
        self._monkeypatch.setenv("POD_NAME", pod)
        built = app.build(configured(self._kubeconfig))
        built.follow()
        asyncio.run(built.start())
        try:
            yield built
        finally:
            built.health.shut_down()
            built.stop()

    @contextmanager
    def served(self, pod: str) -> Iterator[str]:
        """Serve a replica on a thread until the block ends, and yield the URL of its verbs."""
        self._monkeypatch.setenv("POD_NAMESPACE", "default")
        self._monkeypatch.setenv("POD_NAME", pod)
        services: list[app.Service] = []

        class Kept(app.Service):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                services.append(self)

        self._monkeypatch.setattr(app, "Service", Kept)
        config = configured(self._kubeconfig)
        on_any_port = config.model_copy(
            update={"server": config.server.model_copy(update={"port": 0})}
        )
        announced: queue.Queue[str] = queue.Queue()
        thread = threading.Thread(target=app.serve, args=(on_any_port, announced.put))
        thread.start()
        try:
            yield announced.get(timeout=PATIENCE_S)
        finally:
            for service in services:
                service.stop()
                service.stop()
            thread.join(timeout=PATIENCE_S)
            assert not thread.is_alive()

    def labelled(self) -> list[str]:
        with self.api.changed:
            pods = list(self.api.pods.items())
        return [name for name, pod in pods if pod["metadata"].get("labels", {}).get(LABEL)]

    def holder(self) -> str:
        spec = (self.api.lease or {"spec": {"holderIdentity": ""}})["spec"]
        holder: str = spec["holderIdentity"].partition("_")[0]
        return holder


@pytest.fixture
def world(api: ScriptedApi, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(api, kubeconfig, monkeypatch)


def filtered(replica: app.App, name: str) -> Any:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "x"}}
    asked = {"Pod": {"metadata": metadata}, "Nodes": None, "NodeNames": ["n1"]}
    return json.loads(bytes(replica.verbs.filter(json.dumps(asked).encode())))


def bound(replica: app.App, name: str) -> str:
    asked = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": "n1"}
    error: str = json.loads(asyncio.run(replica.verbs.bind(json.dumps(asked).encode())))["Error"]
    return error


def decides(replica: app.App) -> bool:
    return not filtered(replica, "two")["Error"]


def ready(replica: app.App) -> bool:
    return replica.health.readyz(verbose=False)[0] == 200


def test_of_two_replicas_one_decides_and_both_are_ready(world: World) -> None:
    with world.replica("first") as first:
        eventually(lambda: decides(first))
        assert (world.holder(), world.labelled()) == ("first", ["first"])
        with world.replica("second") as second:
            eventually(lambda: ready(second))
            assert ready(first)
            assert filtered(second, "one")["Error"] == NOT_LEADER
            assert bound(second, "one") == NOT_LEADER
            assert (first.sends_away(), second.sends_away()) == (False, True)
            assert world.labelled() == ["first"]
            assert bound(first, "one") == ""
    assert (world.holder(), world.labelled()) == ("", [])


def test_the_server_of_a_replica_ends_its_connections_until_the_replica_leads(
    world: World,
) -> None:
    def is_sent_away(client: httpx.Client, url: str) -> bool:
        return client.get(f"{url}livez").headers.get("connection") == "close"

    with httpx.Client() as client, world.replica("first") as first:
        eventually(lambda: decides(first))
        with world.served("second") as url:
            assert is_sent_away(client, url)
            first.health.shut_down()
            eventually(lambda: not is_sent_away(client, url))


def test_the_next_leader_decides_once_it_has_seen_what_the_one_before_bound(world: World) -> None:
    with world.replica("first") as first, world.replica("second") as second:
        eventually(lambda: decides(first) or decides(second))
        old, new = (first, second) if decides(first) else (second, first)
        eventually(lambda: ready(new))
        # From here on no watch shows anything.
        world.api.silent = True
        assert bound(old, "one") == ""
        # A bind of the stand-in makes no event by itself.
        world.api.bind_pod("one")
        old.health.shut_down()
        eventually(lambda: filtered(new, "two")["Error"] == NOT_SEEN)
        assert not ready(old)
        assert filtered(old, "two")["Error"] == NOT_LEADER
        assert bound(new, "two") == NOT_SEEN
        world.api.silent = False
        world.api.bookmark()
        eventually(lambda: decides(new))
        assert filtered(new, "two")["FailedNodes"] == {"n1": "taken"}
        assert bound(new, "two") == "taken"
    assert world.api.pods["two"]["spec"] == {}


def test_a_replica_in_a_pod_that_still_has_the_label_is_not_ready(world: World) -> None:
    world.api.put_pod("first", "uid-first", phase="Running", labels={LABEL: "true"})
    world.api.fail("patch", *[refusing(403, "Forbidden")] * 2)
    with world.replica("first") as first:
        eventually(lambda: "grant patch on pods" in first.health.readyz(verbose=True)[1])
        status, text = first.health.readyz(verbose=True)
        assert status == 503
        assert "[-]leader-label failed: the label kubextend.dev/leader is not yet removed" in text
        eventually(lambda: ready(first) and decides(first))


def test_a_process_that_does_not_know_its_pod_elects_nobody(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    with pytest.raises(ClusterError, match="set POD_NAME and POD_NAMESPACE"):
        app.build(configured(kubeconfig))


def test_the_metrics_say_who_leads(world: World) -> None:
    with world.replica("first") as first:
        eventually(lambda: decides(first))
        assert first.metrics.registry.get_sample_value("kubextend_leader") == 1
    assert first.metrics.registry.get_sample_value("kubextend_leader") == 0
