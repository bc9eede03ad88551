"""The members of a pod group, of which filter keeps one node each where filters count pods.

kube-scheduler does not assume a member before it asks about the next one.
"""

import logging
from typing import Any

import pytest
from tests.doors.wire import WAIT, Hang, Plugin, Steps, names_request, nominated, raises
from tests.verbs.groups import FULL, Room, Scheduler, members

from kubextend import Status, core
from kubextend.framework import Handle, Rejection

THREE = ("n0", "n1", "n2")


def test_a_gang_of_five_gets_the_five_nodes() -> None:
    scheduler = Scheduler()
    gang = scheduler.create(members(5))
    placed = scheduler.place(gang, min_count=5)
    assert sorted(placed.values()) == scheduler.nodes
    assert set(placed) == set(gang)
    assert scheduler.bound() == placed


def test_of_a_gang_of_six_for_five_nodes_no_member_is_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scheduler = Scheduler()
    gang = scheduler.create(members(6))
    # A dry run of preemption follows at once, and asks about the same members.
    for _ in range(3):
        assert scheduler.place(gang, min_count=6) == {}
    assert scheduler.bound() == {}
    assert "pod m5 of pod group ml/g fits no node" in caplog.messages
    scheduler.delete("m5")
    assert len(scheduler.place(gang[:5], min_count=5)) == 5


def test_no_place_of_an_earlier_pass_keeps_a_member_from_a_node_that_is_better_now() -> None:
    best = ["n0"]
    scores = Plugin("Best", score=lambda _state, _pod, at: 100 if at.name in best else 0)
    scheduler = Scheduler(Room(), scores, nodes=["n0", "n1"])
    scheduler.create(members(3))
    assert scheduler.passes(members(3)) == {"m0": "n0", "m1": "n1"}
    best[:] = ["n1"]
    assert scheduler.passes(members(3)) == {"m0": "n1", "m1": "n0"}


@pytest.mark.parametrize("shown", [True, False])
def test_a_plugin_that_asks_the_handle_sees_earlier_members_on_their_nodes(shown: bool) -> None:
    seen: list[tuple[dict[str, str], dict[str, str]]] = []

    class Asks:
        name = "Asks"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter_nodes(self, state: Any, of: core.Pod, nodes: core.Nodes) -> list[Rejection]:
            pods = self.handle.pods(state)
            assert pods is not None
            labelled = self.handle.labelled_pods("ml", "app", "web", state)
            on = {each.name: each.node_name for each in labelled if each.uid != of.uid}
            there = {each.name: at for at in nodes.names for each in pods.pods_on(at)}
            seen.append((there, {name: at for name, at in on.items() if at}))
            taken = core.Mask([name in there.values() for name in nodes.names])
            return [Rejection(taken, Status.unschedulable(FULL))]

    scheduler = Scheduler(Asks, nodes=THREE)
    # The watch may bring the members later than kube-scheduler asks about them.
    scheduler.create(members(3), labels={"app": "web"}, shown=shown)
    scheduler.passes(members(3))
    expected: list[dict[str, str]] = [{}, {"m0": "n0"}, {"m0": "n0", "m1": "n1"}]
    assert seen == [(each, each) for each in expected]


class Alone(Room):
    """Lets m0 onto an empty node alone, and other pods onto every node."""

    def judge(self, _state: object, of: core.Pod, at: core.NodeInfo) -> Status | None:
        return Status.unschedulable(FULL) if of.name == "m0" and at.pods else None


@pytest.mark.parametrize("order", [["m0", "m1", "m2"], ["m2", "m1", "m0"]])
@pytest.mark.parametrize("late_s", [0, 300])
def test_a_bind_looks_at_the_node_as_filter_saw_it_without_later_members(
    order: list[str], late_s: float
) -> None:
    scheduler = Scheduler(Alone(), nodes=["n0"])
    placed = scheduler.passes(scheduler.create(members(3)))
    # Volumes may delay all binds.
    scheduler.wire.skip(late_s)
    assert [scheduler.bind(name, placed[name]) for name in order] == ["", "", ""]


def test_a_bind_looks_at_the_node_without_members_of_the_groups_next_pass() -> None:
    scheduler = Scheduler(room := Room({"n0": 2}), nodes=["n0"])
    scheduler.create(members(3))
    placed = scheduler.passes(members(2))
    assert scheduler.bind("m1", placed["m1"]) == ""
    room.places = {"n0": 3}
    # A surplus member, after the first bind.
    assert scheduler.filter("m2") == ["n0"]
    assert scheduler.bind("m2", "n0") == ""
    room.places = {"n0": 1}
    assert scheduler.bind("m0", placed["m0"]) == ""


