"""How the Events of plugins become calls of the Kubernetes API."""

from __future__ import annotations

import threading
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


@pytest.fixture
def recorder(api: Recorded) -> Iterator[EventRecorder]:
    made = EventRecorder(cast("Cluster", api))
    yield made
    made.stop()


def event(
    kind: str = "Pod", name: str = "web", namespace: str = "ml", uid: str = "u"
) -> PluginEvent:
    regarding = Regarding("v1", kind, namespace, name, uid)
    note = "é" * 1024
    return PluginEvent(Owner("P"), regarding, "Warning", "NoQuota", "Scheduling", note)


def test_an_event_is_made_and_its_repetitions_are_counted_in_it(
    api: Recorded, recorder: EventRecorder
) -> None:
    for _ in range(3):
        recorder.record(event())
    made, *counted = api.wait_for(3)
    body = cast("dict[str, Any]", made.body)
    path = "/apis/events.k8s.io/v1/namespaces/ml/events"
    assert (made.method, made.path) == ("POST", path)
    assert (body["reason"], body["action"], body["type"]) == ("NoQuota", "Scheduling", "Warning")
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ml",
        "name": "web",
        "uid": "u",
    }
    assert len(body["note"].encode()) == 1024
    for number, call in enumerate(counted, 2):
        name = body["metadata"]["name"]
        assert (call.method, call.path) == ("PATCH", f"{path}/{name}")
        assert call.content_type == "application/strategic-merge-patch+json"
        assert cast("dict[str, Any]", call.body)["series"]["count"] == number


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
