"""What kubextend writes about pods while nobody waits for it: wake-ups, marks and Events."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Held, Outbox, ScriptedApi, SkippingTime, pod
from tests.doors.scripted_requests import Fault, lost_request, refusing

DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MINUTE_S = 60


@pytest.fixture
def outbox(api: ScriptedApi, kubeconfig: Path) -> Iterator[Outbox]:
    """Write about pods of the API, which are ``web`` and ``a`` to ``e``."""
    for name in ("web", *"abcde"):
        api.put_pod(name, f"uid-{name}")
    made = Outbox(kubeconfig)
    yield made
    made.stop()


def written(api: ScriptedApi) -> list[str]:
    """Return the names of the pods that requests were about, in order."""
    names = []
    for kind, path, _, body in api.requests:
        if kind == "patch":
            names.append(path.split("/")[6])
        elif kind == "event":
            names.append(json.loads(body)["regarding"]["name"])
    return names


WRITE: dict[str, Callable[[Outbox, str], None]] = {
    "wakes": lambda outbox, name: outbox.wake(pod(name)),
    "marks": lambda outbox, name: outbox.hold(pod(name), "n1", "A"),
    "events": lambda outbox, name: outbox.tell_held(pod(name), "n1", "A"),
}
KINDS = pytest.mark.parametrize("kind", WRITE)


def fail(api: ScriptedApi, *faults: Fault) -> None:
    """Let the next patches, or the next Events, fail."""
    for each in ("patch", "event"):
        api.fail(each, *faults)


def condition_of(api: ScriptedApi) -> dict[str, Any]:
    """Return the condition of the last patch, without its time."""
    _, path, headers, body = api.requests[-1]
    assert path == "/api/v1/namespaces/default/pods/web/status"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    patch = json.loads(body)
    # A pod with status.nominatedNodeName is not counted by Karpenter.
    assert patch.keys() == {"metadata", "status"}
    assert patch["status"].keys() == {"conditions"}
    assert patch["metadata"] == {"uid": "uid-web"}
    (condition,) = patch["status"]["conditions"]
    time = condition.pop("lastTransitionTime")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time)
    return dict(condition)


def test_a_wake_up_is_a_condition_of_ours_that_is_another_each_time_at_most_once_a_second(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    messages = set()
    for _ in range(50):
        outbox.wake(pod("web"))
        clock.pass_s(0.1)
        condition = condition_of(api)
        # The condition stays on the pod, so it says only what stays true.
        said = r"kubextend asked kube-scheduler at [-T:\d]+\.\d{3}\+00:00 to try this pod again"
        assert re.fullmatch(said, condition["message"])
        messages.add(condition.pop("message"))
        ours = {"type": "kubextend.dev/Activated", "status": "True", "reason": "AskedToTryAgain"}
        assert condition == ours
    assert api.counts["patch"] == len(messages)
    assert api.counts["patch"] in {5, 6}
    assert min(api.pauses("patch")) >= 1


def test_a_mark_says_that_a_pod_is_unschedulable_once_it_was_held_for_two_seconds(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    outbox.hold(pod("web"), "n1", "Quota", "Coscheduling")
    outbox.hold(pod("a"), "n1", "A")
    clock.pass_s(1.9)
    outbox.let_go(pod("a"))
    assert api.requests == []
    clock.pass_s(0.1)
    assert condition_of(api) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "held for node n1, waiting on permit of Coscheduling, Quota",
    }
    clock.pass_s(MINUTE_S)
    assert written(api) == ["web"]
    # kube-scheduler has written another reason meanwhile.
    outbox.let_go(pod("web"))
    outbox.hold(pod("web"), "n2", "A")
    clock.pass_s(2)
    assert condition_of(api)["message"] == "held for node n2, waiting on permit of A"


def test_a_pod_that_leaves_permit_while_the_api_is_slow_is_not_marked(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    held = Held()
    api.fail("patch", held)
    for name in "abc":
        outbox.hold(pod(name), "n1", "A")
    clock.pass_s(3)
    outbox.let_go(pod("b"))
    held.go_on.set()
    clock.settle()
    assert written(api) == ["a", "c"]


def test_a_pod_has_one_event_for_each_set_of_plugins_until_the_api_forgets_it(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    for node in ("n1", "n2", "n1"):
        outbox.tell_held(pod("web"), node, "Quota", "Coscheduling")
        outbox.tell_held(pod("web"), node, "Coscheduling", "Quota")
        outbox.tell_held(pod("web"), node, "Quota")
        outbox.tell_set_aside(pod("a"), f"too large for {node}")
        clock.pass_s(20 * MINUTE_S)
    outbox.tell_held(pod("web"), "n1", "Quota")
    clock.settle()
    assert written(api) == ["web", "web", "a", "web"]
    held, _, set_aside, _ = api.events
    assert (held["type"], held["reason"]) == ("Normal", "WaitingOnPermit")
    assert held["note"] == "held for node n1, waiting on permit of Coscheduling, Quota"
    named = {"namespace": "default", "name": "web", "uid": "uid-web"}
    assert held["regarding"] == {"apiVersion": "v1", "kind": "Pod"} | named
    assert (set_aside["reason"], set_aside["type"]) == ("SetAside", "Warning")
    assert set_aside["note"] == "too large for n1"


def test_an_event_of_a_plugin_says_what_the_plugin_said(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    outbox.tell(pod("web"), note="é" * 1024)
    outbox.tell({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}})
    clock.settle()
    event, on_a_node = api.events
    assert (event["reason"], event["action"], event["type"]) == ("NoQuota", "Scheduling", "Warning")
    assert event["regarding"]["name"] == "web"
    assert len(event["note"].encode()) == 1024
    # An Event on an object without a namespace is in the default one.
    assert {*api.paths("event")} == {"/apis/events.k8s.io/v1/namespaces/default/events"}
    assert "namespace" not in on_a_node["regarding"]


def test_an_event_of_a_plugin_is_written_once_in_ten_minutes_with_its_first_note(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    for minutes in (0.0, 9.9, 0.1):
        clock.pass_s(minutes * MINUTE_S)
        outbox.tell(pod("web"), note=f"first after {minutes}")
        outbox.tell(pod("web"), note=f"second after {minutes}")
    clock.settle()
    assert [event["note"] for event in api.events] == ["first after 0.0", "first after 0.1"]


def test_an_event_is_written_once_though_many_others_were_told_before(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    for number in range(10_001):
        outbox.tell_held(pod(f"other-{number}", "others"), "n1", "A")
    for _ in range(2):
        outbox.tell_held(pod("web"), "n1", "A")
        clock.pass_s(20)
    assert written(api).count("web") == 1


def test_what_differs_by_more_than_its_note_is_an_event_of_its_own(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    differing = {
        "plugin": "Q",
        "profile": "second",
        "type": "Normal",
        "reason": "Closed",
        "action": "Binding",
    }
    outbox.tell(pod("web"))
    for what, other in differing.items():
        outbox.tell(pod("web"), **{what: other})
    clock.settle()
    assert len({event["metadata"]["name"] for event in api.events}) == 6


@pytest.mark.parametrize("name", ["web", "a" * 253, "a" * 237 + "-" * 15 + "a", "a.b-c"])
def test_an_event_is_one_that_the_api_takes(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, name: str
) -> None:
    """Source of the limits: kubernetes v1.36 pkg/apis/core/validation/events.go."""
    outbox.tell_held(pod(name), "n1", "A")
    outbox.tell_set_aside(pod(name), "too large")
    clock.settle()
    named = {event["metadata"]["name"] for event in api.events}
    assert len(named) == 2
    assert all(len(each) <= 253 and DNS_SUBDOMAIN.fullmatch(each) for each in named)
    for event in api.events:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["eventTime"])
        assert event["metadata"]["namespace"] == event["regarding"]["namespace"]
        for required in ("reportingController", "reportingInstance", "action", "reason"):
            assert 0 < len(event[required]) <= 128


def test_a_note_is_short_enough_however_many_plugins_hold_a_pod(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    outbox.tell_held(pod("web"), "n1", *[f"\N{SNOWMAN}{number}" for number in range(999)])
    # A plugin may quote what json.loads made of an annotation.
    outbox.tell_set_aside(pod("web"), "team \ud800")
    clock.settle()
    notes = [event["note"] for event in api.events]
    assert 1000 < len(notes[0].encode()) <= 1024
    assert notes[1] == "team \\ud800"


@KINDS
def test_many_pods_are_written_about_within_the_rate_and_nobody_waits(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, kind: str
) -> None:
    # However long it was quiet before.
    clock.pass_s(60 * MINUTE_S)
    held = Held()
    api.fail("event" if kind == "events" else "patch", held)
    for number in range(600):
        api.put_pod(f"pod-{number}", f"uid-pod-{number}")
        WRITE[kind](outbox, f"pod-{number}")
    assert outbox.count(kind, "sent") == 0
    held.go_on.set()
    clock.pass_s(3)
    early = outbox.count(kind, "sent")
    assert early <= 100 + 3 * 40
    clock.pass_s(5)
    assert outbox.count(kind, "sent") - early == pytest.approx(5 * 40, abs=2)
    clock.pass_s(MINUTE_S)
    assert outbox.count(kind, "sent") == 600


@KINDS
@pytest.mark.parametrize(
    ("fault", "pauses"),
    [
        pytest.param(refusing(500, "InternalError"), [1, 2, 4], id="server error"),
        pytest.param(refusing(429, "No", Retry_After="1"), [1, 2, 4], id="Retry-After 1"),
        pytest.param(refusing(429, "No", Retry_After="30"), [30, 30, 30], id="Retry-After 30"),
        pytest.param(lost_request, [1, 2, 4], id="request lost"),
    ],
)
def test_a_call_is_made_four_times_with_pauses_that_grow_or_that_the_api_asks_for(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, kind: str, fault: Fault, pauses: Any
) -> None:
    fail(api, *[fault] * 4)
    WRITE[kind](outbox, "web")
    clock.pass_s(5 * MINUTE_S)
    assert api.pauses("patch", "event") == pauses
    assert outbox.count(kind, "failed") == 1
    # A repeated Event has the same name, so that it is written once.
    assert len({str(body["metadata"]) for body in api.bodies("event")}) <= 1
    WRITE[kind](outbox, "a")
    clock.pass_s(5)
    assert (outbox.count(kind, "sent"), written(api)[-1]) == (1, "a")


@KINDS
def test_a_refusal_is_made_once_and_said_once_until_a_call_succeeds(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, caplog: Any, kind: str
) -> None:
    forbidden = refusing(403, "Forbidden", "not allowed")
    fail(api, forbidden, forbidden)
    WRITE[kind](outbox, "a")
    WRITE[kind](outbox, "b")
    clock.pass_s(MINUTE_S)
    assert (outbox.count(kind, "failed"), len(api.requests)) == (2, 2)
    (said,) = caplog.messages
    assert re.match("pods cannot be woken|held pods cannot be marked|pods cannot be told", said)
    assert re.search("(PATCH|POST) /api.*: 403 not allowed$", said)
    WRITE[kind](outbox, "c")
    clock.pass_s(MINUTE_S)
    fail(api, forbidden)
    WRITE[kind](outbox, "d")
    clock.pass_s(MINUTE_S)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (404, 'pods "web" not found'),
        (409, "the UID in the precondition does not match"),
        (422, 'Pod "web" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
    ],
)
def test_a_pod_that_is_gone_is_left_alone(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, code: int, message: str
) -> None:
    api.fail("patch", refusing(code, "Gone", message))
    outbox.wake(pod("web"))
    clock.pass_s(5 * MINUTE_S)
    assert (outbox.count("wakes", "gone"), api.counts["patch"]) == (1, 1)


@KINDS
def test_what_is_no_name_is_not_sent(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, kind: str
) -> None:
    for name in ("..", "a/b", "web?dryRun=All", "UPPER", "a"):
        WRITE[kind](outbox, name)
    clock.pass_s(5)
    assert outbox.count(kind, "dropped") == 4
    assert written(api) == ["a"]


@KINDS
def test_a_pod_that_is_too_large_to_be_kept_is_written_about_too(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, kind: str
) -> None:
    large = pod("web", labels={f"k{number}": "v" for number in range(1000)})
    {
        "wakes": lambda: outbox.wake(pod("a"), large, pod("b")),
        "marks": lambda: outbox.hold(large, "n1", "A"),
        "events": lambda: outbox.tell_set_aside(large, "too large"),
    }[kind]()
    clock.pass_s(5)
    assert "web" in written(api)
    assert outbox.count(kind, "sent") == len(written(api))


@pytest.fixture
def woken_later(api: ScriptedApi, outbox: Outbox, clock: SkippingTime) -> Held:
    """Let the API hold its answer to the first wake-up, that of ``web``."""
    held = Held()
    api.fail("patch", held)
    outbox.wake(pod("web"))
    clock.settle()
    return held


def test_who_fills_the_outbox_keeps_no_neighbour_out(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, woken_later: Held
) -> None:
    for number in range(10_010):
        outbox.wake(pod(f"greedy-{number}", "greedy"))
    outbox.wake(pod("neighbour", "neighbours"))
    woken_later.go_on.set()
    clock.pass_s(1)
    assert written(api).index("neighbour") <= 2
    assert outbox.count("wakes", "dropped") == 10


@pytest.mark.parametrize("seed", range(3))
def test_pods_are_woken_in_order_and_no_namespace_waits_for_more_than_a_turn_of_each(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, woken_later: Held, seed: int
) -> None:
    dice = random.Random(seed)
    asked: list[str] = []
    for number in range(60):
        namespace, gang = dice.choice("aabbbccccd"), dice.randrange(3)
        asked.append(f"{namespace}-{gang}-{number}")
        outbox.wake(pod(asked[-1], namespace, labels={"gang": str(gang)}))
    woken_later.go_on.set()
    clock.pass_s(60)
    woken = written(api)[1:]
    assert sorted(woken) == sorted(asked)
    by_gang = [sorted(each, key=lambda name: name[:3]) for each in (woken, asked)]
    assert by_gang[0] == by_gang[1]
    for turn in range(len(woken)):
        waiting = {name[0] for name in woken[turn:]}
        next_ones = {name[0] for name in woken[turn : turn + 2 * len(waiting)]}
        assert next_ones == waiting


def test_a_wake_up_does_not_wait_for_the_events_of_its_namespace(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    for number in range(1000):
        outbox.tell_held(pod(f"held-{number}"), "n1", "A")
    outbox.wake(pod("web"))
    clock.pass_s(1)
    assert "web" in written(api)
    assert outbox.count("events", "sent") < 200


def wake_gangs(outbox: Outbox, tenants: int) -> None:
    """Wake 200 gangs of 16 pods each, of so many tenants."""
    for gang in range(200):
        labels = {"gang": f"gang-{gang}"}
        namespace = f"tenant-{gang % tenants}"
        outbox.wake(*(pod(f"{gang}-{member}", namespace, labels=labels) for member in range(16)))


@pytest.mark.slow
@pytest.mark.parametrize("tenants", [1, 10, 200])
def test_a_neighbours_pod_is_woken_within_two_seconds_beside_3200_gang_pods(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime, tenants: int
) -> None:
    wake_gangs(outbox, tenants)
    clock.pass_s(10)
    for number in range(3):
        outbox.wake(pod(f"neighbour-{number}", "neighbours"))
        clock.pass_s(2)
        assert f"neighbour-{number}" in written(api)
        clock.pass_s(11)
    gangs = [name for name in written(api) if not name.startswith("neighbour")]
    assert len(gangs) > 40 * 20 * 0.9


@pytest.mark.slow
def test_the_pods_of_a_gang_are_woken_together_though_many_gangs_are_due(
    api: ScriptedApi, outbox: Outbox, clock: SkippingTime
) -> None:
    wake_gangs(outbox, 1)
    clock.pass_s(40)
    woken: dict[str, list[float]] = {}
    for name, at_s in zip(written(api), api.seconds("patch"), strict=True):
        woken.setdefault(name.split("-")[0], []).append(at_s)
    whole = [times for times in woken.values() if len(times) == 16]
    assert len(whole) >= 40 * 20 / 16 - 2
    assert all(times[-1] - times[0] < 2 for times in whole)
