"""How kubextend follows the nodes of an API: what it knows, and how often it asks."""

import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.doors.kube_api import Follower, ScriptedApi, SkippingTime, write_kubeconfig
from tests.doors.scripted_requests import Request, erring_event, lost_request, refusing


def version_of(path: str) -> str:
    return parse_qs(urlsplit(path).query)["resourceVersion"][0]


def test_all_nodes_are_known_once_the_list_is_whole_and_then_each_change(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime
) -> None:
    for number in range(1203):
        api.put_node(f"node-{number}", zone="a")
    assert (nodes.synced, nodes.age_s, nodes.names()) == (False, None, [])
    nodes.start()
    clock.until(lambda: nodes.synced)
    assert len(nodes.names()) == 1203
    clock.settle()
    api.put_node("new", zone="b")
    api.put_node("node-0", zone="c")
    api.delete_node("node-1")
    clock.settle()
    zones = nodes.labels("zone")
    assert (len(zones), zones["new"], zones["node-0"]) == (1203, "b", "c")
    assert "node-1" not in zones
    assert api.counts["list"] == 1


def test_a_quiet_cluster_costs_a_watch_a_minute_and_its_age_stays_below_one(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    query = parse_qs(urlsplit(api.paths("watch")[0]).query)
    assert query["allowWatchBookmarks"] == ["true"]
    assert query["resourceVersion"] == [str(api.version)]
    # It ends before the connection counts as broken.
    assert 40 <= int(query["timeoutSeconds"][0]) <= 50
    for _ in range(60):
        clock.pass_s(60)
        assert (known.age_s or 0.0) < 60
    assert api.counts["list"] == 1
    assert 60 <= api.counts["watch"] <= 90


def test_a_burst_of_changes_is_told_a_few_times_and_after_the_store_has_it(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    for counted in (1, 300):
        told = len(known.changes)
        for number in range(counted):
            api.put_node(f"node-{number:03}", zone="a")
        clock.pass_s(1)
        assert known.changes[-1] == known.names()
        assert len(known.names()) == counted + 1
        assert told < len(known.changes) <= told + 51


def test_deleted_nodes_and_lists_are_told_and_who_fails_to_hear_stops_no_watch(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime
) -> None:
    for name in ("a", "b", "c"):
        api.put_node(name)
    nodes.start()
    clock.until(lambda: nodes.synced)
    nodes.fails = True
    api.delete_node("a")
    api.delete_node("b")
    api.put_node("b")
    api.delete_node("c")
    clock.pass_s(1)
    assert nodes.told == ["listed a b c", "deleted a", "deleted b", "deleted c"]
    assert nodes.names() == ["b"]


def test_an_ended_watch_goes_on_from_the_last_bookmark_without_a_list(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.bookmark()
    clock.settle()
    marked = api.version
    api.compact()
    api.oldest = marked
    api.end_watches()
    clock.pass_s(1)
    assert version_of(api.paths("watch")[-1]) == str(marked)
    api.put_node("two", zone="b")
    clock.settle()
    assert known.names() == ["one", "two"]
    assert api.counts["list"] == 1


def test_watches_that_end_at_once_cost_one_request_a_second_and_lose_nothing(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    for number in range(20):
        api.put_node(f"node-{number}", zone="a")
        api.end_watches()
        clock.pass_s(1)
    assert len(known.names()) == 21
    assert api.counts["list"] == 1
    assert min(api.pauses("watch")) >= 1


@pytest.mark.parametrize("code", [400, 410])
@pytest.mark.parametrize("as_event", [False, True])
def test_a_version_that_is_too_old_leads_to_a_new_list_without_ghosts(
    api: ScriptedApi, known: Follower, clock: SkippingTime, code: int, as_event: bool
) -> None:
    fault = erring_event(code) if as_event else refusing(code, "Expired", "too old")
    api.put_node("ghost", zone="a")
    clock.settle()
    api.fail("watch", fault, fault)
    with api.changed:
        api.delete_node("ghost")
        api.put_node("new", zone="b")
        api.compact()
        api.end_watches()
    clock.pass_s(5)
    assert known.names() == known.changes[-1] == ["new", "one"]
    assert known.synced
    # The version that was refused is not asked for again.
    versions = [version_of(path) for path in api.paths("watch")]
    assert len(versions) == 4
    assert versions[1] not in versions[2:]
    assert api.counts["list"] == 3


def test_readers_see_the_old_nodes_until_the_new_list_is_whole(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime
) -> None:
    for number in range(600):
        api.put_node(f"node-{number}", zone="a")
    nodes.start()
    clock.until(lambda: nodes.synced)
    go_on = threading.Event()

    def slow(request: Request) -> bool:
        request.open_watch()
        for each in api.listed("nodes"):
            request.event("ADDED", each)
        go_on.wait()
        # Meanwhile, the API has seen another change.
        request.event("DELETED", api.nodes.pop("new"))
        request.mark(api.version, is_end_of_list=True)
        request.cut()
        return True

    api.fail("list", slow)
    with api.changed:
        for number in range(300):
            api.delete_node(f"node-{number}")
        api.put_node("new", zone="a")
        api.put_node("node-300", zone="b")
        api.compact()
        api.end_watches()
    clock.pass_s(5)
    assert (nodes.synced, len(nodes.names())) == (True, 601)
    assert nodes.labels("zone")["node-300"] == "b"
    go_on.set()
    clock.until(lambda: "node-0" not in nodes.names())
    assert nodes.names() == sorted(api.nodes)
    assert len(nodes.names()) == 300


def test_an_api_that_was_set_back_and_sends_nothing_is_listed_again(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.silent = True
    del api.nodes["one"]
    # Three watches of 50 s.
    clock.pass_s(160)
    assert api.counts["list"] == 2
    assert known.names() == []


def test_a_connection_that_falls_silent_is_given_up_within_a_minute_and_nothing_is_missed(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.watch_s, api.silent = 1e6, True
    api.end_watches()
    clock.pass_s(2)
    api.put_node("two", zone="b")
    api.delete_node("one")
    watches = api.counts["watch"]
    clock.pass_s(50)
    assert (known.names(), api.counts["watch"]) == (["one"], watches)
    api.silent = False
    clock.pass_s(10)
    assert known.names() == ["two"]
    assert api.counts["list"] == 1


def test_events_come_whole_wherever_the_network_cuts_them(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime
) -> None:
    def in_pieces(request: Request) -> bool:
        request.open_watch()
        line = b'{"type":"ADDED","object":{"metadata":{"name":"%d","resourceVersion":"200"}}}\n\n'
        whole = b"".join(line % number for number in range(40))
        while whole:
            size = (1, 2, 3, 5, 8, 80, 200)[len(whole) % 7]
            request.chunk(whole[:size])
            whole = whole[size:]
        # The last event is cut off with its connection, and comes whole the next time.
        request.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
        request.cut()
        return True

    api.fail("watch", in_pieces)
    nodes.start()
    clock.until(lambda: nodes.count("events") == 40)
    assert nodes.names() == sorted(str(number) for number in range(40))
    api.version = 200
    api.put_node("half", zone="a")
    clock.pass_s(1)
    assert "half" in nodes.names()
    assert api.counts["list"] == 1


def test_an_api_that_is_down_at_the_start_is_followed_once_it_is_there(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    api.down()
    api.put_node("one", zone="a")
    nodes.start()
    clock.pass_s(600)
    assert not nodes.synced
    assert "refused" in nodes.error
    (said,) = caplog.messages
    assert said == f"nodes cannot be followed, trying again: {nodes.error} (0 kept)"
    api.up()
    clock.pass_s(3)
    assert (nodes.synced, nodes.names()) == (True, ["one"])
    clock.pass_s(60)
    assert nodes.error == ""


def test_an_api_that_goes_away_leaves_the_nodes_and_the_watch_goes_on_later(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.down()
    clock.pass_s(60)
    assert known.error != ""
    assert (known.synced, known.names()) == (True, ["one"])
    assert 59 <= (known.age_s or 0.0) <= 61
    api.put_node("two", zone="b")
    api.up()
    clock.pass_s(3)
    assert (known.names(), known.error) == (["one", "two"], "")
    assert api.counts["list"] == 1


@pytest.mark.parametrize(
    ("faults", "warnings"),
    [
        pytest.param([lost_request], 0, id="a hiccup"),
        pytest.param([lost_request] * 3, 1, id="an outage"),
        pytest.param([refusing(410, "Expired")], 0, id="a compaction"),
        pytest.param([refusing(410, "Expired")] * 5, 1, id="gone for long"),
        pytest.param([erring_event(500)] * 12, 1, id="errors for long"),
    ],
)
def test_an_outage_is_said_once_and_a_hiccup_not_at_all(
    api: ScriptedApi, known: Follower, clock: SkippingTime, caplog: Any, faults: Any, warnings: int
) -> None:
    caplog.set_level("INFO")
    api.fail("watch", *faults)
    api.end_watches()
    clock.pass_s(600)
    assert known.error == ""
    assert [record.levelname for record in caplog.records].count("WARNING") == warnings
    assert caplog.text.count("nodes are followed again after") == warnings


def test_a_watch_that_opens_and_brings_an_error_is_no_word_of_the_api(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.fail("watch", *[erring_event(503)] * 100)
    api.end_watches()
    clock.pass_s(20)
    assert (known.age_s or 0.0) >= 20
    assert "GET" in known.error or "WATCH" in known.error


def test_after_a_401_the_credentials_are_read_again(
    api: ScriptedApi, known: Follower, clock: SkippingTime, kubeconfig: Path
) -> None:
    api.token = "the-next-token"
    write_kubeconfig(kubeconfig, api.url, "the-next-token")
    api.end_watches()
    clock.pass_s(5)
    api.put_node("two", zone="a")
    clock.settle()
    assert (known.names(), known.error) == (["one", "two"], "")


def test_a_stop_ends_an_open_watch_at_once_and_keeps_the_nodes(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    began_s = clock.now_s
    known.stop()
    assert clock.now_s == began_s
    watches = api.counts["watch"]
    clock.pass_s(600)
    assert known.names() == ["one"]
    assert api.counts["watch"] == watches
