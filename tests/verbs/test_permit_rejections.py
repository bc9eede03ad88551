"""A Permit rejection out of bind: what the pod's next filter calls are told, and how late bind is.

kube-scheduler takes the Error of bind for a failure of the scheduler, and tries the pod again soon.
"""

from typing import Any

import pytest
from tests.doors.wire import WAIT, Call, Steps, Wire, answers, node, pod, uid_of

from kubextend import Status
from kubextend.framework import Handle

CLOSED = "the door is closed"
REJECTS = Status.unschedulable(CLOSED)
P = pod("p")
VICTIMS = {"n": ["uid-of-victim"]}


def wire_of(plugin: Any, **parts: Any) -> Wire:
    return Wire(plugin, **{"nodes": ["n", "m"], "pods": [P]} | parts)


def door(**says: Any) -> Steps:
    return Steps("filter", "reserve", **{"permit": REJECTS} | says)


def rejected(wire: Wire, of: Any = P) -> str:
    """Let the pod be rejected by Permit, and return the Error of bind."""
    return wire.bind(of, "n").error


def passes(wire: Wire, of: Any = P) -> bool:
    said = wire.filter(of)
    assert not said.error
    return bool(said.kept)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (REJECTS, CLOSED),
        (Status.unresolvable(CLOSED), CLOSED),
        (Status.unschedulable(""), "a Permit plugin rejected the pod"),
    ],
)
def test_the_next_filter_call_says_what_permit_said_of_every_node(
    said: Status, reason: str
) -> None:
    wire = wire_of(door(permit=said))
    assert rejected(wire)
    # Of no node an eviction would help.
    assert wire.filter(P).unresolvable == {"n": reason, "m": reason}
    whole = wire.filter(P, whole=[node("n")])
    assert (whole.unresolvable, whole.kept) == ({"n": reason}, [])
    # Another pod is not rejected with it.
    assert passes(wire, pod("other"))


@pytest.mark.parametrize(
    ("plugin", "remembered"),
    [
        (door(), True),
        (door(permit=Status.unresolvable(CLOSED)), True),
        (door(reserve=Status.unschedulable("no")), False),
        (door(permit=Status.error("broken")), False),
        (door(permit=None), False),
    ],
    ids=["Permit rejects", "for ever", "Reserve rejects", "Permit fails", "the pod is bound"],
)
def test_of_a_binding_cycle_only_a_rejection_by_permit_is_remembered(
    plugin: Steps, remembered: bool
) -> None:
    wire = wire_of(plugin)
    wire.bind(P, "n")
    assert passes(wire) is not remembered


def test_nobody_is_evicted_for_a_pod_that_permit_rejected_a_moment_ago() -> None:
    wire = wire_of(door())
    assert wire.preempt(P, VICTIMS).victims == VICTIMS
    rejected(wire)
    assert wire.preempt(P, VICTIMS).victims == {}
    wire.skip(30)
    assert wire.preempt(P, VICTIMS).victims == VICTIMS


@pytest.mark.parametrize(
    ("what", "woken"), [("activated", ["p"]), ("it is over", ["p"]), ("the pod is gone", [])]
)
def test_a_rejection_ends_once_and_kube_scheduler_is_told(what: str, woken: list[str]) -> None:
    handles: list[Handle] = []

    class Door:
        name = "Door"
        permit = staticmethod(answers(REJECTS))

        def __init__(self, handle: Handle) -> None:
            handles.append(handle)

    wire = wire_of(Door)
    rejected(wire)
    wire.clock.now_s += 29.9
    wire.wake_due()
    assert not passes(wire)
    (handle,) = handles
    match what:
        case "activated":
            of = wire.pods.store.get(uid_of(P))
            assert of is not None
            handle.activate([of])
        case "it is over":
            wire.skip(0.1)
        case _:
            wire.gone_pod(P)
    assert passes(wire)
    wire.skip(1000)
    assert wire.activator.woken == woken


@pytest.mark.parametrize(
    ("part", "value", "tried"),
    [
        ("metadata", {"labels": {"door": "open"}}, True),
        ("metadata", {"annotations": {"door": "open"}}, True),
        ("metadata", {"generation": 2}, True),
        ("spec", {"tolerations": [{"key": "door", "operator": "Exists"}]}, True),
        ("spec", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}, True),
        # kube-scheduler does not try the pod again for changes of these.
        ("metadata", {"resourceVersion": "2"}, False),
        ("metadata", {"managedFields": [{"manager": "door"}]}, False),
        ("status", {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}, False),
    ],
)
def test_a_pod_that_changes_is_tried_again(part: str, value: dict[str, Any], tried: bool) -> None:
    wire = wire_of(door())
    rejected(wire)
    changed = {**P, part: {**P[part], **value}}
    assert passes(wire, changed) is tried
    # Evictions for a changed pod may help it.
    assert bool(wire.preempt(changed, VICTIMS).victims) is tried
    # The pod that was tried anew is not woken for the rejection before.
    wire.skip(30)
    assert wire.activator.woken == ([] if tried else ["p"])