def test_a_member_that_is_asked_about_first_again_begins_a_pass_without_its_earlier_place() -> None:
    scheduler = Scheduler(nodes=["n0", "n1"])
    scheduler.create(members(3))
    assert scheduler.passes(members(3)) == {"m0": "n0", "m1": "n1"}
    # Filters of kube-scheduler reject m0 from now on, so that each pass begins with m2.
    assert scheduler.filter("m2") == []
    scheduler.wire.skip(61)
    assert scheduler.passes(["m2", "m1"]) == {"m2": "n0", "m1": "n1"}


def test_no_node_is_given_away_twice_in_a_pass_that_takes_longer_than_places_count() -> None:
    scheduler = Scheduler()
    found = []
    for name in scheduler.create(members(6)):
        found.append(scheduler.filter(name))
        scheduler.wire.skip(13)
    assert found == [["n0"], ["n1"], ["n2"], ["n3"], ["n4"], []]


def test_places_of_a_pass_count_from_its_last_call_and_once_a_bind_begins_from_there() -> None:
    scheduler = Scheduler(nodes=THREE)
    scheduler.create(members(4))
    scheduler.create(["other"], group="other")
    for name in members(3):
        scheduler.filter(name)
        scheduler.wire.skip(50)
    # A surplus member, which begins the second of these passes.
    assert [scheduler.filter("m3"), scheduler.filter("m3")] == [[], []]
    scheduler.wire.skip(350)
    assert scheduler.bind("m2", "n2") == ""
    # Volumes may delay the binds of m0 and m1.
    scheduler.wire.skip(550)
    assert scheduler.filter("other") == []
    assert scheduler.bind("m0", "n0") == ""


def test_all_nodes_are_kept_for_a_lone_pod_and_where_filters_count_no_pods() -> None:
    scheduler = Scheduler()
    scheduler.create(members(3))
    scheduler.create(["lone"], group="")
    scheduler.passes(members(3))
    # A place is no reason to reject a lone pod.
    assert scheduler.filter("lone") == scheduler.nodes
    plain = Scheduler(Plugin("Plain", filter=lambda *_: None))
    plain.create(members(2))
    assert [plain.filter(name) for name in members(2)] == [plain.nodes, plain.nodes]


def test_the_node_with_the_highest_score_is_kept_and_of_equal_ones_the_first() -> None:
    seen: list[list[str]] = []

    def score(_state: Any, _pod: Any, nodes: core.Nodes) -> list[int]:
        seen.append(nodes.names)
        return [{"n3": 93, "n1": 94, "n4": 94}.get(name, 0) for name in nodes.names]

    fails = Plugin("Fails", score=raises(RuntimeError("left out")))
    scheduler = Scheduler(Room(), Plugin("ByName", score_nodes=score), fails)
    scheduler.create(members(3))
    assert [scheduler.filter(name) for name in members(3)] == [["n1"], ["n4"], ["n3"]]
    # As in kube-scheduler, Score is called for the nodes that filters left.
    assert seen[2] == ["n0", "n2", "n3"]


def test_a_plugin_that_scores_sees_the_places_of_earlier_members() -> None:
    spreads = Plugin("S", needs_pods=True, score=lambda _state, _pod, at: 50 - len(at.pods))
    scheduler = Scheduler(Room(dict.fromkeys(THREE, 3)), spreads, nodes=THREE)
    scheduler.create(members(3))
    # kube-scheduler has assumed the earlier members on their nodes by then.
    assert [scheduler.filter(name) for name in members(3)] == [["n0"], ["n1"], ["n2"]]


def test_what_filter_says_of_the_nodes_that_it_did_not_choose_may_be_cured_by_preemption() -> None:
    scheduler = Scheduler(nodes=THREE)
    scheduler.create(members(2))
    scheduler.filter("m0")
    said = scheduler.wire.filter(scheduler.pods["m1"], THREE)
    assert said.kept == ["n1"]
    assert said.json["FailedNodes"] == {"n0": FULL, "n2": "another node was chosen"}


def test_a_nominated_node_that_is_full_is_asked_about_before_all_nodes_in_the_same_pass() -> None:
    scheduler = Scheduler(nodes=["n0", "n1"])
    scheduler.create(members(3))
    scheduler.pods["m1"] = nominated(scheduler.pods["m1"], "n0")
    for _ in range(2):
        assert scheduler.filter("m0") == ["n0"]
        assert scheduler.filter("m1", ["n0"]) == []
        assert scheduler.filter("m1") == ["n1"]
        assert scheduler.filter("m2") == []


