"""The queue: who is released when, through restarts, refusals and changes of the leader."""

import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Held, Running, ScriptedApi, SkippingTime, running
from tests.doors.queue_stories import GATE, queue_configuration
from tests.doors.scripted_requests import Fault, Request, lost_request, refusing

from kubextend.framework import Status

Queue = Callable[..., AbstractContextManager[Running]]

TOO_MANY = refusing(429, "TooManyRequests", Retry_After="3")
PATIENT = {"strategy": "StrictFIFO", "maxHold": "1h"}


@pytest.fixture
def queue(kubeconfig: Path) -> Queue:
    """Run a kubextend whose queue has these settings."""
    return lambda **settings: running(queue_configuration(kubeconfig, **settings))


def gate_pods(api: ScriptedApi, count: int) -> list[str]:
    """Create pods of mixed priorities; return their names in the order of the queue."""
    priorities = {f"p{number:02}": random.Random(number).randrange(4) for number in range(count)}
    for name, priority in priorities.items():
        api.put_gated_pod(name, [GATE], priority=priority)
    return sorted(priorities, key=lambda name: (-priorities[name], name))


def patched(api: ScriptedApi) -> list[str]:
    """Return the name of the pod of each patch, in order."""
    return [path.split("/")[6].split("?")[0] for path in api.paths("patch")]


def bind_released(api: ScriptedApi, clock: SkippingTime, count: int) -> list[str]:
    """Bind pods as they are released, one at a time; return their names in order."""
    order: list[str] = []
    while len(order) < count:
        clock.until(api.released_pods)
        (name,) = api.released_pods()
        order.append(name)
        api.bind_pod(name)
    return order


REFUSED = "the API refuses to remove its gate"
TOO_LARGE = "etcdserver: request is too large"


def refuse_pod(name: str, fault: Fault) -> Fault:
    return lambda request: f"/{name}" in request.path and fault(request)


