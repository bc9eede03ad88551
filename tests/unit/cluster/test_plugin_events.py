"""How the Events of plugins become calls of the Kubernetes API."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubextend.cluster import EventRecorder
from kubextend.framework.events import PluginEvent, Regarding
from kubextend.framework.informer import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster

SOON_S = 60.0


class Recorded:
    """An API that keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._came = threading.Condition()

    def request(self, call: Call) -> bytes:
        with self._came:
            self.calls.append(call)
            self._came.notify_all()
        return b"{}"

    def wait_for(self, number: int) -> list[Call]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.calls) >= number, SOON_S)
            return list(self.calls)


@pytest.fixture
def api() -> Recorded:
    return Recorded()


@dataclass
class Clock:
    """The time, as a test sets it."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(api: Recorded, clock: Clock) -> Iterator[EventRecorder]:
    made = EventRecorder(cast("Cluster", api), clock=clock)
    yield made
    made.stop()


def event(
    kind: str = "Pod", name: str = "web", namespace: str = "ml", uid: str = "u", note: str = "no"
) -> PluginEvent:
    regarding = Regarding("v1", kind, namespace, name, uid)
    return PluginEvent(Owner("P"), regarding, "Warning", "NoQuota", "Scheduling", note)


def bodies(calls: list[Call]) -> list[dict[str, Any]]:
    assert {call.method for call in calls} == {"POST"}
    return [cast("dict[str, Any]", call.body) for call in calls]


def test_an_event_says_what_the_plugin_said(api: Recorded, recorder: EventRecorder) -> None:
    recorder.record(event(note="é" * 1024))
    calls = api.wait_for(1)
    assert [call.path for call in calls] == ["/apis/events.k8s.io/v1/namespaces/ml/events"]
    (body,) = bodies(calls)
    assert (body["reason"], body["action"], body["type"]) == ("NoQuota", "Scheduling", "Warning")
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ml",
        "name": "web",
        "uid": "u",
    }
    assert len(body["note"].encode()) == 1024


def test_an_event_about_an_object_is_made_once_in_ten_minutes_with_the_first_note(
    api: Recorded, recorder: EventRecorder, clock: Clock
) -> None:
    for number, now_s in enumerate((0.0, 599.0, 600.0)):
        clock.now_s = now_s
        for note in ("first", "second"):
            recorder.record(event(note=f"{note} at {now_s:.0f} s"))
        # Sent in order: what is written last is sent after everything else.
        recorder.record(event(uid=f"mark-{number}", note=f"mark {number}"))
        made = bodies(api.wait_for((2, 3, 5)[number]))
    notes = ["first at 0 s", "mark 0", "mark 1", "first at 600 s", "mark 2"]
    assert [body["note"] for body in made] == notes


@pytest.mark.parametrize(
    "other",
    [
        {"owner": Owner("Q")},
        {"owner": Owner("P", "second profile")},
        {"type": "Normal"},
        {"reason": "Closed"},
        {"action": "Binding"},
    ],
)
def test_what_differs_by_more_than_its_note_is_an_event_of_its_own(
    api: Recorded, recorder: EventRecorder, other: dict[str, Any]
) -> None:
    recorder.record(event())
    recorder.record(replace(event(), **other))
    first, second = bodies(api.wait_for(2))
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_an_event_on_a_node_is_in_the_default_namespace(
    api: Recorded, recorder: EventRecorder
) -> None:
    recorder.record(event("Node", "n1", ""))
    (made,) = api.wait_for(1)
    assert made.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert "namespace" not in cast("dict[str, Any]", made.body)["regarding"]


@pytest.mark.parametrize("wrong", [{"name": "a/b"}, {"namespace": "../x"}, {"uid": ""}])
def test_an_event_on_what_no_url_names_is_dropped(
    api: Recorded, recorder: EventRecorder, wrong: dict[str, str]
) -> None:
    recorder.record(event(**wrong))
    assert recorder.stats.dropped == 1
    recorder.record(event())
    assert [call.method for call in api.wait_for(1)] == ["POST"]
