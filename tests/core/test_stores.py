"""What lists and watch events make of a store of nodes or pods."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.doors import core_objects as world
from tests.doors.core_objects import event, pod, pod_store, read

from kubextend import core

PAGE = b'{"metadata":{"resourceVersion":"9","continue":"more"},"items":[{"metadata":{"name":"b"}}]}'


LISTS = [b"", b"null", b"[]", b'{"items":[{}]}', b'{"items":7}', PAGE]
EVENTS = [b"", b"{}", b'{"type":"ADDED","object":{}}', b'{"type":"NEW"}']


@pytest.mark.parametrize(("how", "bodies"), [("replace", LISTS), ("apply", EVENTS)])
def test_a_list_or_an_event_that_cannot_be_read_changes_nothing(
    how: str, bodies: list[bytes]
) -> None:
    store = world.node_store(world.node("a"))
    for body in bodies:
        with pytest.raises(core.WireError):
            getattr(store, how)(body)
        assert store.nodes().names == ["a"]


def test_a_relist_shows_nothing_before_its_commit_and_ends_with_it() -> None:
    store = world.node_store(world.node("old"))
    relist = store.relist()
    page = relist.page(world.listed([world.node("a")], "50", "next"))
    assert (page.resource_version, page.continue_token, page.items) == ("50", "next", 1)
    with pytest.raises(core.WireError):
        relist.page(b'{"items":[{"metadata":{"name":"half"}},{}]}')
    relist.page(world.listed([world.node("b")], "50"))
    assert store.nodes().names == ["old"]
    relist.commit()
    assert sorted(store.nodes().names) == ["a", "b"]
    for again in (relist.commit, lambda: relist.page(world.listed([]))):
        with pytest.raises(RuntimeError, match="this list is committed"):
            again()


def test_a_body_is_let_go_when_nothing_of_it_is_kept() -> None:
    body = world.full([world.node("a")])
    before = sys.getrefcount(body)
    core.read_args(body)
    with pytest.raises(core.WireError):
        core.read_args(body[:-1], core.RequestStore())
    store = core.RequestStore()
    args = core.read_args(body, store)
    assert sys.getrefcount(body) > before, "adopted, not copied"
    del args, store
    core.read_args(b"{}")  # what was let go without the interpreter is settled by the next call
    assert sys.getrefcount(body) == before


def test_a_pod_is_found_by_uid_and_by_name() -> None:
    store = pod_store(pod("a", uid="u1"), pod("b", uid="u2", node="n1"))
    first, second = store.get("u1"), store.by_name("ns", "b")
    assert (first.name, second.uid) == ("a", "u2")
    assert store.get("a") is None
    assert store.by_name("other", "b") is None
    assert sorted(found.name for found in store.pods()) == ["a", "b"]


@pytest.mark.parametrize(("shown", "where"), [(pod("a", uid=""), "n1"), (pod("a"), "")])
def test_what_cannot_be_assumed_is_refused(shown: dict[str, object], where: str) -> None:
    store = core.PodStore()
    with pytest.raises(ValueError, match=r"cannot be assumed"):
        store.assume(read(shown), where)
    assert len(store.snapshot()) == 0


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
    watcher.start()
    with ThreadPoolExecutor(4) as movers:
        list(movers.map(move, [pods[i::4] for i in range(4)]))
    done.set()
    watcher.join()
    assert torn == []
    assert len(store.snapshot()) == 0
