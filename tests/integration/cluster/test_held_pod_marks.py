"""What an autoscaler of nodes is shown of the pods that Permit holds."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from cluster_world import Clock, Held, unlabelled
from scripted_api import ScriptedApi, refusing

from kubextend import app, config
from kubextend.cluster import WaitingPodMarker
from kubextend.core import PodStore
from kubextend.errors import ConfigError
from kubextend.plugins import IN_TREE
from kubextend.profile import WaitingPod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod


@pytest.fixture
def marker(cluster: Cluster) -> Iterator[WaitingPodMarker]:
    made = WaitingPodMarker(cluster, pause_s=0)
    yield made
    made.stop()


def pod(name: str) -> Pod:
    metadata = json.dumps({"name": name, "namespace": "default", "uid": f"uid-{name}"})
    event = b'{"type":"ADDED","object":{"metadata":%b}}' % metadata.encode()
    made = PodStore().apply(event).pod
    assert made is not None
    return made


def marked(api: ScriptedApi) -> list[str]:
    """Names of the pods that are marked, in the order in which they were."""
    return [path.split("/")[-2] for kind, path, _, _ in api.requests if kind == "patch"]


def test_a_mark_says_that_the_pod_is_unschedulable_and_who_holds_it(
    api: ScriptedApi, marker: WaitingPodMarker, eventually: Callable[..., None]
) -> None:
    marker.hold(pod("web"), "n1", ["Quota", "Coscheduling"])
    eventually(lambda: marked(api) == ["web"])
    _, path, headers, body = api.requests[-1]
    assert path == "/api/v1/namespaces/default/pods/web/status"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    patch = json.loads(body)
    (condition,) = patch["status"]["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "held for node n1, waiting on permit of Coscheduling, Quota",
    }
    # Karpenter does not count a pod with status.nominatedNodeName.
    assert patch == {"metadata": {"uid": "uid-web"}, "status": {"conditions": [condition]}}


def test_a_pod_is_marked_only_when_it_was_held_for_a_while(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    clock = Clock()
    marker = WaitingPodMarker(cluster, pause_s=2, clock=clock)
    marker.hold(pod("long"), "n1", ["A"])
    marker.hold(pod("short"), "n1", ["A"])
    clock.pass_s(1.9)
    marker.hold(pod("late"), "n1", ["A"])
    marker.release("uid-short")
    assert marked(api) == []
    clock.pass_s(0.1)
    eventually(lambda: marked(api) == ["long"])
    clock.pass_s(10)
    eventually(lambda: marked(api) == ["long", "late"])
    marker.stop()


def test_a_mark_is_due_two_seconds_after_the_wait_began(cluster: Cluster) -> None:
    marker = WaitingPodMarker(cluster, clock=Clock())
    # A stopped queue has no thread that might take the mark before the test looks.
    marker.stop()
    marker.hold(pod("web"), "n1", ["A"])
    assert marker._queue._writes.take() == 2.0


def test_a_pod_that_leaves_permit_before_its_turn_is_not_marked(
    api: ScriptedApi, marker: WaitingPodMarker, eventually: Callable[..., None]
) -> None:
    first = Held()
    api.fail("patch", first)
    marker.hold(pod("first"), "n1", ["A"])
    marker.hold(pod("bound"), "n1", ["A"])
    marker.release("uid-bound")
    marker.hold(pod("last"), "n1", ["A"])
    first.go_on.set()
    eventually(lambda: marked(api)[-1:] == ["last"])
    assert marked(api) == ["first", "last"]


def test_a_pod_that_is_held_again_is_marked_again(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    clock = Clock()
    marker = WaitingPodMarker(cluster, pause_s=0, clock=clock)
    for node in ("n1", "n2"):
        marker.hold(pod("web"), node, ["A"])
        eventually(lambda node=node: bool(api.requests) and node in str(api.requests[-1]))
        # kube-scheduler writes another reason for a pod that is not bound.
        marker.release("uid-web")
        clock.pass_s(2)
    marker.stop()
    assert marked(api) == ["web", "web"]


def test_a_refusal_is_said_once_and_harms_nobody(
    api: ScriptedApi,
    marker: WaitingPodMarker,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.fail("patch", *[refusing(403, "Forbidden", "cannot patch pods/status")] * 2)
    marker.hold(pod("a"), "n1", ["A"])
    marker.hold(pod("b"), "n1", ["A"])
    eventually(lambda: marker.stats.failed == 2)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("held pods cannot be marked: PATCH /api/v1/namespaces/default/pods/a")


def test_a_pod_kept_without_labels_is_marked_too(
    api: ScriptedApi, marker: WaitingPodMarker, eventually: Callable[..., None]
) -> None:
    marker.hold(unlabelled("large"), "n1", ["A"])
    eventually(lambda: marked(api) == ["large"])


@pytest.mark.parametrize("name", ["..", "a/b"])
def test_what_is_no_name_is_not_sent(api: ScriptedApi, marker: WaitingPodMarker, name: str) -> None:
    marker.hold(pod(name), "n1", ["A"])
    assert marker.stats.dropped == 1
    assert api.counts["patch"] == 0


def build(kubeconfig: Path, autoscaler: Any) -> app.App:
    """Build a kubextend with Coscheduling."""
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "autoscaler": autoscaler,
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}],
    }
    return app.build(config.parse(tree, known=IN_TREE))


def test_permit_marks_held_pods_where_the_configuration_names_an_autoscaler(
    api: ScriptedApi, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    built = build(kubeconfig, {"name": "Karpenter"})
    waiting_pods = built.verbs.waiting_pods

    async def hold() -> None:
        bound, held = (WaitingPod(pod(name), "n1", {"A": 60.0}) for name in ("bound", "held"))
        waiting_pods.add(bound)
        waiting_pods.remove(bound)
        waiting_pods.add(held)
        await asyncio.to_thread(eventually, lambda: bool(marked(api)))
        for each in (bound, held):
            each.end()

    asyncio.run(hold())
    built.stop()
    assert marked(api) == ["held"]
    assert "kubextend_held_pod_marks_total" in built.metrics.render()[0].decode()


@pytest.mark.parametrize("autoscaler", [{}, {"name": "Karpenter", "markHeldPods": False}])
def test_nothing_marks_pods_where_no_autoscaler_counts_them(
    api: ScriptedApi, kubeconfig: Path, autoscaler: Any
) -> None:
    built = build(kubeconfig, autoscaler)
    assert "kubextend_held_pod_marks_total" not in built.metrics.render()[0].decode()
    built.stop()
    assert api.counts["patch"] == 0


def test_an_autoscaler_has_a_name_that_is_known_and_a_note_where_no_pod_is_held() -> None:
    tree: Any = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "autoscaler": {"name": "ClusterAutoscaler"},
        "profiles": [{"schedulerName": "a"}],
    }
    (note,) = config.parse(tree, known=IN_TREE).notes
    assert (
        note
        == "autoscaler.markHeldPods: no profile has a Permit plugin, so no pod will ever be held"
    )
    tree["autoscaler"] = {"name": "karpenter"}
    with pytest.raises(ConfigError, match=r"autoscaler\.name"):
        config.parse(tree, known=IN_TREE)
