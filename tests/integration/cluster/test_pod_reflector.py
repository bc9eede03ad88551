from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from cluster_world import PATIENCE_S
from cluster_world import eventually as until

from kubextend import app, config, core
from kubextend.plugins import IN_TREE
from kubextend.profile import WaitingPod
from kubextend.verbs.decision_records import VerbCall

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_api import ScriptedApi


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
