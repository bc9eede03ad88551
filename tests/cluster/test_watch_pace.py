"""How often kubextend asks an API that fails for its nodes."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from tests.doors.kube_api import erring_event, garbled, lost_request, refusing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.doors.kube_api import Follower, Request, ScriptedApi, SkippingTime

    Fault = Callable[[Request], bool]

ASKED = ("list", "watch")


def node(name: str, version: int) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "resourceVersion": str(version)}}


AWAY = refusing(503, "ServiceUnavailable")
BUSY = refusing(429, "TooManyRequests", Retry_After="5")
BROKEN = refusing(500, "InternalError")
FORBIDDEN = refusing(403, "Forbidden")
UNKNOWN = refusing(404, "NotFound")


@pytest.mark.parametrize(
    ("faults", "pauses"),
    [
        ([lost_request] * 6, [0.5, 1, 2, 3, 3, 3]),
        ([AWAY] * 6, [0.5, 1, 2, 3, 3, 3]),
        ([BROKEN] * 9, [0.5, 1, 2, 4, 8, 16, 30, 30, 30]),
        ([UNKNOWN] * 8, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        ([BUSY] * 5, [5, 5, 5, 5, 8]),
        ([lost_request] * 5 + [FORBIDDEN] * 2, [0.5, 1, 2, 3, 3, 0.5, 1]),
        ([garbled(b"<html></html>")] * 2, [0.5, 1]),
        ([garbled(b'{"kind":"NodeList","metadata":{},"items":[]}')] * 2, [0.5, 1]),
    ],
    ids=[
        "no answer",
        "a gateway with nothing behind it",
        "server errors",
        "not served",
        "Retry-After",
        "away, then starting up",
        "not a list",
        "a list without a version",
    ],
)
def test_an_api_that_fails_is_asked_ever_more_rarely_and_soon_enough_when_it_comes_back(
    api: ScriptedApi,
    nodes: Follower,
    clock: SkippingTime,
    faults: list[Fault],
    pauses: list[float],
) -> None:
    api.put_node("one")
    api.fail("list", *faults)
    nodes.start()
    clock.until(lambda: nodes.synced)
    assert api.pauses("list") == pauses
    clock.settle()
    assert nodes.names() == ["one"]
    assert nodes.count("failures") == len(faults)


@pytest.mark.parametrize(
    ("faults", "pauses", "lists"),
    [
        ([lost_request, lost_request, lost_request], [0, 0.5, 1, 2], 1),
        ([FORBIDDEN, FORBIDDEN], [0, 0.5, 1], 1),
        ([erring_event(403), erring_event(503)], [0, 0.5, 1], 1),
        ([BUSY, BUSY], [0, 5, 5], 1),
        # The API may be unable to go on from the version: after three errors, all is listed.
        ([BROKEN] * 5, [0, 0.5, 1, 2, 0, 4, 0, 8, 0], 4),
        ([erring_event(500)] * 5, [0, 0.5, 1, 2, 0, 4, 0, 8, 0], 4),
        ([UNKNOWN] * 3, [0, 0.5, 0, 1, 0, 2, 0], 4),
        ([refusing(410, "Expired")] * 4, [0, 0, 0, 0.5, 0, 1, 0, 2, 0], 5),
        ([erring_event(500, node("two", 101))] * 5, [0, 0.5, 0.5, 0.5, 0.5, 0.5], 1),
        ([garbled(b'{"type":"ADDED"\n')] * 2, [0, 0.5, 0, 0.5, 0], 3),
        ([garbled(b"[]\n")], [0, 0.5, 0], 2),
    ],
    ids=[
        "no answer",
        "forbidden",
        "errors that pass, as events",
        "Retry-After",
        "server errors",
        "server errors, as events",
        "not served",
        "gone",
        "an error after an event",
        "half an event",
        "no event",
    ],
)
def test_a_watch_that_fails_is_opened_again_ever_more_rarely(
    api: ScriptedApi,
    nodes: Follower,
    clock: SkippingTime,
    faults: list[Fault],
    pauses: list[float],
    lists: int,
) -> None:
    api.put_node("one")
    api.fail("watch", *faults)
    nodes.start()
    clock.until(lambda: len(api.pauses(*ASKED)) >= len(pauses))
    clock.settle()
    assert api.pauses(*ASKED)[: len(pauses)] == pauses
    assert api.counts["list"] == lists
    api.put_node("later")
    clock.settle()
    assert {"one", "later"} <= {*nodes.names()}
    assert nodes.error == ""


@pytest.mark.parametrize(
    ("asked", "pause_s"),
    [
        ("7", 7.0),
        ("86400", 120.0),
        ("-1", 0.5),
        ("1.5", 0.5),
        ("soon", 0.5),
        (formatdate(0.0, usegmt=True), 0.5),
        (formatdate(4e9, usegmt=True), 120.0),
    ],
)
def test_a_pause_that_the_api_asks_for_is_kept_in_both_forms_up_to_two_minutes(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime, asked: str, pause_s: float
) -> None:
    api.fail("list", refusing(429, "TooManyRequests", Retry_After=asked))
    nodes.start()
    clock.until(lambda: nodes.synced)
    assert api.pauses("list") == [pause_s]


def test_errors_for_an_hour_cost_two_requests_a_minute_each(
    api: ScriptedApi, known: Follower, clock: SkippingTime
) -> None:
    api.fail("watch", *[erring_event(410, node("two", 101))] * 10_000)
    api.end_watches()
    clock.pass_s(3600)
    assert len(api.paths("watch")) < 140
    assert len(api.paths("list")) < 140
    assert known.synced


@pytest.mark.parametrize("code", [403, 429, 503, 504])
def test_an_overload_or_a_missing_right_never_leads_to_a_list(
    api: ScriptedApi, known: Follower, clock: SkippingTime, code: int
) -> None:
    api.fail("watch", *[refusing(code, "no"), erring_event(code)] * 20)
    api.end_watches()
    clock.pass_s(900)
    assert known.synced
    assert api.counts["list"] == 1
