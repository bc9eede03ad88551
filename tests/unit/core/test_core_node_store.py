"""``NodeStore``, ``Relist``, ``WatchEvent``, and ``RequestStore``, which requests fill."""

import sys

import core_world as world
import pytest

from kubextend import core


@pytest.mark.parametrize("kind", [core.NodeStore, core.RequestStore])
def test_a_new_store_is_empty(kind: type[core.NodeStore | core.RequestStore]) -> None:
    store = kind()
    assert len(store) == 0
    assert "a" not in store
    assert store.nodes().names == []
    stats = store.stats()
    assert (stats.nodes, stats.bytes, stats.hits, stats.misses) == (0, 0, 0, 0)
    assert repr(store) == f"<{kind.__name__}: 0 nodes>"


def test_replace_holds_exactly_the_list_and_returns_its_version() -> None:
    store = core.NodeStore()
    assert store.replace(world.node_list([world.node("a"), world.node("b")], "41")) == "41"
    assert store.replace(world.node_list([world.node("b"), world.node("c")], "42")) == "42"
    assert sorted(store.nodes().names) == ["b", "c"]
    assert len(store) == 2
    assert "a" not in store
    assert "c" in store


PAGE = b'{"metadata":{"resourceVersion":"9","continue":"more"},"items":[{"metadata":{"name":"b"}}]}'


@pytest.mark.parametrize("bad", [b"", b"null", b"[]", b'{"items":[{}]}', b'{"items":7}', PAGE])
def test_a_list_that_cannot_be_read_leaves_the_store_as_it_was(bad: bytes) -> None:
    store = world.watched(world.node("a"))
    with pytest.raises(core.WireError):
        store.replace(bad)
    assert store.nodes().names == ["a"]


def test_events_tell_their_kind_name_version_and_whether_anything_changed() -> None:
    store = world.watched()
    node = world.node("a", {"x": "1"})
    node["metadata"]["resourceVersion"] = "9"
    added = store.apply(world.event("ADDED", node))
    assert (added.type, added.name, added.resource_version) == ("ADDED", "a", "9")
    assert (added.changed, added.code, added.message) == (True, 0, "")
    assert not store.apply(world.event("MODIFIED", node)).changed
    assert store.apply(world.event("DELETED", node)).changed
    assert not store.apply(world.event("DELETED", node)).changed


def test_an_error_event_brings_its_status() -> None:
    status = {"kind": "Status", "code": 410, "message": "too old resource version"}
    seen = world.watched().apply(world.event("ERROR", status))
    assert (seen.type, seen.code, seen.message) == ("ERROR", 410, "too old resource version")
    assert (seen.name, seen.resource_version, seen.changed) == ("", "", False)


@pytest.mark.parametrize("bad", [b"", b"{}", b'{"type":"ADDED","object":{}}', b'{"type":"NEW"}'])
def test_what_is_not_an_event_raises_and_changes_nothing(bad: bytes) -> None:
    store = world.watched(world.node("a"))
    with pytest.raises(core.WireError):
        store.apply(bad)
    assert store.nodes().names == ["a"]


def test_a_relist_shows_nothing_before_its_commit_and_ends_with_it() -> None:
    store = world.watched(world.node("old"))
    relist = store.relist()
    page = relist.page(world.node_list([world.node("a")], "50", "next"))
    assert (page.resource_version, page.continue_token, page.items) == ("50", "next", 1)
    with pytest.raises(core.WireError):
        relist.page(b'{"items":[{"metadata":{"name":"half"}},{}]}')
    relist.page(world.node_list([world.node("b")], "50"))
    assert store.nodes().names == ["old"]
    relist.commit()
    assert sorted(store.nodes().names) == ["a", "b"]
    for again in (relist.commit, lambda: relist.page(world.node_list([]))):
        with pytest.raises(RuntimeError, match="this list is committed"):
            again()


def test_full_mode_recognises_what_it_has_seen_and_counts_it() -> None:
    store = core.RequestStore()
    body = world.full([world.node("a"), world.node("b")])
    core.read_args(body, store)
    core.read_args(body, store)
    stats = store.stats()
    assert (stats.nodes, stats.hits, stats.misses) == (2, 2, 2)
    assert 0 < stats.bytes <= len(body)


def test_a_store_of_one_kind_cannot_stand_for_the_other() -> None:
    watched, requests = world.watched(world.node("a", {"x": "1"})), core.RequestStore()
    body = world.full([world.node("a", {"x": "2"}), world.node("b")])
    core.read_args(body, requests, watched=watched)
    assert (watched.nodes().labels("x"), requests.nodes().labels("x")) == (["1"], ["2", None])
    for method in ("replace", "relist", "apply"):
        assert not hasattr(requests, method)
    for reader in (core.read_args, core.read_preemption_args):
        with pytest.raises(TypeError):
            reader(body, watched)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            reader(body, watched=requests)  # type: ignore[arg-type]


def test_names_are_looked_up_in_the_watched_store_before_the_other() -> None:
    request, watched = core.RequestStore(), world.watched(world.node("w"))
    core.read_args(world.full([world.node("r")]), request)
    body = world.names(["r", "w"])
    for stores, known in (
        (core.read_args(body, request, watched=watched), [False, True]),
        (core.read_args(body, request), [True, False]),
        (core.read_args(body), [False, False]),
    ):
        assert stores.nodes is not None
        assert list(stores.nodes.known) == known


def test_max_bytes_bounds_what_is_kept() -> None:
    store = core.RequestStore(max_bytes=2000)
    for i in range(100):
        core.read_args(world.full([world.node(f"n{i}", status={"filler": "x" * 300})]), store)
        assert store.stats().bytes <= 2000
    assert 1 <= len(store) < 10
    for wrong in (-1, 1 << 64):
        with pytest.raises(OverflowError):
            core.RequestStore(wrong)


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
