from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from cluster_world import PATIENCE_S
from cluster_world import eventually as until
from scripted_api import refusing

from kubextend import app, config, core
from kubextend.cluster import follow_pods
from kubextend.core import PodStore
from kubextend.plugins import IN_TREE
from kubextend.profile import WaitingPod
from kubextend.verbs.decision_records import VerbCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripted_api import Request, ScriptedApi

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


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Followed]:
    made = follow_pods(
        cluster,
        PodStore(),
        awaited=lambda: followed.awaited,
        on_deleted=lambda uid: followed.told.append(("deleted", uid)),
        on_bound=lambda uid: followed.told.append(("bound", uid)),
    )
    followed = Followed(made)
    yield followed
    made.stop()


def watched(api: ScriptedApi, pods: Followed) -> None:
    """The first list is in, and a watch is open."""
    pods.reflector.start()
    until(lambda: pods.reflector.synced)
    until(lambda: api.counts["watch"])


def miss(api: ScriptedApi) -> None:
    """The watch is gone, and so is what happened meanwhile: only a list can tell."""
    api.compact()
    api.end_watches()


def test_pods_that_have_not_ended_are_followed_in_every_namespace(
    api: ScriptedApi, pods: Followed, eventually: Callable[..., None]
) -> None:
    api.put_pod("one", "uid-1")
    api.put_pod("done", "uid-2", phase="Succeeded")
    watched(api, pods)
    assert pods.names() == ["one"]
    api.put_pod("two", "uid-3", node="n1", phase="Running")
    eventually(lambda: pods.names() == ["one", "two"])
    api.delete_pod("one")
    eventually(lambda: pods.names() == ["two"])
    for kind in ("list", "watch"):
        path = next(path for called, path, _, _ in api.requests if called == kind)
        split = urlsplit(path)
        assert split.path == "/api/v1/pods"
        selected = parse_qs(split.query)["fieldSelector"]
        assert selected == ["status.phase!=Succeeded,status.phase!=Failed"]


def test_every_page_has_the_selector(api: ScriptedApi, pods: Followed) -> None:
    for number in range(700):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    watched(api, pods)
    assert len(pods.reflector.store) == 700
    lists = [path for kind, path, _, _ in api.requests if kind == "list"]
    assert ["continue=500" in path for path in lists] == [False, True]
    assert all("fieldSelector=status.phase%21%3DSucceeded" in path for path in lists)


def end(api: ScriptedApi) -> None:
    api.delete_pod("one")


def finish(api: ScriptedApi) -> None:
    api.put_pod("one", "uid-1", phase="Failed")


def mark(api: ScriptedApi) -> None:
    api.put_pod("one", "uid-1", deletionTimestamp="2026-01-02T03:04:05Z")


def bind(api: ScriptedApi) -> None:
    api.put_pod("one", "uid-1", node="n1")


def touch(api: ScriptedApi) -> None:
    api.put_pod("one", "uid-1", selfLink="")


def replace(api: ScriptedApi) -> None:
    api.delete_pod("one")
    api.put_pod("one", "uid-9")


HAPPENINGS = [
    (end, [("deleted", "uid-1")]),
    (finish, [("deleted", "uid-1")]),
    (mark, [("deleted", "uid-1")]),
    (bind, [("bound", "uid-1")]),
    (touch, []),
    (replace, [("deleted", "uid-1")]),
]


@pytest.mark.parametrize("happening", HAPPENINGS)
def test_what_becomes_of_a_pod_is_told_as_it_happens(
    api: ScriptedApi,
    pods: Followed,
    eventually: Callable[..., None],
    happening: tuple[Callable[[ScriptedApi], None], Told],
) -> None:
    happens, expected = happening
    api.put_pod("one", "uid-1")
    watched(api, pods)
    assert pods.told == []
    happens(api)
    api.put_pod("last", "uid-2")
    eventually(lambda: "last" in pods.names())
    assert pods.told == expected


