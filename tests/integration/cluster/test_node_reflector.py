from __future__ import annotations

import json
import logging
from queue import SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from cluster_world import PATIENCE_S, write_kubeconfig
from cluster_world import eventually as until
from scripted_api import Request, ScriptedApi, gone_event, refusing

from kubextend.cluster import reflector as reflector_module
from kubextend.cluster.api_call import Call, TooLongError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubextend.cluster import Reflector
    from kubextend.cluster.client import Cluster


def names(reflector: Reflector) -> list[str]:
    return sorted(reflector.store.nodes().names)


def zones(reflector: Reflector) -> dict[str, str | None]:
    nodes = reflector.store.nodes()
    return dict(zip(nodes.names, nodes.labels("zone"), strict=True))


def started(reflector: Reflector) -> None:
    reflector.start()
    until(lambda: reflector.synced)


def test_every_page_of_a_list_is_taken_in_before_it_is_synced(
    api: ScriptedApi, reflector: Reflector
) -> None:
    for number in range(1203):
        api.put_node(f"node-{number}", zone="a")
    assert not reflector.synced
    assert reflector.age_s() is None
    started(reflector)
    assert len(reflector.store) == 1203
    lists = [path for kind, path, _, _ in api.requests if kind == "list"]
    assert ["continue" in path for path in lists] == [False, True, True]
    assert all("limit=500" in path for path in lists)
    assert reflector.stats.lists == 1


def test_a_list_of_large_objects_comes_in_pages_of_bounded_length(
    api: ScriptedApi, reflector: Reflector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_module, "MOST_PAGE_BYTES", 100_000)
    for number in range(40):
        api.put_node(f"node-{number:02}", note="x" * 10_000)
    started(reflector)
    assert len(reflector.store) == 40
    lists = [path for kind, path, _, _ in api.requests if kind == "list"]
    # 500, 62 and then 7 at a time.
    assert ["limit=500" in path for path in lists] == [True] + [False] * 7
    assert ["limit=62" in path for path in lists] == [False, True] + [False] * 6
    assert all("limit=7" in path for path in lists[2:])
    assert ["continue" in path for path in lists] == [False] * 3 + [True] * 5
    assert reflector.stats.failures == 0


def test_a_single_object_that_is_too_long_is_said_and_not_asked_for_without_a_pause(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector_module, "MOST_PAGE_BYTES", 1000)
    api.put_node("node", note="x" * 10_000)
    reflector.start()
    eventually(lambda: "longer than 1000 bytes" in (reflector.last_error or ""))
    assert not reflector.synced
    assert reflector.stats.failures >= 1
    # No limit, or one of 0, would ask for everything.
    paths = [path for kind, path, _, _ in api.requests if kind == "list"]
    limits = [parse_qs(urlsplit(path).query)["limit"] for path in paths]
    assert limits[:3] == [["500"], ["62"], ["7"]]
    assert {*map(tuple, limits[3:])} == {("1",)}


def test_an_answer_that_is_too_long_is_not_read_to_its_end(
    api: ScriptedApi, cluster: Cluster
) -> None:
    piece, pieces = b" " * 1_000_000, 64
    sent: SimpleQueue[int] = SimpleQueue()

    def long(request: Request) -> bool:
        request.open_watch()
        for number in range(pieces):
            try:
                request.chunk(piece)
            except OSError:
                sent.put(number)
                break
        else:
            sent.put(pieces)
            request.end_watch()
        request.cut()
        return True

    api.fail("list", long)
    with pytest.raises(TooLongError):
        cluster.request(Call("GET", "/api/v1/nodes", PATIENCE_S, {}, most_bytes=100_000))
    # What is on its way when the connection is closed fits the buffers of two sockets.
    assert sent.get(timeout=PATIENCE_S) < pieces / 2


