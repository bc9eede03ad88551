from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from cluster_world import Clock, Held, unlabelled
from scripted_api import Request, ScriptedApi, lost_request, refusing

from kubextend.cluster import EventRecorder, list_set_aside
from kubextend.cluster.write_queue import WriteStats
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod


@dataclass
class Waiting:
    """What the recorder reads of a pod."""

    name: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


@pytest.fixture
def recorder(cluster: Cluster) -> Iterator[EventRecorder]:
    made = EventRecorder(cluster)
    yield made
    made.stop()


def waiting(recorder: EventRecorder, name: str, *plugins: str, node: str = "n1") -> None:
    recorder.waiting(Waiting(name), node, plugins)  # type: ignore[arg-type]


def told(api: ScriptedApi) -> list[str]:
    """Names of the pods that have an Event, in the order in which they were told."""
    bodies = [json.loads(body) for kind, _, _, body in api.requests if kind == "event"]
    return [body["regarding"]["name"] for body in bodies]


def test_a_held_pod_has_an_event_that_names_who_holds_it(
    api: ScriptedApi, recorder: EventRecorder, eventually: Callable[..., None]
) -> None:
    waiting(recorder, "web", "Quota", "Coscheduling")
    eventually(lambda: recorder.stats.sent == 1)
    _, path, _, body = api.requests[-1]
    event = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert event["reason"] == "WaitingOnPermit"
    assert event["note"] == "held for node n1, waiting on permit of Coscheduling, Quota"
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "uid-web",
    }
    assert event["regarding"] == regarding


def test_a_pod_that_is_set_aside_has_one_event_that_says_why(
    api: ScriptedApi, cluster: Cluster, recorder: EventRecorder, eventually: Callable[..., None]
) -> None:
    pod: Pod = Waiting("web")  # type: ignore[assignment]
    recorder.set_aside(pod, "too large")
    recorder.set_aside(pod, "too large, once more")
    waiting(recorder, "last", "A")
    eventually(lambda: "last" in told(api))
    assert told(api) == ["web", "last"]
    assert (api.events[0]["reason"], api.events[0]["type"]) == ("SetAside", "Warning")
    assert list_set_aside(cluster) == {"uid-web": "too large"}


def test_a_pod_kept_without_labels_has_its_event_too(
    api: ScriptedApi, recorder: EventRecorder, eventually: Callable[..., None]
) -> None:
    recorder.set_aside(unlabelled("large"), "too large")
    eventually(lambda: told(api) == ["large"])


def test_events_of_others_say_nothing_of_the_queue(api: ScriptedApi, cluster: Cluster) -> None:
    forged = {"reason": "SetAside", "reportingController": "me", "regarding": {"uid": "u"}}
    api.events.append(forged)
    assert list_set_aside(cluster) == {}


@pytest.mark.parametrize("answer", [[], {}, {"items": [1]}, {"items": None}])
def test_what_is_no_list_of_events_is_an_error(
    api: ScriptedApi, cluster: Cluster, answer: object
) -> None:
    def answering(request: Request) -> bool:
        request.send(200, answer)  # type: ignore[arg-type]
        return True

    api.fail("event", answering)
    with pytest.raises(ClusterError, match="no list of Events"):
        list_set_aside(cluster)


def test_there_is_one_event_a_pod_and_set_of_plugins(
    api: ScriptedApi, recorder: EventRecorder, eventually: Callable[..., None]
) -> None:
    for _ in range(20):
        waiting(recorder, "web", "A", "B")
        waiting(recorder, "web", "B", "A", node="n2")
    waiting(recorder, "web", "A")
    waiting(recorder, "other", "A")
    # Sent in order: what is told last is sent after everything else.
    waiting(recorder, "last", "A")
    eventually(lambda: "last" in told(api))
    assert told(api) == ["web", "web", "other", "last"]


def test_a_pod_that_is_still_held_is_told_again_before_the_api_forgets(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    clock = Clock()
    recorder = EventRecorder(cluster, clock=clock)
    for number, later_s in enumerate((0, 40 * 60, 20 * 60)):
        clock.pass_s(later_s)
        waiting(recorder, "web", "A")
        waiting(recorder, f"mark-{number}", "A")
        eventually(lambda number=number: f"mark-{number}" in told(api))
    recorder.stop()
    assert told(api) == ["web", "mark-0", "mark-1", "web", "mark-2"]


def test_many_pods_are_told_within_the_rate_and_nobody_waits_for_it(
    api: ScriptedApi, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    held, clock = Held(), Clock()
    api.fail("event", held)
    recorder = EventRecorder(cluster, rate=20, burst=10, clock=clock)
    for number in range(40):
        waiting(recorder, f"pod-{number}", "A")
    assert recorder.stats == WriteStats()
    held.go_on.set()
    for sent in (10, 20, 30):
        eventually(lambda sent=sent: recorder.stats.sent == sent)
        clock.is_read_again()
        assert recorder.stats.sent == sent
        clock.pass_s(0.5)
    eventually(lambda: recorder.stats.sent == 40)
    recorder.stop()


def test_a_lost_request_is_sent_again_under_the_same_name(
    api: ScriptedApi, recorder: EventRecorder, eventually: Callable[..., None]
) -> None:
    api.fail("event", lost_request)
    waiting(recorder, "web", "A")
    eventually(lambda: recorder.stats.sent == 1)
    names = {json.loads(body)["metadata"]["name"] for _, _, _, body in api.requests}
    assert api.counts["event"] == 2
    assert len(names) == 1


def test_a_refusal_is_said_once_and_harms_nobody(
    api: ScriptedApi,
    recorder: EventRecorder,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.fail("event", *[refusing(403, "Forbidden", "cannot create events")] * 2)
    waiting(recorder, "a", "A")
    waiting(recorder, "b", "A")
    eventually(lambda: recorder.stats.failed == 2)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("pods cannot be told what they wait for: POST /apis/events.k8s.io")


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_what_is_no_name_is_not_sent(api: ScriptedApi, recorder: EventRecorder, name: str) -> None:
    waiting(recorder, name, "A")
    assert recorder.stats.dropped == 1
    assert api.counts["event"] == 0
