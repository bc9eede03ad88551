from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cluster_world import PATIENCE_S
from cluster_world import eventually as until

from kubextend import app, config, core
from kubextend.cluster import follow_pods
from kubextend.core import PodStore
from kubextend.plugins import IN_TREE
from kubextend.profile import WaitingPod
from kubextend.verbs.decision_records import VerbCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from scripted_api import ScriptedApi

    from kubextend.cluster import Reflector
    from kubextend.cluster.client import Cluster

Told = list[tuple[str, str]]


@dataclass
class Followed:
    """A reflector that is not started yet, what it told, and the UIDs that somebody awaits."""

    reflector: Reflector[PodStore]
    told: Told = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)

    def names(self) -> list[str]:
        return sorted(pod.name for pod in self.reflector.store.pods())


def watched(api: ScriptedApi, pods: Followed) -> None:
    """The first list is in, and a watch is open."""
    pods.reflector.start()
    until(lambda: pods.reflector.synced)
    until(lambda: api.counts["watch"])


def test_pods_that_are_kept_without_some_parts_are_named_once_in_a_list_and_when_they_come(
    api: ScriptedApi,
    cluster: Cluster,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    large = {"annotations": {"a": "x" * 1000}}
    reflector = follow_pods(cluster, PodStore(max_pod_bytes=500))
    api.put_pod("listed", "uid-1", **large)
    api.put_pod("small", "uid-2")
    watched(api, Followed(reflector))
    api.put_pod("new", "uid-3", **large)
    api.put_pod("new", "uid-3", labels={"changed": "1"}, **large)
    api.put_pod("last", "uid-4")
    eventually(lambda: "last" in Followed(reflector).names())
    reflector.stop()
    told = [
        record.getMessage()
        for record in caplog.records
        if "are kept without" in record.getMessage()
    ]
    assert [message.partition("fails: ")[2] for message in told] == [
        "default/listed",
        "default/new",
    ]
    assert told[0].startswith("1 pods have more than ")


def app_with_gangs(kubeconfig: Path) -> app.App:
    gang = {"enabled": [{"name": "Coscheduling"}]}
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"plugins": {"preFilter": gang, "permit": gang, "reserve": gang}}],
    }
    return app.build(config.parse(tree, known=IN_TREE))


def test_a_pod_that_is_deleted_or_bound_is_not_remembered(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    built = app_with_gangs(kubeconfig)
    unplaced, decisions = built.verbs.unplaced, built.verbs.decisions
    for name in ("stays", "goes", "bound"):
        api.put_pod(name, f"uid-{name}")
        pod = core.read_args(json.dumps({"Pod": api.pods[name], "NodeNames": []}).encode()).pod
        assert pod is not None
        unplaced.begin(pod)
        decisions.add(pod, VerbCall("filter"))
    built.follow()
    try:
        until(lambda: api.counts["watch"] == 3)
        api.delete_pod("goes")
        api.bind_pod("bound")
        until(lambda: len(unplaced) == 1)
        until(lambda: len(decisions) == 2)
    finally:
        built.stop()
    assert unplaced.find("uid-stays") is not None
    # People ask why a bound pod is where it is.
    assert decisions.find("uid-bound") is not None


def test_a_pod_that_permit_holds_and_no_list_shows_is_sent_back(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    del api
    built = app_with_gangs(kubeconfig)
    metadata = b'{"name":"p","namespace":"default","uid":"u"}'
    pod = core.read_args(b'{"Pod":{"metadata":' + metadata + b'},"NodeNames":[]}').pod
    assert pod is not None

    async def scenario() -> str:
        held = WaitingPod(pod, "n1", {"Coscheduling": 600.0})
        built.verbs.waiting_pods.add(held)
        await asyncio.to_thread(built.follow)
        async with asyncio.timeout(PATIENCE_S):
            return (await held.wait()).reason

    try:
        assert asyncio.run(scenario()) == "the pod is deleted"
    finally:
        built.stop()
