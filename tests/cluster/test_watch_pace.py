"""How often kubextend asks an API that fails for its nodes."""

from email.utils import formatdate
from typing import Any

import pytest
from tests.doors.kube_api import Follower, ScriptedApi, SkippingTime
from tests.doors.scripted_requests import Fault, erring_event, garbled, lost_request, refusing

ADDED = b'{"type":"ADDED","object":{"metadata":{"name":"one","resourceVersion":"7"}}}\n'
TWO = {"kind": "Node", "metadata": {"name": "two", "resourceVersion": "101"}}


AWAY = refusing(503, "ServiceUnavailable")
BUSY = refusing(429, "TooManyRequests", Retry_After="5")
BROKEN = refusing(500, "InternalError")
FORBIDDEN = refusing(403, "Forbidden")
UNKNOWN = refusing(404, "NotFound")
OVERLOADED = erring_event(503)
GONE = refusing(410, "Expired")
END = b'{"annotations":{"k8s.io/initial-events-end":"true"}}'
NO_VERSION = b'{"type":"BOOKMARK","object":{"metadata":%b}}\n' % END


@pytest.mark.parametrize(
    ("faults", "pauses"),
    [
        pytest.param([lost_request] * 6, [0.5, 1, 2, 3, 3, 3], id="no answer"),
        pytest.param([AWAY] * 6, [0.5, 1, 2, 3, 3, 3], id="a gateway with nothing behind it"),
        pytest.param([BROKEN] * 8, [0.5, 1, 2, 4, 8, 16, 30, 30], id="server errors"),
        pytest.param([UNKNOWN] * 8, [0.5, 1, 2, 4, 8, 16, 30, 30], id="not served"),
        pytest.param([BUSY] * 5, [5, 5, 5, 5, 8], id="Retry-After"),
        pytest.param(
            [lost_request] * 5 + [FORBIDDEN] * 2, [0.5, 1, 2, 3, 3, 0.5, 1], id="away, starting up"
        ),
        pytest.param([garbled(b"<html></html>\n")] * 2, [0.5, 1], id="no events"),
        pytest.param([garbled(ADDED)] * 2, [0.5, 1], id="a list that is not whole"),
        pytest.param([garbled(NO_VERSION)] * 2, [0.5, 1], id="a list without a version"),
    ],
)
def test_an_api_that_fails_is_asked_ever_more_rarely_and_soon_enough_when_it_comes_back(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime, faults: list[Fault], pauses: list[float]
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
        pytest.param([lost_request] * 3, [0, 0.5, 1, 2], 1, id="no answer"),
        pytest.param([FORBIDDEN] * 4, [0, 0.5, 1, 2, 4], 1, id="forbidden"),
        pytest.param([OVERLOADED, erring_event(403)] * 2, [0, 0.5, 1, 2, 4], 1, id="as events"),
        pytest.param([BUSY] * 4, [0, 5, 5, 5, 5], 1, id="Retry-After"),
        # The API may be unable to go on from the version: each third error starts afresh.
        pytest.param([BROKEN] * 6, [0, 0.5, 1, 2, 0, 4, 8, 16, 0], 3, id="server errors"),
        pytest.param([erring_event(500)] * 6, [0, 0.5, 1, 2, 0, 4, 8, 16, 0], 3, id="error events"),
        pytest.param([UNKNOWN] * 3, [0, 0.5, 0, 1, 0, 2, 0], 4, id="not served"),
        pytest.param([GONE] * 4, [0, 0, 0, 0.5, 0, 1, 0, 2, 0], 5, id="gone"),
        pytest.param([erring_event(500, TWO)] * 4, [0, *[0.5] * 4], 1, id="after an event"),
        pytest.param([garbled(b'{"type":"ADDED"\n')] * 2, [0, 0.5, 0, 1, 0], 3, id="half of one"),
        pytest.param([garbled(b"[]\n")], [0, 0.5, 0], 2, id="no event"),
    ],
)
def test_a_watch_that_fails_is_opened_again_ever_more_rarely(
    api: ScriptedApi, nodes: Follower, clock: SkippingTime, faults: Any, pauses: Any, lists: int
) -> None:
    api.put_node("one")
    api.fail("watch", *faults)
    nodes.start()
    clock.until(lambda: len(api.pauses("list", "watch")) >= len(pauses))
    clock.settle()
    assert api.pauses("list", "watch")[: len(pauses)] == pauses
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
    api.fail("watch", *[erring_event(410, TWO)] * 10_000)
    api.end_watches()
    clock.pass_s(3600)
    assert len(api.paths("watch")) < 140
    assert len(api.paths("list")) < 140
    assert known.synced