def test_each_rejection_lasts_thirty_seconds() -> None:
    wire = wire_of(door())
    for _ in range(3):
        rejected(wire)
        wire.clock.now_s += 29.9
        assert not passes(wire)
        wire.clock.now_s += 0.1
        assert passes(wire)


@pytest.mark.slow
def test_of_very_many_rejected_pods_the_oldest_is_forgotten_and_tried_again() -> None:
    pods = [pod(f"p{number}") for number in range(4097)]
    wire = wire_of(door(), pods=pods)
    for of in pods:
        rejected(wire, of)
    assert [passes(wire, of) for of in (pods[0], pods[1])] == [True, False]
    # kube-scheduler hears of the pod, which nobody else would wake.
    assert wire.activator.woken == ["p0"]


def test_large_rejected_pods_take_sixteen_mebibytes_and_the_oldest_is_tried_again() -> None:
    pods = [pod(f"p{number}", annotations={"a": "x" * 2**20}) for number in range(17)]
    wire = wire_of(door(), pods=pods)
    for of in pods:
        assert passes(wire, of)
        rejected(wire, of)
    assert wire.activator.woken == ["p0"]
    assert [passes(wire, of) for of in (pods[0], pods[1], pods[-1])] == [True, False, False]


def test_a_pod_of_any_size_is_rejected_until_the_next_one_is() -> None:
    huge = pod("huge", annotations={"a": "x" * 2**25})
    wire = wire_of(door(), pods=[huge, P])
    for of in (huge, P):
        wire.filter(of)
        rejected(wire, of)
        assert not passes(wire, of)
    assert wire.activator.woken == ["huge"]


def test_a_bound_pod_is_rejected_no_more() -> None:
    plugin = door()
    wire = wire_of(plugin)
    rejected(wire)
    plugin.says["permit"] = None
    assert rejected(wire) == ""
    wire.skip(40)
    assert (passes(wire), wire.activator.woken) == (True, [])


# Answers about pods that Permit held and rejected: twenty of a namespace at once, 40 a second then.


def held_and_rejected(wire: Wire, prefix: str, number: int, namespace: str = "ml") -> list[Call]:
    pods = [pod(f"{prefix}{each}", namespace=namespace) for each in range(number)]
    wire.show_pod(*pods)
    calls = [wire.begin_bind(of, "n") for of in pods]
    wire.wait_until_held(*pods)
    for of in pods:
        wire.held(of).reject("Steps", CLOSED)  # type: ignore[union-attr]
    wire.settle()
    return calls


def test_twenty_answers_of_a_namespace_leave_at_once_and_then_one_each_25_ms() -> None:
    wire = wire_of(door(permit=WAIT))
    calls = held_and_rejected(wire, "a", 24)
    done = [sum(call.done for call in calls)]
    for _ in range(4):
        wire.skip(0.0251)
        done.append(sum(call.done for call in calls))
    assert done == [20, 21, 22, 23, 24]
    assert {call.answer().error for call in calls} == {CLOSED}


def test_no_namespace_waits_for_another_and_one_that_rested_is_answered_at_once() -> None:
    wire = wire_of(door(permit=WAIT))
    first = held_and_rejected(wire, "a", 40)
    assert sum(call.done for call in first) == 20
    assert all(call.done for call in held_and_rejected(wire, "b", 20, "other"))
    wire.skip(1)
    assert all(call.done for call in first)
    assert all(call.done for call in held_and_rejected(wire, "c", 20))


def test_what_permit_said_counts_before_it_is_told_and_for_as_long_after() -> None:
    wire = wire_of(door(permit=WAIT))
    *_, last = held_and_rejected(wire, "a", 60)
    of = pod("a59")
    assert not passes(wire, of)
    # The answer leaves after a second, and the rejection holds for 30 s more.
    wire.skip(30.9)
    assert last.done
    assert not passes(wire, of)
    wire.skip(0.2)
    assert passes(wire, of)


def test_the_end_of_kubextend_ends_the_wait_for_an_answer() -> None:
    wire = wire_of(door(permit=WAIT))
    calls = held_and_rejected(wire, "a", 60)
    assert not all(call.done for call in calls)
    wire.shut_down()
    assert {call.answer().error for call in calls} == {CLOSED}


def test_the_answer_about_a_pod_that_permit_never_held_does_not_wait() -> None:
    plugin = door(permit=WAIT)
    wire = wire_of(plugin, settings={"extender.maxHeldPods": 60})
    calls = held_and_rejected(wire, "a", 60)
    assert not calls[-1].done
    plugin.says["permit"] = REJECTS
    assert wire.begin_bind(P, "n").done
    plugin.says["permit"] = WAIT
    wire = wire_of(plugin, settings={"extender.maxHeldPods": 1}, pods=[P, pod("q")])
    wire.begin_bind(P, "n")
    wire.wait_until_held(P)
    assert "1 pods wait already" in wire.bind(pod("q"), "n").error


def test_of_a_pod_that_is_deleted_nothing_is_remembered() -> None:
    wire = wire_of(door(permit=WAIT))
    call = wire.begin_bind(P, "n")
    wire.wait_until_held(P)
    wire.gone_pod(P)
    assert call.answer().error == "the pod is deleted"
    assert passes(wire)