def test_a_member_that_is_nominated_to_a_node_and_has_a_place_counts_once() -> None:
    scheduler = Scheduler(Room({"n0": 2, "n1": 1}), nodes=["n0", "n1"])
    scheduler.create(members(3))
    for name in members(3):
        scheduler.pods[name] = nominated(scheduler.pods[name], "n0")
        scheduler.wire.pods.show(scheduler.pods[name])
    assert scheduler.filter("m0", ["n0"]) == []
    assert scheduler.filter("m0") == ["n1"]
    # m2 is still nominated to n0, and so m1 is the second there.
    assert scheduler.filter("m1", ["n0"]) == ["n0"]
    assert scheduler.filter("m2", ["n0"]) == ["n0"]


def test_a_surplus_member_leaves_the_others_their_places_until_they_are_bound() -> None:
    scheduler = Scheduler(room := Room({"n0": 0, "n1": 0}), nodes=["n0", "n1"])
    scheduler.create(members(4))
    assert scheduler.filter("m0") == []
    room.places = {}
    # The policy is basic: kube-scheduler goes on after m0, and binds the members with a node.
    assert scheduler.passes(["m1", "m2", "m3"]) == {"m1": "n0", "m2": "n1"}
    # Volumes may delay the binds of m1 and m2.
    for _ in range(3):
        scheduler.wire.skip(2)
        assert scheduler.passes(["m0", "m3"]) == {}
    assert scheduler.bind("m1", "n0") == ""
    scheduler.wire.skip(300)
    assert scheduler.filter("m0") == []
    assert scheduler.bind("m2", "n1") == ""


def test_a_second_group_is_rejected_while_the_first_may_still_be_bound() -> None:
    scheduler = Scheduler()
    first = scheduler.create(members(5))
    second = scheduler.create(members(5, "o"), group="other")
    placed = scheduler.passes(first)
    assert scheduler.passes(second) == {}
    for name in first:
        assert scheduler.bind(name, placed[name]) == ""
    assert scheduler.passes(second) == {}
    for name in first:
        scheduler.delete(name)
    assert len(scheduler.passes(second)) == 5


def test_a_second_group_gets_the_nodes_of_a_group_that_is_not_bound_in_half_a_second() -> None:
    scheduler = Scheduler()
    scheduler.passes(scheduler.create(members(6)))
    second = scheduler.create(members(5, "o"), group="other")
    # filter rejects at once: while it waited, kube-scheduler would ask about nobody else.
    assert scheduler.filter("o0") == []
    scheduler.wire.skip(0.5)
    assert len(scheduler.place(second, min_count=5)) == 5


def test_groups_of_one_name_in_two_namespaces_are_two_groups() -> None:
    scheduler = Scheduler(nodes=["n0", "n1"])
    scheduler.create(["m0"])
    scheduler.create(["m1"], namespace="web")
    assert scheduler.filter("m0") == ["n0"]
    scheduler.wire.skip(2)
    assert scheduler.filter("m1") == ["n0"]


def test_a_rejected_member_is_not_woken_when_nodes_change_and_a_lone_pod_is() -> None:
    room = Room(dict.fromkeys((f"n{number}" for number in range(5)), 0))
    scheduler = Scheduler(room)
    scheduler.create(["m0"])
    scheduler.create(["lone"], group="")
    assert (scheduler.filter("m0"), scheduler.filter("lone")) == ([], [])
    room.places = {}
    scheduler.wire.changed()
    assert scheduler.wire.activator.woken == ["lone"]


def test_a_pod_that_is_to_be_bound_gives_way_to_a_group_whose_binds_are_on_their_way() -> None:
    scheduler = Scheduler(nodes=["n0"])
    scheduler.create(["lone"], group="")
    scheduler.create(["m0"])
    assert (scheduler.filter("lone"), scheduler.filter("m0")) == (["n0"], ["n0"])
    lone = scheduler.wire.begin_bind(scheduler.pods["lone"], "n0")
    assert not lone.done
    assert scheduler.bind("m0", "n0") == ""
    scheduler.wire.skip(0.5)
    assert lone.answer().error == FULL
    assert scheduler.bound() == {"m0": "n0"}


def test_a_pod_that_is_to_be_bound_waits_half_a_second_for_the_binds_of_a_group() -> None:
    scheduler = Scheduler(nodes=["n0"])
    scheduler.create(["lone"], group="")
    scheduler.create(members(2))
    scheduler.filter("lone")
    assert len(scheduler.passes(members(2))) == 1
    lone = scheduler.wire.begin_bind(scheduler.pods["lone"], "n0")
    scheduler.wire.skip(0.4)
    assert not lone.done
    scheduler.wire.skip(0.1)
    assert lone.answer().error == ""


