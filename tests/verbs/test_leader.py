"""Where plugins keep state: what verbs answer on a replica that leads, and on another."""

from typing import Any

import pytest
from tests.doors.wire import NOT_LEADER, WAIT, Binder, Leader, Steps, Wire, needs, node, pod

REFUSED = f"kubextend is not ready: {NOT_LEADER}"
ONE, TWO = pod("one"), pod("two")


def stateful(**says: Any) -> Steps:
    return Steps("pre_filter", "filter", "reserve", "pre_bind", needs_pods=True, score=70, **says)


def wire_of(plugin: Steps, **parts: Any) -> Wire:
    """A profile whose plugin keeps state, and one whose plugin does not."""
    profiles = {"default-scheduler": [plugin], "plain": [needs("!x", name="Plain")]}
    given = {"nodes": ["n"], "pods": [ONE, TWO], "leader": Leader()}
    return Wire(profiles=profiles, **given | parts)


def leader_of(wire: Wire) -> Leader:
    assert wire.leader is not None
    return wire.leader


def test_a_replica_that_does_not_lead_answers_every_verb_with_an_error() -> None:
    plugin = stateful()
    wire = wire_of(plugin, leader=Leader(leads=False))
    assert wire.filter(ONE).error == REFUSED
    assert wire.prioritize(ONE).scores == {}
    assert wire.preempt(ONE, {"n": ["u"]}).victims == {}
    assert wire.bind(ONE, "n").error == REFUSED
    assert (plugin.calls, wire.binder.bound) == ([], {})
    # A profile without state is answered by every replica, which is ready all the same.
    assert wire.filter(pod(scheduler_name="plain")).kept == ["n"]
    assert wire.get("/readyz").status == 200
    # Nor does a leader decide that has not seen what the leader before did.
    leader_of(wire).leads, leader_of(wire).fresh = True, False
    assert (wire.filter(ONE).error, wire.bind(ONE, "n").error) == (REFUSED, REFUSED)
    leader_of(wire).fresh = True
    assert (wire.filter(ONE).error, wire.bind(ONE, "n").error) == ("", "")


def test_held_pods_are_given_up_with_the_lead_after_unreserve() -> None:
    wire = wire_of(plugin := stateful(permit=WAIT))
    assert wire.filter(ONE).error == ""
    call = wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    wire.lose()
    assert call.done
    assert call.answer().error == NOT_LEADER
    assert plugin.calls[-3:] == ["reserve", "permit", "unreserve"]
    assert (wire.assumed(), wire.binder.bound) == ({}, {})


@pytest.mark.parametrize("step", ["pre_filter", "filter", "reserve", "permit", "pre_bind"])
@pytest.mark.parametrize("wins_again", [False, True])
def test_a_bind_that_began_before_the_lead_was_lost_binds_nothing(
    step: str, wins_again: bool
) -> None:
    plugin = stateful(permit=None)
    wire = wire_of(plugin)

    def change() -> None:
        leader_of(wire).leads = False
        if wins_again:
            wire.win()

    plugin.on[step] = change
    assert wire.bind(ONE, "n").error == NOT_LEADER
    assert (plugin.reserved, wire.assumed(), wire.binder.bound) == (0, {}, {})


def test_a_binding_is_not_posted_for_longer_than_the_replica_surely_leads() -> None:
    wire = wire_of(stateful(), leader=Leader(lasts_s=0.25))
    assert wire.bind(ONE, "n").error == ""
    assert wire.binder.timeouts_s == [0.25]
    leader_of(wire).lasts_s = 0.0
    assert wire.bind(TWO, "n").error == "kubextend has not bound the pod in time"
    assert wire.binder.bound == {"uid-of-one": "n"}


# What may happen while a Binding is posted again, and the answer that it leads to.
MEANWHILE = {
    "the lead ends": (lambda wire: setattr(wire.leader, "leads", False), NOT_LEADER),
    "the node is cordoned": (
        lambda wire: wire.nodes.show(node("n", unschedulable=True), "MODIFIED"),
        "the node is cordoned, and the pod does not tolerate that",
    ),
    "the node is deleted": (
        lambda wire: wire.nodes.show(node("n"), "DELETED"),
        "the node is not among those that kubextend watches",
    ),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_forbids_a_binding_between_two_attempts_is_heeded(what: str) -> None:
    binder = Binder()
    wire = wire_of(stateful(), binder=binder)
    happens, error = MEANWHILE[what]
    binder.between = lambda: happens(wire)
    assert wire.bind(ONE, "n").error == error
    assert (binder.bound, wire.assumed()) == ({}, {})


def test_a_bind_plugin_does_not_outlive_the_lead() -> None:
    plugin = stateful(bind=None)
    plugin.closed.add("bind")
    wire = wire_of(plugin)
    call = wire.begin_bind(ONE, "n")
    wire.until(lambda: "bind" in plugin.calls)
    leader_of(wire).leads = False
    wire.skip(1)
    assert call.done
    assert call.answer().error == NOT_LEADER
    assert (plugin.reserved, wire.assumed()) == (0, {})


def test_an_earlier_term_leaves_no_rejection_by_permit_behind() -> None:
    wire = wire_of(stateful(permit=WAIT))
    call = wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    wire.held(ONE).reject("", "no")  # type: ignore[union-attr]
    assert call.answer().error == "no"
    assert wire.filter(ONE).rejected == {"n": "no"}
    wire.lose()
    wire.win()
    assert wire.filter(ONE).kept == ["n"]


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def parked(name: str, reason: str = "Unschedulable", **fields: Any) -> dict[str, Any]:
    return pod(name, status={"conditions": [UNSCHEDULABLE | {"reason": reason}]}, **fields)


def test_a_leader_wakes_what_the_leader_before_left_unschedulable_once_in_each_term() -> None:
    wire = wire_of(stateful(), pods=[parked("parked")], leader=Leader(leads=False, fresh=False))
    wire.wake_due()
    wire.win()
    wire.wake_due()
    assert wire.activator.woken == []
    leader_of(wire).fresh = True
    wire.skip(2)
    assert wire.activator.woken == ["parked"]
    wire.win()
    wire.skip(2)
    assert wire.activator.woken == ["parked"] * 2


def test_pods_that_an_earlier_process_left_unschedulable_are_woken_once_all_is_listed() -> None:
    left = [
        parked("parked"),
        parked("failed", "SchedulerError"),
        parked("gated", "SchedulingGated"),
        parked("bound", node_name="n"),
        parked("others", scheduler_name="other"),
    ]
    wire = wire_of(stateful(), pods=left, leader=None)
    wire.nodes.synced = wire.pods.synced = False
    wire.wake_due()
    wire.pods.synced = True
    wire.wake_due()
    assert wire.activator.woken == []
    wire.nodes.synced = True
    wire.skip(3)
    assert wire.activator.woken == ["parked"]