@pytest.mark.parametrize("happening", HAPPENINGS)
def test_what_became_of_an_awaited_pod_while_nobody_looked_is_told_with_the_next_list(
    api: ScriptedApi,
    pods: Followed,
    eventually: Callable[..., None],
    happening: tuple[Callable[[ScriptedApi], None], Told],
) -> None:
    happens, expected = happening
    api.put_pod("one", "uid-1")
    api.put_pod("nobody-waits-for-this", "uid-5")
    watched(api, pods)
    pods.awaited.add("uid-1")
    with api.changed:
        happens(api)
        api.delete_pod("nobody-waits-for-this")
        miss(api)
    eventually(lambda: pods.reflector.stats.watches >= 2 and pods.reflector.stats.lists == 2)
    eventually(lambda: pods.told == expected)
    assert pods.told == expected


def test_a_pod_that_was_deleted_before_the_first_list_is_told(
    api: ScriptedApi,
    pods: Followed,
) -> None:
    pods.awaited.add("uid-never-seen")
    watched(api, pods)
    assert pods.told == [("deleted", "uid-never-seen")]


def test_a_pod_that_is_awaited_since_the_list_began_may_be_younger_than_the_list(
    api: ScriptedApi,
    pods: Followed,
    eventually: Callable[..., None],
) -> None:
    def young(request: Request) -> bool:
        pods.awaited.add("uid-young")
        request.answer_list()
        api.put_pod("young", "uid-young")
        return True

    api.fail("list", young)
    watched(api, pods)
    eventually(lambda: pods.names() == ["young"])
    assert pods.told == []


def test_a_pod_that_was_known_and_is_gone_is_told_however_late_the_wait_began(
    api: ScriptedApi,
    pods: Followed,
    eventually: Callable[..., None],
) -> None:
    def late(_: Request) -> bool:
        pods.awaited.add("uid-1")
        return False

    api.put_pod("one", "uid-1")
    watched(api, pods)
    api.fail("list", late)
    with api.changed:
        api.delete_pod("one")
        miss(api)
    eventually(lambda: pods.told == [("deleted", "uid-1")])


def test_an_assumed_pod_that_came_and_went_while_nobody_looked_is_assumed_no_longer(
    api: ScriptedApi,
    pods: Followed,
    eventually: Callable[..., None],
) -> None:
    store = pods.reflector.store
    watched(api, pods)
    api.put_pod("there", "uid-1")
    eventually(lambda: pods.names() == ["there"])
    # As a filter request and a bind request bring one that the watch has not shown.
    missed = PodStore().apply(
        b'{"type":"ADDED","object":{"metadata":{"name":"missed","namespace":"ml","uid":"uid-2"}}}'
    )
    there = store.get("uid-1")
    assert missed.pod is not None
    assert there is not None
    store.assume(missed.pod, "n1")
    store.assume(there, "n1")
    with api.changed:
        miss(api)
    eventually(lambda: [pod.uid for pod, _ in store.assumed()] == ["uid-1"])


def test_a_callback_that_fails_does_not_stop_the_watch(
    api: ScriptedApi,
    cluster: Cluster,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_uid: str) -> None:
        raise RuntimeError

    reflector = follow_pods(cluster, PodStore(), on_deleted=fail)
    api.put_pod("one", "uid-1")
    watched(api, Followed(reflector))
    api.delete_pod("one")
    api.put_pod("two", "uid-2")
    eventually(lambda: Followed(reflector).names() == ["two"])
    reflector.stop()
    assert "the callback for pod uid-1 failed" in caplog.text
    assert reflector.stats.lists == 1


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


def test_messages_say_pods(
    api: ScriptedApi, pods: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    api.down()
    pods.reflector.start()
    until(lambda: caplog.records)
    assert pods.reflector.last_error is not None
    assert pods.reflector.last_error.startswith("GET /api/v1/pods: ")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("pods cannot be followed, trying again: GET /api/v1/pods: ")
    assert said.endswith("(0 kept)")


def test_a_missing_right_is_named(
    api: ScriptedApi, pods: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("list", *[refusing(403, "Forbidden")] * 10_000)
    pods.reflector.start()
    until(lambda: caplog.records)
    missing = "; grant list and watch on pods"
    assert pods.reflector.last_error is not None
    assert pods.reflector.last_error.endswith(missing)
    assert caplog.records[0].getMessage().endswith(f"{missing} (0 kept)")


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