def test_a_pod_that_is_to_be_bound_is_refused_at_once_once_a_bind_of_the_group_has_begun() -> None:
    scheduler = Scheduler(nodes=["n0", "n1"])
    scheduler.create(["lone"], group="")
    scheduler.create(members(2))
    scheduler.filter("lone")
    assert scheduler.passes(members(2)) == {"m0": "n0", "m1": "n1"}
    assert scheduler.wire.bind(scheduler.pods["m1"], "n1").error == ""
    lone = scheduler.wire.begin_bind(scheduler.pods["lone"], "n0")
    assert lone.done
    assert lone.answer().error == FULL


def test_a_pod_that_is_to_be_bound_waits_for_no_group_that_leaves_it_room() -> None:
    scheduler = Scheduler(Room({"n0": 3}), nodes=["n0"])
    scheduler.create(["lone"], group="")
    scheduler.create(members(2))
    scheduler.filter("lone")
    assert len(scheduler.passes(members(2))) == 2
    lone = scheduler.wire.begin_bind(scheduler.pods["lone"], "n0")
    assert lone.done
    assert lone.answer().error == ""


def test_a_bind_that_was_given_up_and_ends_late_leaves_the_member_its_newer_place() -> None:
    steps = Steps("reserve", permit=WAIT)
    scheduler = Scheduler(Room(), steps, nodes=["n0", "n1"])
    scheduler.create(members(2))
    assert scheduler.passes(members(2)) == {"m0": "n0", "m1": "n1"}
    bind = scheduler.wire.begin_bind(scheduler.pods["m0"], "n0")
    scheduler.wire.wait_until_held(scheduler.pods["m0"])
    steps.closed.add("unreserve")
    bind.leave()
    scheduler.wire.until(lambda: "unreserve" in steps.calls)
    assert scheduler.filter("m0") == ["n0"]
    steps.closed.clear()
    scheduler.wire.until(lambda: not scheduler.wire.assumed())
    assert scheduler.filter("m1") == ["n1"]


def test_a_pod_that_is_assumed_while_a_member_is_decided_is_not_overlooked(hang: Hang) -> None:
    class Slow(Room):
        def judge(self, state: object, of: core.Pod, at: core.NodeInfo) -> Status | None:
            said = super().judge(state, of, at)
            if (of.name, at.name, hang.calls) == ("m0", "n0", 0):
                hang()
            return said

    scheduler = Scheduler(Slow(), nodes=["n0", "n1"])
    scheduler.create(["lone"], group="")
    scheduler.create(["m0"])
    scheduler.filter("lone")
    call = scheduler.wire.begin("/filter", names_request(scheduler.pods["m0"], ["n0", "n1"]))
    assert scheduler.wire.bind(scheduler.pods["lone"], "n0").error == ""
    hang.over.set()
    assert call.answer().kept == ["n1"]


def test_a_node_whose_pods_keep_changing_is_given_to_nobody() -> None:
    class Busy(Room):
        def judge(self, state: object, of: core.Pod, at: core.NodeInfo) -> Status | None:
            (late,) = scheduler.create([f"late{len(scheduler.pods)}"], group="", node_name="n0")
            del late
            return super().judge(state, of, at)

    scheduler = Scheduler(Busy({"n0": 10_000}), nodes=["n0"])
    scheduler.create(["m0"])
    scheduler.create(["lone"], group="")
    said = scheduler.wire.filter(scheduler.pods["m0"], ["n0"])
    assert said.json["FailedNodes"] == {"n0": "the pods on the chosen node kept changing"}
    assert scheduler.bind("lone", "n0") == "the pods on the node kept changing"
    assert scheduler.wire.assumed() == {}


@pytest.mark.parametrize(
    ("what", "offered"),
    [
        ("no member has it", ["n0"]),
        ("its member may still be bound", ["n0"]),
        ("its member is bound", []),
        ("no room", []),
    ],
)
def test_a_pod_is_evicted_for_the_node_of_a_member_unless_the_member_is_bound(
    what: str, offered: list[str]
) -> None:
    scheduler = Scheduler(room := Room({"n0": 2}), nodes=["n0", "n1"])
    scheduler.create(["victim", "preempts"], group="")
    scheduler.show_bound("victim", "n0")
    scheduler.create(["m0"])
    assert scheduler.filter("m0", ["n0"]) == ["n0"]
    if what == "no member has it":
        scheduler.delete("m0")
    if what == "its member is bound":
        assert scheduler.bind("m0", "n0") == ""
    room.places = {"n0": 0 if what == "no room" else 1}
    said = scheduler.wire.preempt(scheduler.pods["preempts"], {"n0": ["uid-of-victim"]})
    assert list(said.victims) == offered
