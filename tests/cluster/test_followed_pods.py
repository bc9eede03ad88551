"""What kubextend hears of pods: their ends, their Bindings, and what no watch has shown."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.doors.kube_api import Follower, Request, ScriptedApi, SkippingTime, following, refusing

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


@pytest.fixture
def pods(api: ScriptedApi, kubeconfig: Path) -> Iterator[Follower]:
    """The pods, of which one is there, and which are not followed before ``start``."""
    api.put_pod("one", "uid-1")
    with following(kubeconfig, "pods") as made:
        yield made


def start(pods: Follower, clock: SkippingTime) -> None:
    pods.start()
    clock.until(lambda: pods.synced)


def miss(api: ScriptedApi) -> None:
    """End the watch, and forget what happened meanwhile: only a list can tell."""
    api.compact()
    api.end_watches()


def test_pods_that_have_not_ended_are_followed_in_every_namespace(
    api: ScriptedApi, pods: Follower, clock: SkippingTime
) -> None:
    api.put_pod("done", "uid-2", phase="Succeeded")
    for number in range(700):
        api.put_pod(f"pod-{number}", f"uid-{number}x")
    start(pods, clock)
    assert len(pods.names()) == 701
    assert "done" not in pods.names()
    api.put_pod("two", "uid-3", node="n1", phase="Running")
    api.delete_pod("one")
    clock.settle()
    assert "two" in pods.names()
    assert "one" not in pods.names()
    for path in [*api.paths("list"), *api.paths("watch")]:
        assert urlsplit(path).path == "/api/v1/pods"
        assert parse_qs(urlsplit(path).query)["fieldSelector"] == [NOT_ENDED]


def replace(api: ScriptedApi) -> None:
    api.delete_pod("one")
    api.put_pod("one", "uid-9")


HAPPENINGS: dict[str, tuple[Callable[[ScriptedApi], None], list[str]]] = {
    "deleted": (lambda api: api.delete_pod("one"), ["deleted uid-1"]),
    "ended": (lambda api: api.put_pod("one", "uid-1", phase="Failed"), ["deleted uid-1"]),
    "being deleted": (
        lambda api: api.put_pod("one", "uid-1", deletionTimestamp="2026-01-02T03:04:05Z"),
        ["deleted uid-1"],
    ),
    "replaced": (replace, ["deleted uid-1"]),
    "bound": (lambda api: api.put_pod("one", "uid-1", node="n1"), ["bound uid-1"]),
    "changed": (lambda api: api.put_pod("one", "uid-1", selfLink=""), []),
}


@pytest.mark.parametrize("what", HAPPENINGS)
@pytest.mark.parametrize("watched", [True, False])
def test_what_becomes_of_a_pod_is_told_as_it_happens_or_if_it_is_held_after_the_next_list(
    api: ScriptedApi, pods: Follower, clock: SkippingTime, what: str, watched: bool
) -> None:
    happens, told = HAPPENINGS[what]
    api.put_pod("nobody-waits-for-this", "uid-5")
    start(pods, clock)
    assert pods.told == []
    with api.changed:
        happens(api)
        if not watched:
            pods.awaited.add("uid-1")
            api.delete_pod("nobody-waits-for-this")
            miss(api)
    clock.pass_s(5)
    assert (api.counts["list"], pods.told) == (1 if watched else 2, told)


def test_a_held_pod_that_was_deleted_before_the_first_list_is_told(
    pods: Follower, clock: SkippingTime
) -> None:
    pods.awaited.add("uid-never-seen")
    start(pods, clock)
    assert pods.told == ["deleted uid-never-seen"]


def test_a_pod_that_is_held_since_the_list_began_may_be_younger_than_the_list(
    api: ScriptedApi, pods: Follower, clock: SkippingTime
) -> None:
    def young(request: Request) -> bool:
        pods.awaited.add("uid-young")
        request.answer_list()
        api.put_pod("young", "uid-young")
        return True

    api.fail("list", young)
    start(pods, clock)
    clock.settle()
    assert pods.names() == ["one", "young"]
    assert pods.told == []


def test_a_known_pod_that_is_gone_is_told_however_late_it_was_held(
    api: ScriptedApi, pods: Follower, clock: SkippingTime
) -> None:
    def late(_: Request) -> bool:
        pods.awaited.add("uid-1")
        return False

    start(pods, clock)
    api.fail("list", late)
    with api.changed:
        api.delete_pod("one")
        miss(api)
    clock.pass_s(5)
    assert pods.told == ["deleted uid-1"]


def test_a_decided_pod_that_came_and_went_unseen_is_counted_on_its_node_no_longer(
    api: ScriptedApi, pods: Follower, clock: SkippingTime
) -> None:
    start(pods, clock)
    pods.assume("uid-missed", "n1")
    pods.assume("uid-1", "n1")
    assert sorted(pods.assumed()) == ["uid-1", "uid-missed"]
    miss(api)
    clock.pass_s(5)
    assert pods.assumed() == ["uid-1"]


def test_who_fails_to_hear_of_a_pod_stops_no_watch(
    api: ScriptedApi, pods: Follower, clock: SkippingTime
) -> None:
    start(pods, clock)
    pods.fails = True
    api.delete_pod("one")
    api.put_pod("two", "uid-2")
    clock.settle()
    assert (pods.told, pods.names()) == (["deleted uid-1"], ["two"])
    assert api.counts["list"] == 1


def test_messages_name_the_pods_and_the_right_that_is_missing(
    api: ScriptedApi, pods: Follower, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("list", *[refusing(403, "Forbidden")] * 100)
    pods.start()
    clock.pass_s(60)
    assert pods.error.startswith("GET /api/v1/pods: 403 ")
    assert pods.error.endswith("; grant list and watch on pods")
    (said,) = caplog.messages
    assert said == f"pods cannot be followed, trying again: {pods.error} (0 kept)"


def test_pods_without_a_node_are_listed_and_then_told_one_by_one(
    api: ScriptedApi, kubeconfig: Path, clock: SkippingTime
) -> None:
    api.put_pod("there", "uid-there")
    api.put_pod("bound", "uid-bound", node="n1")
    with following(kubeconfig, "pods without a node") as unplaced:
        start(unplaced, clock)
        api.put_pod("new", "uid-new")
        api.put_pod("new", "uid-new", labels={})
        api.delete_pod("there")
        clock.settle()
        assert unplaced.told == ["listed there", "seen new", "seen new", "gone uid-there"]
        for _, path, _, _ in api.requests:
            query = parse_qs(urlsplit(path).query)
            assert query["fieldSelector"] == [f"spec.nodeName=,{NOT_ENDED}"]
        # After a break, all are told again.
        unplaced.told.clear()
        with api.changed:
            api.delete_pod("new")
            api.put_pod("other", "uid-other")
            miss(api)
        clock.pass_s(5)
        assert unplaced.told == ["listed other"]
