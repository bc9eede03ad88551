"""Rejected pods that kube-scheduler is made to try again, because a node changed meanwhile.

kube-scheduler sees a change before kubextend does, or after: it asks too early, and does not again.
"""

import threading
from typing import Any

import pytest
from tests.doors.wire import Plugin, Wire, needs, node, pod, raises, rejects

from kubextend.framework import Rejection, Status

P = pod("p")
RDMA = {"rdma": ""}


def wire_of(*plugins: Any, **parts: Any) -> Wire:
    return Wire(*(plugins or [needs()]), **{"nodes": ["n", "m"]} | parts)


def test_a_pod_rejected_on_stale_labels_is_woken_once_when_its_node_changes() -> None:
    wire = wire_of()
    wire.filter(P, ["n"])
    wire.changed()
    wire.show_node(node("m", labels=RDMA))
    assert wire.activator.woken == []
    wire.show_node(node("n", labels=RDMA))
    wire.changed()
    assert wire.activator.woken == ["p"]
    assert wire.metric("kubextend_pods_woken_total") == 1


def test_a_pod_is_woken_once_however_many_threads_see_the_change() -> None:
    wire = wire_of()
    wire.filter(P, ["n"])
    changed = [node("n", labels=RDMA)]
    threads = [threading.Thread(target=wire.change_in_the_watch, args=changed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wire.activator.woken == ["p"]


@pytest.mark.parametrize(
    ("seconds", "is_broken", "woken"),
    [(1.9, False, ["p"]), (2.1, False, []), (9.9, True, ["p"]), (10.1, True, [])],
)
def test_a_change_wakes_a_pod_for_two_seconds_and_for_ten_after_a_break_of_the_watch(
    seconds: float, is_broken: bool, woken: list[str]
) -> None:
    wire = wire_of()
    wire.filter(P, ["n"])
    wire.clock.now_s += seconds
    fits = node("n", labels=RDMA)
    if is_broken:
        wire.list_nodes(fits, node("m"))
    else:
        wire.show_node(fits)
    assert wire.activator.woken == woken
    # What was broken once is whole again.
    wire.filter(pod("q"), ["m"])
    wire.clock.now_s += 2.1
    wire.show_node(node("m", labels=RDMA))
    assert wire.activator.woken == woken


def test_of_very_many_rejected_pods_the_last_are_woken() -> None:
    wire = wire_of()
    for number in range(300):
        wire.filter(pod(f"p{number}"), ["n"])
    wire.show_node(node("n", labels=RDMA))
    assert wire.activator.woken == [f"p{number}" for number in range(44, 300)]


def test_of_large_rejected_pods_those_of_the_last_sixteen_mebibytes_are_woken() -> None:
    wire = wire_of()
    for number in range(20):
        wire.filter(pod(f"p{number}", annotations={"a": "x" * 2**20}), ["n"])
    wire.show_node(node("n", labels=RDMA))
    assert wire.activator.woken == [f"p{number}" for number in range(4, 20)]


@pytest.mark.parametrize("how", ["it passed", "another rejection", "whole nodes", "it is gone"])
def test_a_pod_is_not_woken_for_a_rejection_that_counts_no_more(how: str) -> None:
    wire = wire_of(nodes=["n", "m", node("good", labels=RDMA)], pods=[P])
    if how == "whole nodes":
        wire.filter(P, whole=[node("n")])
    else:
        wire.filter(P, ["n"])
    match how:
        case "it passed":
            assert wire.filter(P, ["n", "good"]).kept == ["good"]
        case "another rejection":
            wire.filter(P, ["m"])
        case "it is gone":
            wire.gone_pod(P)
    wire.show_node(node("n", labels=RDMA))
    assert wire.activator.woken == []


def test_a_node_that_becomes_known_wakes_the_pod_too() -> None:
    wire = wire_of()
    wire.filter(P, ["n", "new"])
    wire.skip(11)
    assert wire.filter(P, ["n", "new"]).kept == []
    wire.show_node(node("new", labels=RDMA))
    assert wire.activator.woken == ["p"]


def test_a_change_while_the_filters_look_is_not_lost() -> None:
    changes = [node("n", labels=RDMA)]

    def overtaken(_state: Any, _pod: Any, nodes: Any) -> list[Rejection]:
        # The watch brings a node that fits while the old one is looked at.
        if changes:
            wire.change_in_the_watch(changes.pop())
        return [Rejection(~nodes.matches("rdma"), Status.unschedulable("no"))]

    wire = wire_of(Plugin("Overtaken", filter_nodes=overtaken))
    assert wire.filter(P, ["n"]).kept == []
    assert wire.activator.woken == ["p"]


def test_a_pod_of_which_a_filter_that_fails_can_say_nothing_is_asked_about_again() -> None:
    plugin = rejects("n")
    wire = wire_of(plugin)
    wire.filter(P, ["n"])
    plugin.meanwhile = raises(RuntimeError("0x7f3a"))
    wire.show_node(node("n", labels={"x": ""}))
    assert wire.activator.woken == ["p"]


def test_a_filter_that_fails_and_may_be_ignored_neither_wakes_a_pod_nor_keeps_it_parked() -> None:
    breaks = Plugin("Breaks", filter=raises(RuntimeError("0x7f3a")))
    wire = wire_of(breaks, needs(), ignored=["Breaks"])
    wire.filter(P, ["n"])
    wire.show_node(node("n", labels={"x": ""}))
    assert wire.activator.woken == []
    wire.show_node(node("n", labels=RDMA))
    assert wire.activator.woken == ["p"]


def test_all_of_many_rejected_pods_are_woken_once_though_the_filter_is_slow() -> None:
    def slow(_state: Any, _pod: Any, nodes: Any) -> list[Rejection]:
        wire.clock.now_s += 0.0625
        return [Rejection(~nodes.matches("rdma"), Status.unschedulable("no"))]

    wire = wire_of(Plugin("Slow", filter_nodes=slow))
    pods = [pod(f"p{number}") for number in range(10)]
    for of in pods:
        wire.filter(of, ["n"])
    wire.show_node(node("m", labels={"x": ""}))
    wire.show_node(node("n", labels=RDMA))
    assert sorted(wire.activator.woken) == [f"p{number}" for number in range(10)]
