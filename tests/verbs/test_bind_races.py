"""Bind requests that meet others, their clients' end, deletions, and filters that look again."""

import threading
from typing import Any

import pytest
from tests.doors.wire import (
    WAIT,
    Binder,
    Hang,
    Plugin,
    Steps,
    Wire,
    answers,
    nominated,
    pod,
    raises,
    rejects,
)

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework import CycleState, PreFilterResult, Rejection, Status

ONE, TWO = pod("one"), pod("two")
FULL = Status.unschedulable("the node is full")
REPLACED = "a newer bind request for this pod took its place"


class OnePod(Plugin):
    """A filter with room for one pod on each node; ``first`` is called by the next look."""

    def __init__(self) -> None:
        self.first: Any = None
        super().__init__("OnePod", needs_pods=True, filter=self._filter)

    def _filter(self, _state: CycleState, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        first, self.first = self.first, None
        if first is not None:
            first()
        return FULL if at.pods else None


def wire_of(*plugins: Any, **parts: Any) -> Wire:
    return Wire(*plugins, **{"nodes": ["n"], "pods": [ONE, TWO]} | parts)


def test_a_held_pod_is_not_in_its_own_way_when_a_new_kube_scheduler_asks_about_it() -> None:
    wire = wire_of(OnePod(), Steps("reserve", permit=WAIT))
    assert wire.filter(ONE).kept == ["n"]
    wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    assert wire.filter(ONE).kept == ["n"]
    assert wire.preempt(ONE, {"n": ["victim"]}).victims == {"n": ["victim"]}
    # For others the pod is there.
    assert wire.filter(TWO).kept == []
    assert wire.preempt(TWO, {"n": ["victim"]}).victims == {}


def test_two_pods_whose_binds_come_together_do_not_both_take_room_for_one(hang: Hang) -> None:
    wire = wire_of(plugin := OnePod())
    assert [wire.filter(of).kept for of in (ONE, TWO)] == [["n"], ["n"]]
    plugin.first = hang
    first, second = wire.begin_bind(ONE, "n"), wire.begin_bind(TWO, "n")
    hang.over.set()
    assert (first.answer().error, second.answer().error) == ("", "the node is full")
    assert wire.binder.bound == {"uid-of-one": "n"}
    assert wire.assumed() == {"one": "n"}


def test_of_two_pods_that_are_nominated_to_room_for_one_the_first_to_be_bound_has_it() -> None:
    wire = wire_of(OnePod())
    for of in (ONE, TWO):
        assert wire.filter(of).kept == ["n"]
    # kube-scheduler assumed both, and says so of both before their Bindings are written.
    wire.show_pod(nominated(ONE, "n"), nominated(TWO, "n"))
    assert [wire.bind(of, "n").error for of in (TWO, ONE)] == ["", "the node is full"]
    assert wire.binder.bound == {"uid-of-two": "n"}


def test_a_pod_whose_binding_the_api_refuses_leaves_its_room_to_the_next() -> None:
    wire = wire_of(OnePod(), binder=Binder(ClusterError("no")))
    assert wire.bind(ONE, "n").error == "no"
    assert wire.assumed() == {}
    wire.binder.error = None
    assert wire.bind(TWO, "n").error == ""
    assert wire.assumed() == {"two": "n"}


def test_a_pod_of_a_profile_that_counts_no_pods_is_bound_while_filters_of_another_look(
    hang: Hang,
) -> None:
    looks = Plugin("Looks", needs_pods=True, filter=hang)
    quick = pod("quick", scheduler_name="quick")
    profiles = {"default-scheduler": [looks], "quick": [Steps("reserve")]}
    wire = wire_of(profiles=profiles, pods=[ONE, quick])
    call = wire.begin_bind(ONE, "n")
    assert wire.bind(quick, "n").error == ""
    assert not call.done
    hang.over.set()
    assert call.answer().error == ""
    assert set(wire.assumed()) == {"one", "quick"}


def test_a_filter_that_hangs_in_the_second_look_has_the_time_of_a_filter(hang: Hang) -> None:
    settings = {"extender.httpTimeout": "5s", "extender.permitMaxWait": "9m"}
    wire = wire_of(plugin := OnePod(), settings=settings)
    plugin.first = hang
    call = wire.begin_bind(ONE, "n")
    wire.skip(4)
    assert not call.done
    wire.skip(1)
    assert call.answer().error == 'Filter plugin "OnePod" failed'
    assert (wire.binder.bound, wire.assumed()) == ({}, {})


def test_a_client_that_leaves_while_filters_look_again_leaves_nothing_assumed(hang: Hang) -> None:
    wire = wire_of(plugin := OnePod())
    plugin.first = hang
    call = wire.begin_bind(ONE, "n")
    call.leave()
    assert call.done
    hang.over.set()
    assert wire.bind(TWO, "n").error == ""
    assert (wire.binder.bound, wire.assumed()) == ({"uid-of-two": "n"}, {"two": "n"})


def test_a_filter_that_may_be_ignored_is_left_out_of_the_second_look_too() -> None:
    breaks = Plugin("Breaks", needs_pods=True, filter=raises(RuntimeError("0x7f3a")))
    wire = wire_of(breaks, ignored=["Breaks"])
    assert wire.filter(ONE).kept == ["n"]
    assert wire.bind(ONE, "n").error == ""


def test_the_second_look_tells_the_reason_of_the_node_and_not_of_another() -> None:
    def two_reasons(_state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        nobody = Rejection(nodes.nothing(), Status.unschedulable("nobody's reason"))
        return [nobody, Rejection(nodes.everything(), FULL)]

    def narrow(_state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> PreFilterResult:
        return PreFilterResult(frozenset(nodes.names))

    plugin = Plugin("Two", needs_pods=True, pre_filter=narrow, filter_nodes=two_reasons)
    assert wire_of(plugin).bind(ONE, "n").error == "the node is full"


def test_the_second_look_changes_nothing_of_what_filter_wrote_down() -> None:
    read: list[object] = []

    def write(state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> None:
        state.write("nodes", nodes.names)

    methods = {"reserve": lambda state, *_: read.append(state.read("nodes"))}
    methods |= {"pre_filter": write, "filter": answers(None), "unreserve": answers(None)}
    wire = wire_of(Plugin(needs_pods=True, **methods), nodes=["n", "m"])
    wire.filter(ONE)
    assert wire.bind(ONE, "n").error == ""
    assert read == [["n", "m"]]


def test_a_pod_too_large_to_be_kept_whole_is_read_from_the_api_before_it_is_bound() -> None:
    large = pod("large", tolerations=[{"key": "k" * 70_000}])
    read: list[int] = []

    def count(_state: CycleState, of: core.Pod, _node: core.NodeInfo) -> None:
        read.append(len(of.tolerations[0][0]))

    wire = wire_of(Plugin("Reads", needs_pods=True, filter=count), pods=[large])
    assert wire.bind(large, "n").error == 'Filter plugin "Reads" failed'
    wire.pods.unwatched.append(large)
    assert wire.bind(large, "n").error == ""
    assert read == [70_000]


@pytest.mark.parametrize("scheduler", ["plain", "passed-through"])
@pytest.mark.parametrize("refused", ["", "no"])
def test_a_pod_without_plugins_counts_on_its_node_if_it_is_bound(
    scheduler: str, refused: str
) -> None:
    profiles = {"default-scheduler": [OnePod()], "plain": [rejects()]}
    binder = Binder(ClusterError(refused) if refused else None)
    of = pod("plain", scheduler_name=scheduler)
    settings = {"passThrough": ["passed-through"]}
    wire = wire_of(profiles=profiles, pods=[of, ONE], settings=settings, binder=binder)
    assert wire.bind(of, "n").error == refused
    assert wire.assumed() == ({} if refused else {"plain": "n"})
    assert wire.filter(ONE).kept == (["n"] if refused else [])


def test_a_bound_pod_stays_assumed_though_its_client_leaves_in_post_bind() -> None:
    plugin = Steps("reserve", "post_bind")
    plugin.closed.add("post_bind")
    wire = wire_of(plugin)
    call = wire.begin_bind(ONE, "n")
    wire.until(lambda: "post_bind" in plugin.calls)
    call.leave()
    plugin.closed.clear()
    wire.settle()
    assert (wire.binder.bound, wire.assumed()) == ({"uid-of-one": "n"}, {"one": "n"})
    assert plugin.reserved == 1


@pytest.mark.parametrize(
    ("newer", "said"), [("n", ""), ("m", "the pod is bound to node n, not to m")]
)
def test_a_newer_request_reserves_nothing_for_a_pod_that_an_older_one_binds_after_all(
    newer: str, said: str
) -> None:
    plugin, binder = Steps("reserve"), Binder()
    binder.gate.clear()
    wire = wire_of(plugin, nodes=["n", "m"], binder=binder)
    older = wire.begin_bind(ONE, "n")
    wire.until(lambda: binder.began)
    again = wire.begin_bind(ONE, newer)
    assert not older.done
    binder.gate.set()
    assert (older.answer().error, again.answer().error) == ("", said)
    assert (plugin.reserved, binder.began) == (1, 1)
    assert wire.assumed() == {"one": "n"}


@pytest.mark.parametrize("shown", [False, True])
def test_a_bind_that_is_repeated_after_its_success_succeeds_and_asks_nobody(shown: bool) -> None:
    wire = wire_of(OnePod(), plugin := Steps("reserve"))
    assert wire.bind(ONE, "n").error == ""
    if shown:
        wire.show_bound(ONE, "n")
    assert wire.bind(ONE, "n").error == ""
    assert (plugin.calls, wire.binder.began) == (["reserve"], 1)
    assert wire.assumed() == ({} if shown else {"one": "n"})
    assert wire.bind(TWO, "n").error == "the node is full"


def test_of_several_newer_requests_one_after_the_other_goes_on() -> None:
    wire = wire_of(plugin := Steps("reserve", permit=WAIT))
    older = wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    plugin.closed.add("unreserve")
    newer = [wire.begin_bind(ONE, "n") for _ in range(2)]
    wire.until(lambda: "unreserve" in plugin.calls)
    assert not older.done
    plugin.closed.clear()
    assert older.answer().error == REPLACED
    wire.until(lambda: sum(call.done for call in newer) == 1)
    (last,) = [call for call in newer if not call.done]
    (replaced,) = [call for call in newer if call.done]
    assert replaced.answer().error == REPLACED
    wire.wait_until_held(ONE)
    assert plugin.most_reserved == 1
    wire.held(ONE).reject("", "enough")  # type: ignore[union-attr]
    assert last.answer().error == "enough"
    assert plugin.reserved == 0


@pytest.mark.parametrize("leaves", ["older", "newer"])
def test_a_client_that_leaves_while_a_newer_request_takes_over_ends_its_own_request_alone(
    leaves: str,
) -> None:
    wire = wire_of(plugin := Steps("reserve", permit=WAIT))
    older = wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    plugin.closed.add("unreserve")
    newer, newest = wire.begin_bind(ONE, "n"), wire.begin_bind(ONE, "n")
    (older if leaves == "older" else newer).leave()
    plugin.closed.clear()
    wire.until(lambda: older.done and newer.done)
    wire.wait_until_held(ONE)
    assert plugin.most_reserved == 1
    wire.held(ONE).reject("", "enough")  # type: ignore[union-attr]
    assert newest.answer().error == "enough"


@pytest.mark.parametrize("gone", ["deleted", "client"])
def test_a_held_pod_whose_request_ends_gives_up_what_it_reserved_and_wakes_others(
    gone: str,
) -> None:
    plugin = Steps("reserve", permit=WAIT)
    somebody = Status.unschedulable("somebody has it")
    plugin.filter = lambda *_: somebody if plugin.reserved else None  # type: ignore[attr-defined]
    wire = wire_of(plugin)
    call = wire.begin_bind(ONE, "n")
    wire.wait_until_held(ONE)
    plugin.closed.add("unreserve")
    if gone == "client":
        call.leave()
    else:
        wire.gone_pod(ONE)
    wire.until(lambda: "unreserve" in plugin.calls)
    assert wire.filter(TWO).rejected == {"n": "somebody has it"}
    wire.wake_due()
    assert wire.activator.woken == []
    plugin.closed.clear()
    wire.until(lambda: call.done)
    wire.wake_due()
    assert wire.activator.woken == ["two"]
    if gone == "deleted":
        assert call.answer().error == "the pod is deleted"


@pytest.mark.parametrize("point", ["pre_filter", "reserve", "permit"])
def test_a_pod_that_is_deleted_before_permit_holds_it_is_neither_held_nor_counted(
    point: str,
) -> None:
    """The deletion finds no wait to end, and the pod must not complete its gang in Permit."""
    plugin = Steps("pre_filter", "reserve", permit=WAIT)
    wire = wire_of(plugin)
    deleted = threading.Event()

    def delete() -> None:
        if not deleted.is_set():
            deleted.set()
            wire.delete_in_the_watch(ONE)

    plugin.on[point] = delete
    assert wire.bind(ONE, "n").error == "the pod is deleted"
    assert wire.held(ONE) is None
    assert (wire.assumed(), wire.binder.bound, plugin.reserved) == ({}, {}, 0)