def test_added_changed_and_deleted_nodes_arrive(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    api.put_node("one", zone="a")
    started(reflector)
    api.put_node("two", zone="b")
    eventually(lambda: names(reflector) == ["one", "two"])
    api.put_node("one", zone="c")
    eventually(lambda: zones(reflector) == {"one": "c", "two": "b"})
    api.delete_node("two")
    eventually(lambda: names(reflector) == ["one"])
    assert api.counts["list"] == 1


def test_the_watch_asks_for_bookmarks_and_an_end_before_the_silence_limit(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    started(reflector)
    eventually(lambda: api.counts["watch"] == 1)
    path = next(path for kind, path, _, _ in api.requests if kind == "watch")
    assert "allowWatchBookmarks=true" in path
    assert f"resourceVersion={api.version}" in path
    asked_s = int(path.split("timeoutSeconds=")[1])
    assert 40 <= asked_s < reflector_module.WATCH_SILENCE_S


def test_changes_are_told_after_the_store_has_them(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    known: list[int] = []
    reflector._changes._tell = lambda: known.append(len(reflector.store))
    started(reflector)
    for number in range(300):
        api.put_node(f"node-{number}", zone="a")
    eventually(lambda: known and known[-1] == 300)


def test_a_failing_listener_does_not_stop_the_watch(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError

    reflector._changes._tell = fail
    started(reflector)
    api.put_node("one", zone="a")
    eventually(lambda: names(reflector) == ["one"])
    eventually(lambda: "the callback for a change failed" in caplog.text)


def test_an_ended_watch_resumes_from_the_last_bookmark_without_a_list(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    api.put_node("one", zone="a")
    started(reflector)
    api.bookmark()
    eventually(lambda: reflector.stats.events == 1)
    marked = api.version
    api.compact()
    api.oldest = marked
    api.end_watches()
    eventually(lambda: api.counts["watch"] == 2)
    assert f"resourceVersion={marked}" in api.requests[-1][1]
    api.put_node("two", zone="b")
    eventually(lambda: names(reflector) == ["one", "two"])
    assert api.counts["list"] == 1


@pytest.mark.parametrize(
    "fault", [refusing(410, "Expired", "too old"), gone_event], ids=["status", "event"]
)
def test_410_twice_in_a_row_lists_anew_with_no_ghost(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    fault: Callable[[Request], bool],
) -> None:
    api.put_node("ghost", zone="a")
    api.put_node("stays", zone="a")
    started(reflector)
    eventually(lambda: api.counts["watch"] == 1)
    api.fail("watch", fault, fault)
    with api.changed:
        api.delete_node("ghost")
        api.put_node("new", zone="b")
        api.compact()
        api.end_watches()
    eventually(lambda: names(reflector) == ["new", "stays"])
    eventually(lambda: api.counts["watch"] >= 4)
    api.put_node("later", zone="b")
    eventually(lambda: names(reflector) == ["later", "new", "stays"])
    assert api.counts["list"] <= 3
    assert reflector.synced


def test_a_reader_sees_the_old_nodes_until_the_new_list_is_whole(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    for number in range(600):
        api.put_node(f"old-{number}", zone="a")
    started(reflector)
    seen: set[int] = set()

    def slow(request: Request) -> bool:
        seen.add(len(names(reflector)))
        return bool(request.query.get("refuse"))

    eventually(lambda: api.counts["watch"] == 1)
    api.fail("list", slow, slow)
    with api.changed:
        for number in range(300):
            api.delete_node(f"old-{number}")
            api.put_node(f"more-{number}", zone="a")
        api.put_node("new", zone="a")
        api.compact()
        api.end_watches()
    eventually(lambda: "new" in reflector.store)
    assert seen == {600}
    assert len(reflector.store) == 601


def test_a_page_that_expires_restarts_the_list(api: ScriptedApi, reflector: Reflector) -> None:
    for number in range(700):
        api.put_node(f"node-{number}", zone="a")

    def expire(request: Request) -> bool:
        del api.nodes["node-0"]
        return refusing(410, "Expired", "The provided continue parameter is too old")(request)

    api.fail("list", lambda _: False, expire)
    started(reflector)
    assert len(reflector.store) == 699
    assert "node-0" not in reflector.store


def test_a_list_whose_pages_expire_twice_comes_in_one_piece(
    api: ScriptedApi, reflector: Reflector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(700):
        api.put_node(f"node-{number}", zone="a")
    # A page keeps to the bound, and the whole list is beyond it.
    whole_bytes = len(json.dumps(api.listed("nodes")))
    monkeypatch.setattr(reflector_module, "MOST_PAGE_BYTES", whole_bytes - 1000)
    expired = refusing(410, "Expired", "The provided continue parameter is too old")
    api.fail("list", lambda _: False, expired, lambda _: False, expired)
    started(reflector)
    assert len(reflector.store) == 700
    assert "limit" not in [path for kind, path, _, _ in api.requests if kind == "list"][-1]


def test_watches_that_end_again_and_again_cost_no_list_and_lose_nothing(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector_module, "MIN_WATCH_S", 0.01)
    started(reflector)
    for number in range(20):
        api.put_node(f"node-{number}", zone="a")
        watches = api.counts["watch"]
        api.end_watches()
        eventually(lambda watches=watches: api.counts["watch"] > watches)
    eventually(lambda: len(reflector.store) == 20)
    assert api.counts["list"] == 1


@pytest.mark.parametrize(
    ("kind", "fault", "least_s"),
    [
        (kind, fault, least_s)
        for kind in ("list", "watch")
        for fault, least_s in (
            (refusing(429, "TooManyRequests", Retry_After="1"), 1.0),
            (refusing(503, "ServiceUnavailable", Retry_After="1"), 1.0),
            (refusing(500, "InternalError"), 0.0),
            (refusing(403, "Forbidden"), 0.0),
        )
    ],
)
def test_a_refusal_is_waited_out_as_long_as_it_asks(
    api: ScriptedApi,
    reflector: Reflector,
    kind: str,
    fault: Callable[[Request], bool],
    least_s: float,
) -> None:
    api.fail(kind, fault)
    api.put_node("one", zone="a")
    started(reflector)
    until(lambda: api.counts[kind] >= 2)
    first, second = [at for called, at in api.times if called == kind][:2]
    assert second - first >= least_s
    assert names(reflector) == ["one"]


def test_after_a_401_the_credentials_are_read_again(
    api: ScriptedApi, reflector: Reflector, kubeconfig: Path, eventually: Callable[..., None]
) -> None:
    api.token = "a-token"
    started(reflector)
    eventually(lambda: api.counts["watch"] == 1)
    api.token = "the-next-token"
    write_kubeconfig(kubeconfig, api.url, "the-next-token")
    api.end_watches()
    eventually(lambda: api.counts["watch"] == 3)
    api.put_node("one", zone="a")
    eventually(lambda: names(reflector) == ["one"])
    assert reflector.last_error is None


def test_a_silent_connection_is_given_up_and_nothing_is_missed(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector_module, "WATCH_SILENCE_S", 0.4)
    api.put_node("one", zone="a")
    started(reflector)
    eventually(lambda: api.counts["watch"])
    api.silent = True
    api.put_node("two", zone="b")
    api.delete_node("one")
    watches = api.counts["watch"]
    eventually(lambda: api.counts["watch"] > watches)
    assert names(reflector) == ["one"]
    api.silent = False
    eventually(lambda: names(reflector) == ["two"])
    assert api.counts["list"] == 1


def test_an_api_that_is_down_at_the_start_is_followed_once_it_is_there(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.down()
    api.put_node("one", zone="a")
    with caplog.at_level(logging.INFO):
        reflector.start()
        eventually(lambda: reflector.stats.failures >= 2)
        assert not reflector.synced
        assert reflector.last_error is not None
        assert "refused" in reflector.last_error
        api.up()
        until(lambda: reflector.synced)
    assert names(reflector) == ["one"]
    levels = [record.levelname for record in caplog.records if "nodes" in record.getMessage()]
    assert levels.count("WARNING") == 1


def test_an_api_that_goes_away_leaves_the_nodes_and_is_resumed(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    api.put_node("one", zone="a")
    started(reflector)
    eventually(lambda: api.counts["watch"] == 1)
    api.down()
    eventually(lambda: reflector.stats.failures >= 2)
    assert reflector.last_error is not None
    assert reflector.synced
    assert names(reflector) == ["one"]
    api.put_node("two", zone="b")
    api.up()
    eventually(lambda: names(reflector) == ["one", "two"])
    assert reflector.last_error is None
    assert api.counts["list"] == 1


def test_an_event_cut_off_by_a_broken_connection_is_taken_whole_the_next_time(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None]
) -> None:
    def half(request: Request) -> bool:
        request.open_watch()
        request.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
        request.cut()
        return True

    api.fail("watch", half)
    started(reflector)
    api.put_node("half", zone="a")
    eventually(lambda: names(reflector) == ["half"])
    assert api.counts["list"] == 1


@pytest.mark.parametrize("line", [b"not json\n", b'{"type":"ADDED"\n', b"[]\n"])
def test_an_event_that_cannot_be_read_leads_to_a_new_list(
    api: ScriptedApi, reflector: Reflector, eventually: Callable[..., None], line: bytes
) -> None:
    def garble(request: Request) -> bool:
        request.open_watch()
        request.chunk(line)
        request.end_watch()
        return True

    api.put_node("one", zone="a")
    api.fail("watch", garble)
    started(reflector)
    eventually(lambda: api.counts["list"] == 2)
    api.put_node("two", zone="a")
    eventually(lambda: names(reflector) == ["one", "two"])


def test_a_list_that_cannot_be_read_keeps_the_store_and_is_asked_for_again(
    api: ScriptedApi, reflector: Reflector
) -> None:
    def html(request: Request) -> bool:
        request.send_response(200)
        request.send_header("Content-Length", "13")
        request.end_headers()
        request.wfile.write(b"<html></html>")
        return True

    api.put_node("one", zone="a")
    api.fail("list", html)
    started(reflector)
    assert names(reflector) == ["one"]
    assert reflector.stats.failures == 1


def test_a_panic_of_the_store_does_not_end_the_thread(
    api: ScriptedApi, reflector: Reflector, caplog: pytest.LogCaptureFixture
) -> None:
    class PanicError(BaseException):
        pass

    class Panicking:
        def __init__(self) -> None:
            self.left = 1

        def relist(self) -> object:
            if self.left:
                self.left -= 1
                raise PanicError
            return store.relist()

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def __len__(self) -> int:
            return len(store)

    store = reflector._store
    reflector._store = Panicking()  # type: ignore[assignment]
    api.put_node("one", zone="a")
    started(reflector)
    assert "failed unexpectedly" in caplog.text


def test_stop_ends_an_open_watch_at_once(
    api: ScriptedApi,
    reflector: Reflector,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The watch lasts longer: a thread that has ended by then was made to.
    monkeypatch.setattr(reflector_module, "JOIN_S", reflector_module.WATCH_S[0] - 5)
    started(reflector)
    eventually(lambda: reflector._stream is not None)
    api.put_node("one", zone="a")
    eventually(lambda: names(reflector) == ["one"])
    reflector.stop()
    assert not reflector._thread.is_alive()
    assert names(reflector) == ["one"]
