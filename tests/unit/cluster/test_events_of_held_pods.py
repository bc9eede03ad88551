"""An Event is within what the API server's validation takes.

Source of the limits: kubernetes v1.36 pkg/apis/core/validation/events.go
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubextend.cluster import EventRecorder
from kubextend.cluster import event_recorder as events_module
from kubextend.cluster.event_recorder import Note, event, set_aside, waiting_on_permit
from kubextend.core import Pod, PodStore
from kubextend.framework.events import Regarding

if TYPE_CHECKING:
    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster

PATIENCE_S = 30.0
NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2)))
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def pod(name: str, uid: str = "u") -> Pod:
    named = f'"name":"{name}","namespace":"ml","uid":"{uid}"'
    shown = b'{"metadata":{%b}}' % named.encode()
    return PodStore().apply(b'{"type":"ADDED","object":%b}' % shown).pod


def web(name: str = "web") -> Regarding:
    return Regarding.of(pod(name))


NOTES = {"held": waiting_on_permit("n1", ["Gang"]), "set aside": set_aside("too large")}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_an_event_has_all_that_the_api_asks_for(note: Note) -> None:
    made = event(web(), note, NOW)
    assert made["eventTime"] == "2026-01-02T01:04:05.000678Z"
    assert made["metadata"]["namespace"] == made["regarding"]["namespace"] == "ml"
    assert made["type"] in {"Normal", "Warning"}
    for required in ("reportingController", "reportingInstance", "action", "reason"):
        assert 0 < len(made[required]) <= 128


@pytest.mark.parametrize("name", ["web", "a" * 253, "a" * 237 + "-" * 15 + "a", "a.b-c"])
def test_its_name_is_a_name_whatever_the_pod_is_called(name: str) -> None:
    named = event(web(name), NOTES["held"], NOW)["metadata"]["name"]
    assert len(named) <= 253
    assert DNS_SUBDOMAIN.fullmatch(named)


def test_a_note_that_utf_8_cannot_encode_is_escaped() -> None:
    # A plugin may quote what json.loads made of an annotation.
    assert event(web(), set_aside("team \ud800"), NOW)["note"] == "team \\ud800"


def test_two_moments_make_two_names() -> None:
    later = NOW + timedelta(microseconds=1)
    names = {event(web(), NOTES["held"], at)["metadata"]["name"] for at in (NOW, later)}
    assert len(names) == 2
    same = event(web(), NOTES["held"], NOW.astimezone(UTC))
    assert event(web(), NOTES["held"], NOW) == same


@pytest.mark.parametrize("plugin", ["P", "\N{SNOWMAN}"])
def test_a_note_fits_however_many_plugins_there_are(plugin: str) -> None:
    held = waiting_on_permit("n1", [f"{plugin}{number}" for number in range(999)])
    note = event(web(), held, NOW)["note"]
    assert 1000 < len(note.encode()) <= 1024


def test_the_pod_that_was_told_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    class Api:
        def request(self, call: Call) -> bytes:
            body = cast("Any", call.body)
            told.append(body["regarding"]["uid"])
            return b"{}"

    def tell(*uids: str, sent: int) -> None:
        for uid in uids:
            recorder.waiting(pod("web", uid), "n1", ["Gang"])
        deadline = time.monotonic() + PATIENCE_S
        while recorder.stats.sent < sent:
            assert time.monotonic() < deadline, "did not come to hold in time"
            time.sleep(0.002)

    monkeypatch.setattr(events_module, "MOST_REMEMBERED", 2)
    recorder = EventRecorder(cast("Cluster", Api()), clock=lambda: 0.0)
    tell("a", "b", "c", sent=3)
    tell("c", "b", "a", sent=4)
    recorder.stop()
    assert told == ["a", "b", "c", "a"]