def test_a_pod_is_released_by_a_patch_that_removes_one_gate_and_nothing_else(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    api.put_gated_pod("web", [GATE, "example.com/other"])
    api.put_gated_pod("ours", [GATE])
    api.put_pod("free", "uid-free")
    api.put_gated_pod("elsewhere", [GATE], schedulerName="another")
    with queue(window=10):
        clock.pass_s(10)
        api.put_gated_pod("later", [GATE])
        clock.pass_s(10)
    assert patched(api) == ["ours", "later"]
    _, path, headers, _ = next(each for each in api.requests if each[0] == "patch")
    assert path == "/api/v1/namespaces/default/pods/ours?fieldManager=kubextend-queue"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    # Nobody reads the pod that the API answers.
    assert "as=PartialObjectMetadata" in headers["Accept"]
    spec = {"schedulingGates": [{"$patch": "delete", "name": GATE}]}
    assert api.bodies("patch")[0] == {"metadata": {"uid": "uid-ours"}, "spec": spec}


def test_an_unschedulable_pod_is_waited_for_under_strict_fifo_and_over_a_restart(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    first, second, _ = gate_pods(api, 3)
    with queue(**PATIENT):
        clock.until(api.released_pods)
        api.park_pod(first)
        api.put_gated_pod("later", [GATE], priority=-1)
        clock.pass_s(600)
        assert api.released_pods() == [first]
    with queue(**PATIENT) as replica:
        clock.pass_s(60)
        assert replica.metric("queue_leader") == 1
        assert replica.metric("queue_pods", state="ready") == 3
        assert api.released_pods() == [first]
        api.bind_pod(first)
        clock.pass_s(1)
        assert api.released_pods() == [second]
    assert patched(api) == [first, second]


@pytest.mark.parametrize(
    ("settings", "within_s"),
    [
        ({"strategy": "BestEffortFIFO", "maxHold": "1h"}, 1),
        ({"strategy": "StrictFIFO", "maxHold": "10m"}, 601),
        (PATIENT | {"window": 2}, 1),
    ],
)
def test_an_unschedulable_pod_holds_up_no_other_or_for_max_hold_or_has_one_place_of_the_window(
    api: ScriptedApi, queue: Queue, clock: SkippingTime, settings: Any, within_s: float
) -> None:
    order = gate_pods(api, 4)
    with queue(**settings):
        clock.until(api.released_pods)
        api.park_pod(order[0])
        clock.pass_s(within_s)
        assert sorted(api.released_pods()) == sorted(order[:2])


def test_restarts_lose_no_pod_and_release_each_in_its_turn(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    order = gate_pods(api, 40)
    bound, counted = [], 0.0
    for count in (10, 15, 15):
        with queue() as replica:
            bound += bind_released(api, clock, count)
            clock.pass_s(5 if bound == order else 0)
            counted += replica.metric("queue_releases_total", result="released") or 0.0
    assert bound == patched(api) == order
    assert counted == 40
    assert replica.metric("queue_pods", state="released") == 0


def test_only_one_replica_releases_and_the_other_takes_over_within_seconds(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    first, second, *_ = gate_pods(api, 3)
    with queue(**PATIENT) as leaving, queue(**PATIENT) as following:
        clock.pass_s(60)
        assert [each.metric("queue_leader") for each in (leaving, following)] == [1, 0]
        assert following.metric("queue_pods", state="released") == 1
        leaving.stop()
        clock.pass_s(3)
        assert following.metric("queue_leader") == 1
        assert api.released_pods() == [first]
        api.bind_pod(first)
        clock.pass_s(1)
        assert api.released_pods() == [second]
    assert patched(api) == [first, second]
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""
    assert api.lease["spec"]["leaseTransitions"] == 1


def test_a_replica_that_begins_to_lead_releases_at_once(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    (first,) = gate_pods(api, 1)
    held = Held()
    api.fail("lease", held)
    with queue():
        clock.pass_s(1)
        assert api.released_pods() == []
        held.go_on.set()
        clock.settle()
        assert api.released_pods() == [first]


def test_a_patch_that_waits_for_others_is_not_sent_once_the_lease_is_lost(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    held = Held()
    api.fail("patch", *[held] * 8)
    with queue(window=10, maxHold="1h") as replica:
        clock.until(lambda: replica.metric("queue_leader") == 1)
        api.fail("lease", *[lost_request] * 1000)
        clock.pass_s(7)
        gate_pods(api, 10)
        clock.until(lambda: api.counts["patch"] == 8)
        # A patch gets no answer for 5 s at most; the Lease is lost 10 s after it was renewed.
        clock.pass_s(4)
        assert replica.metric("queue_leader") == 0
        held.go_on.set()
        clock.settle()
        assert api.counts["patch"] == 8
        assert replica.metric("queue_pods", state="ready") == 2


def test_readiness_waits_for_the_pods_and_not_for_the_lease(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    api.fail("lease", *[refusing(403, "Forbidden", "leases is forbidden")] * 1000)
    gate_pods(api, 2)
    with queue() as replica:
        clock.pass_s(60)
        assert replica.ready()[0] == 200
        assert replica.metric("queue_leader") == 0
    assert api.counts["patch"] == 0


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lost_request, id="connection broken"),
        pytest.param(TOO_MANY, id="too many"),
        pytest.param(refusing(500, "InternalError"), id="a fault of the server"),
        pytest.param(refusing(503, "ServiceUnavailable"), id="starting"),
        pytest.param(refusing(403, "Forbidden", "RBAC: not found"), id="forbidden while it starts"),
        pytest.param(refusing(409, "Conflict", "modified"), id="another writer"),
    ],
)
def test_a_patch_that_fails_twice_is_sent_again_until_the_pod_is_released(
    api: ScriptedApi, queue: Queue, clock: SkippingTime, fault: Fault
) -> None:
    api.put_gated_pod("web", [GATE])
    api.fail("patch", fault, fault)
    with queue() as replica:
        clock.pass_s(10)
        assert api.released_pods() == ["web"]
        assert replica.metric("queue_releases_total", result="refused") == 2
    assert api.counts["patch"] == 3
    assert min(api.pauses("patch")) >= (3 if fault is TOO_MANY else 1)


@pytest.mark.parametrize(
    "fault",
    [
        refusing(404, "NotFound", 'pods "p" not found'),
        # Another pod has its name.
        refusing(422, "Invalid", 'Pod "p" is invalid: metadata.uid: Invalid value: "x"'),
    ],
)
def test_a_pod_that_is_gone_is_not_patched_again(
    api: ScriptedApi, queue: Queue, clock: SkippingTime, fault: Fault
) -> None:
    first, second = gate_pods(api, 2)
    api.fail("patch", fault)
    with queue():
        clock.pass_s(60)
        assert second in api.released_pods()
    assert patched(api) == [first, second]
    assert api.events == []


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (refusing(403, "Forbidden", "not you"), f"{REFUSED}: not you; grant patch on pods"),
        (refusing(422, "Invalid", "spec: Forbidden"), f"{REFUSED}: spec: Forbidden"),
        (refusing(500, "InternalError", TOO_LARGE), f"{REFUSED}: {TOO_LARGE}"),
        (lost_request, "the API does not answer a request to remove its gate: PATCH /api/"),
    ],
    ids=["forbidden", "invalid", "too large for etcd", "no answer"],
)
def test_a_pod_that_cannot_be_patched_is_set_aside_and_the_others_pass(
    api: ScriptedApi, queue: Queue, clock: SkippingTime, fault: Fault, why: str, strategy: str
) -> None:
    first, *others = gate_pods(api, 6)
    api.fail("patch", *[refuse_pod(first, fault)] * 999)
    with queue(strategy=strategy, maxHold="1h") as replica:
        began_s = clock.now_s
        clock.until(api.released_pods)
        assert clock.now_s - began_s <= 17
        clock.settle()
        assert replica.metric("queue_pods", state="set_aside") == 1
        # While the API does not answer, the first pod stays the first, for seven patches.
        refused = 7 if fault is lost_request else 1
        assert replica.metric("queue_releases_total", result="refused") == refused
        assert bind_released(api, clock, 5) == others
        clock.pass_s(60)
    (event,) = api.events
    assert (event["reason"], event["regarding"]["name"]) == ("SetAside", first)
    assert event["note"].startswith(why)
    assert patched(api).count(first) <= 60


def test_a_member_that_cannot_be_patched_names_its_pod_group(
    api: ScriptedApi, queue: Queue, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    api.put_gated_pod("web", [GATE], schedulingGroup={"podGroupName": "training"})
    api.fail("patch", *[refusing(422, "Invalid", "spec: Forbidden")] * 99)
    with queue():
        clock.until(lambda: api.events, within_s=60)
    waits = ", for which its pod group training waits"
    assert api.events[0]["note"] == f"{REFUSED}{waits}: spec: Forbidden"
    (record,) = (each for each in caplog.records if "is set aside" in each.message)
    assert record.message.startswith("pod default/web of pod group training is set aside: ")
    assert (record.pod, record.pod_group) == ("default/web", "default/training")  # type: ignore[attr-defined]


def test_pods_that_can_never_be_patched_hold_up_the_others_for_seconds_in_all(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    for number in range(50):
        api.put_gated_pod(f"bad-{number}", [GATE], priority=9)
    api.put_gated_pod("good", [GATE])
    api.fail("patch", *[refuse_pod("bad-", refusing(422, "Invalid", "spec: Forbidden"))] * 999)
    with queue(**PATIENT):
        began_s = clock.now_s
        clock.until(lambda: "good" in api.released_pods(), within_s=60)
    assert clock.now_s - began_s <= 10


def test_other_namespaces_do_not_wait_while_a_refused_pod_is_tried_again(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    api.put_gated_pod("first", [GATE], priority=9)
    api.put_gated_pod("other", [GATE])
    api.pods["other"]["metadata"]["namespace"] = "neighbour"
    api.fail("patch", *[refuse_pod("first", refusing(500, "InternalError"))] * 3)
    with queue(fairQueuing="ByNamespace", maxHold="1h"):
        clock.settle()
        assert api.released_pods() == ["other"]
        api.bind_pod("other")
        clock.pass_s(10)
        assert api.released_pods() == ["first"]


def test_the_members_of_a_pod_group_are_released_though_none_is_bound(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    names = [f"part-{number:02}" for number in range(20)]
    api.put_gated_pod("alone", [GATE], priority=-1)
    for name in names:
        api.put_gated_pod(name, [GATE], schedulingGroup={"podGroupName": "training"})
    with queue(maxHold="1h") as replica:
        clock.pass_s(60)
        assert api.released_pods() == names
        assert replica.metric("queue_pods", state="released") == 20
        for name in names:
            api.bind_pod(name)
        clock.pass_s(1)
    assert patched(api) == [*names, "alone"]


class Holds:
    """Holds each pod for a minute."""

    name = "Holds"

    def permit(self, *_: Any) -> tuple[Status, float]:
        return Status.wait(), 60.0


def test_a_pod_that_permit_holds_leaves_the_window(
    api: ScriptedApi, kubeconfig: Path, clock: SkippingTime
) -> None:
    api.put_node("n1")
    first, second, _ = gate_pods(api, 3)
    tree = queue_configuration(kubeconfig, **PATIENT)
    tree["profiles"][0]["plugins"]["permit"] = {"enabled": [{"name": "Holds"}]}
    with running(tree, {"Holds": Holds}) as replica:
        clock.until(api.released_pods)
        errors = replica.bind_beside(api.pods[first], "n1")
        clock.pass_s(30)
        assert sorted(api.released_pods()) == sorted([first, second])
        assert errors == []


def test_a_patch_whose_answer_is_lost_is_no_second_release(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    def lost(request: Request) -> bool:
        with request.server_api.changed:
            request.take_gates_off(request.server_api.pods[first])
        request.cut()
        return True

    first, second, *_ = gate_pods(api, 3)
    api.fail("patch", lost)
    with queue():
        clock.pass_s(10)
        assert patched(api) == [first]
        assert api.released_pods() == [first]
        assert api.pods[first]["metadata"]["generation"] == 2
        api.bind_pod(first)
        clock.pass_s(1)
        assert api.released_pods() == [second]


def test_how_long_a_pod_waited_counts_from_its_creation(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    (name,) = gate_pods(api, 1)
    created = datetime.now(UTC) - timedelta(hours=1)
    api.pods[name]["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    with queue() as replica:
        clock.until(lambda: replica.metric("queue_wait_seconds_count") == 1)
        assert (replica.metric("queue_wait_seconds_sum") or 0.0) >= 3600


def test_a_patch_that_failed_is_not_tried_again_without_the_lease(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    def taken(request: Request) -> bool:
        api.change_lease(holderIdentity="another")
        return refusing(503, "ServiceUnavailable", Retry_After="5")(request)

    first, _ = gate_pods(api, 2)
    api.fail("patch", taken)
    with queue() as replica:
        clock.pass_s(12)
        assert replica.metric("queue_leader") == 0
        assert patched(api) == [first]


def test_the_lease_is_given_back_once_no_patch_is_under_way(
    api: ScriptedApi, queue: Queue, clock: SkippingTime
) -> None:
    (first,) = gate_pods(api, 1)
    held = Held()
    api.fail("patch", held)
    with queue() as replica:
        clock.until(lambda: api.counts["patch"])
        ending = threading.Thread(target=replica.stop)
        ending.start()
        clock.pass_s(1)
        assert api.lease is not None
        assert api.lease["spec"]["holderIdentity"] != ""
        held.go_on.set()
        ending.join()
        assert api.lease["spec"]["holderIdentity"] == ""
    assert api.released_pods() == [first]
