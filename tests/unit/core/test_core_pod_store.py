"""PodStore: what a watch shows, and the ledger of what is about to be bound."""

import threading
from collections.abc import Callable

import pytest
from pod_world import event, listed, node, node_store, pod, pod_store, read

from kubextend import core

Step = Callable[[core.PodStore], object]


def on(store: core.PodStore, name: str) -> list[str]:
    return sorted(found.name for found in store.snapshot().pods_on(name))


def test_an_event_says_what_it_was_and_what_it_changed() -> None:
    store = core.PodStore()
    seen = store.apply(event("ADDED", pod("a", uid="u1", node="n1")))
    assert (seen.type, seen.name, seen.namespace, seen.uid) == ("ADDED", "a", "ns", "u1")
    assert seen.changed
    assert seen.pod is not None
    assert seen.pod.node_name == "n1"
    assert not store.apply(event("MODIFIED", pod("a", uid="u1", node="n1"))).changed
    gone = store.apply(event("DELETED", pod("a", uid="u1", node="n1")))
    assert gone.changed
    assert gone.pod is not None
    assert len(store) == 0


def test_bookmarks_and_errors_bring_no_pod() -> None:
    store = pod_store(pod("a"))
    mark = store.apply(event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
    assert (mark.type, mark.resource_version, mark.pod, mark.uid) == ("BOOKMARK", "9", None, "")
    gone = store.apply(event("ERROR", {"code": 410, "message": "too old"}))
    assert (gone.type, gone.code, gone.message, gone.changed) == ("ERROR", 410, "too old", False)
    assert len(store) == 1


def test_a_pod_is_found_by_uid_and_by_name() -> None:
    store = pod_store(pod("a", uid="u1"), pod("b", uid="u2", node="n1"))
    first, second = store.get("u1"), store.by_name("ns", "b")
    assert first is not None
    assert second is not None
    assert (first.name, second.uid) == ("a", "u2")
    assert store.get("a") is None
    assert store.by_name("other", "b") is None
    assert sorted(found.name for found in store.pods()) == ["a", "b"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_dropped(phase: str) -> None:
    store = pod_store(pod("a", node="n1"), pod("b", node="n1", phase=phase))
    assert on(store, "n1") == ["a"]
    assert store.apply(event("MODIFIED", pod("a", node="n1", phase=phase))).changed
    assert on(store, "n1") == []
    assert len(store) == 0


@pytest.mark.parametrize(
    ("step", "n1", "n2", "assumed"),
    [
        pytest.param(lambda _: None, ["a"], [], ["a"], id="nothing"),
        pytest.param(
            lambda s: s.apply(event("MODIFIED", pod("a"))), ["a"], [], ["a"], id="still pending"
        ),
        pytest.param(
            lambda s: s.apply(event("MODIFIED", pod("a", node="n1"))), ["a"], [], [], id="bound"
        ),
        pytest.param(
            lambda s: s.apply(event("MODIFIED", pod("a", node="n2"))),
            [],
            ["a"],
            [],
            id="bound elsewhere",
        ),
        pytest.param(
            lambda s: s.apply(event("MODIFIED", pod("a", phase="Failed"))), [], [], [], id="failed"
        ),
        pytest.param(lambda s: s.apply(event("DELETED", pod("a"))), [], [], [], id="deleted"),
        pytest.param(
            lambda s: s.apply(event("ADDED", pod("a", uid="new"))),
            [],
            [],
            [],
            id="another in its place",
        ),
        pytest.param(lambda s: s.forget("a"), [], [], [], id="forgotten"),
        pytest.param(lambda s: s.assume(read(pod("a")), "n2"), [], ["a"], ["a"], id="moved"),
        pytest.param(lambda s: s.replace(listed([pod("a")])), ["a"], [], ["a"], id="listed"),
        pytest.param(
            lambda s: s.replace(listed([pod("a", node="n2")])), [], ["a"], [], id="listed as bound"
        ),
        pytest.param(lambda s: s.replace(listed([])), [], [], [], id="listed no more"),
    ],
)
def test_an_assumed_pod_counts_until_the_watch_decides(
    step: Step, n1: list[str], n2: list[str], assumed: list[str]
) -> None:
    store = pod_store(pod("a"))
    store.assume(read(pod("a")), "n1")
    step(store)
    assert (on(store, "n1"), on(store, "n2")) == (n1, n2)
    assert [found.uid for found, _ in store.assumed()] == assumed


def test_a_page_of_a_list_leaves_the_store_as_it_was() -> None:
    store = pod_store(pod("a", node="n1"))
    with pytest.raises(core.WireError, match="not the whole list"):
        store.replace(b'{"metadata":{"continue":"more"},"items":[]}')
    assert on(store, "n1") == ["a"]


def test_an_assumed_pod_that_no_list_knows_yet_stays() -> None:
    store = core.PodStore()
    store.assume(read(pod("a")), "n1")
    store.replace(listed([pod("b", node="n1")]))
    assert on(store, "n1") == ["a", "b"]
    [(found, where)] = store.assumed()
    assert (found.name, found.node_name, where) == ("a", "n1", "n1")


@pytest.mark.parametrize(("shown", "where"), [(pod("a", uid=""), "n1"), (pod("a"), "")])
def test_what_cannot_be_assumed_is_refused(shown: dict[str, object], where: str) -> None:
    store = core.PodStore()
    with pytest.raises(ValueError, match=r"cannot be assumed"):
        store.assume(read(shown), where)
    assert len(store.snapshot()) == 0


def test_a_list_in_pages_is_seen_only_when_it_is_whole() -> None:
    store = pod_store(pod("old", node="n1"))
    relist = store.relist()
    page = relist.page(listed([pod("a", node="n1")], version="9", token="more"))
    assert (page.resource_version, page.continue_token, page.items) == ("9", "more", 1)
    with pytest.raises(core.WireError, match=r"a pod without metadata\.name"):
        relist.page(listed([{"metadata": {}}]))
    relist.page(listed([pod("b", node="n1")]))
    assert on(store, "n1") == ["old"]
    assert relist.commit()
    assert on(store, "n1") == ["a", "b"]
    with pytest.raises(RuntimeError, match="committed"):
        relist.commit()


def test_requests_come_in_the_order_of_the_nodes() -> None:
    nodes = node_store(node("n1"), node("n2"), node("n3")).nodes()
    store = pod_store(pod("a", node="n3"), pod("b", node="n3"), pod("c", node="gone"))
    store.assume(read(pod("d")), "n1")
    before = store.snapshot()
    store.forget("d")
    for snapshot, cpu, pods in [
        (before, [100, 0, 200], [1, 0, 2]),
        (store.snapshot(), [0, 0, 200], [0, 0, 2]),
    ]:
        assert list(snapshot.requested(nodes, "cpu")) == cpu
        assert list(snapshot.requested(nodes, "pods")) == pods
        assert snapshot.requested(nodes, "memory").format == "q"
    assert (len(before), len(store.snapshot())) == (4, 3)


def test_pods_are_found_that_started_lately_or_not_yet() -> None:
    running = pod("running", node="n1")
    running["status"]["startTime"] = "2026-01-01T00:00:00Z"
    store = pod_store(running, pod("new", node="n1"), pod("other", node="n2"))
    nodes = node_store(node("n0"), node("n1")).nodes()
    late = store.snapshot().started_after(nodes, "2026-01-01T00:00:00Z")
    assert {row: [found.name for found in pods] for row, pods in late.items()} == {1: ["new"]}


def test_readers_and_writers_in_many_threads_count_every_pod_once() -> None:
    store = core.PodStore()
    pods = [read(pod(f"p{i}")) for i in range(40)]
    torn: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            snapshot = store.snapshot()
            counted = [found.uid for name in ("n0", "n1") for found in snapshot.pods_on(name)]
            if len(counted) != len(set(counted)) or len(counted) != len(snapshot):
                torn.append(len(counted))

    def move(share: list[core.Pod]) -> None:
        for turn in range(50):
            for found in share:
                store.assume(found, f"n{turn % 2}")
                bound = pod(found.name, node=f"n{turn % 2}")
                store.apply(event("MODIFIED", bound))
                store.apply(event("DELETED", bound))

    watcher = threading.Thread(target=look)
    movers = [threading.Thread(target=move, args=(pods[i::4],)) for i in range(4)]
    watcher.start()
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    done.set()
    watcher.join()
    assert torn == []
    assert len(store.snapshot()) == 0
