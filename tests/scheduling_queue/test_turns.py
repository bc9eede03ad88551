"""Namespaces take turns."""

import tracemalloc
from typing import Any

import pytest
from tests.doors.queue_stories import (
    NEXT_NAMESPACE_S,
    PreEnqueuePlugin,
    Queue,
    Strategy,
    of_namespace,
    pod,
    released,
)

from kubextend import Status
from kubextend.plugins import PrioritySort

BOTH = pytest.mark.parametrize("strategy", Strategy)


def turns(strategy: Strategy = Strategy.BEST_EFFORT_FIFO, **settings: Any) -> Queue:
    settings = {"plugin": PrioritySort()} | settings
    return Queue(strategy, by_namespace=True, **settings)


def namespaces(names: list[str]) -> list[str]:
    return [name[0] for name in names]


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_namespaces_take_turns_whatever_the_priority_of_their_pods(seconds: float) -> None:
    queue = turns()
    queue.show(*of_namespace("a", 3, priority=1000))
    queue.show(*of_namespace("b", 2), *of_namespace("c", 1, priority=7))
    names = queue.drain(seconds)
    assert {*names[:3]} == {"a0", "b0", "c0"}
    assert {*names[3:5]} == {"a1", "b1"}
    assert names[5:] == ["a2"]


def test_nobody_saves_up_turns() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 20))
    for number in range(10):
        assert queue.release() == [f"a{number}"]
        queue.clock.pass_s(1)
        queue.gone(f"a{number}")
    queue.show(*of_namespace("b", 10))
    assert sorted(namespaces(queue.drain(seconds=1.0)[:6])) == ["a", "a", "a", "b", "b", "b"]


def test_a_namespace_gets_no_more_turns_by_having_no_pod_for_a_moment() -> None:
    queue = turns()
    queue.show(*of_namespace("b", 9))
    made = []
    for number in range(6):
        queue.show(pod(f"a{number}", namespace="a", priority=1000))
        (name,) = queue.release()
        made.append(name)
        queue.clock.pass_s(NEXT_NAMESPACE_S)
        queue.gone(name)
    assert sorted(namespaces(made)) == ["a", "a", "a", "b", "b", "b"]


def test_the_namespaces_that_wait_share_the_window() -> None:
    queue = turns(window=4)
    queue.show(*of_namespace("a", 9, priority=1000), *of_namespace("b", 9))
    assert sorted(queue.due()) == ["a0", "a1", "b0", "b1"]


def test_positions_are_those_of_the_turns() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 3, priority=1000), *of_namespace("b", 3))
    positions = queue.positions()
    assert list(positions.values()) == [1, 2, 3, 4, 5, 6]
    assert queue.drain() == list(positions)


@BOTH
def test_a_pod_that_finds_no_node_delays_its_own_namespace_alone(strategy: Strategy) -> None:
    queue = turns(strategy)
    queue.show(*of_namespace("a", 2))
    assert queue.release() == ["a0"]
    queue.show(*of_namespace("b", 2))
    assert queue.due() == []
    queue.show(released("a0", "Unschedulable", namespace="a"))
    if strategy is Strategy.BEST_EFFORT_FIFO:
        assert sorted(queue.drain()) == ["a1", "b0", "b1"]
        return
    assert queue.drain() == ["b0", "b1"]
    assert queue.why("a1") == "waits for a/a0"
    assert queue.next_look_s() == 60.0
    queue.clock.pass_s(60)
    assert queue.release() == ["a1"]


def test_a_pod_that_is_not_tried_for_an_eighth_of_a_second_delays_its_own_namespace_alone() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 2))
    assert queue.release() == ["a0"]
    # Each further namespace waits as long again.
    for namespace in "bc":
        queue.show(*of_namespace(namespace, 2))
        assert (queue.due(), queue.next_look_s()) == ([], NEXT_NAMESPACE_S)
        queue.clock.pass_s(NEXT_NAMESPACE_S)
        assert queue.release() == [f"{namespace}0"]
    queue.clock.pass_s(NEXT_NAMESPACE_S)
    assert queue.due() == []
    assert (queue.why("a1"), queue.why("b1")) == ("waits for a/a0", "waits for b/b0")
    # The next round begins when kube-scheduler has tried the pods of this one.
    queue.gone("a0", "b0")
    assert queue.due() == []
    assert queue.why("a1") == "waits for c/c0"
    queue.gone("c0")
    assert queue.release() == ["a1"]


def test_a_round_ends_a_second_and_a_half_after_the_last_attempt() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 2))
    assert queue.release() == ["a0"]
    queue.clock.pass_s(NEXT_NAMESPACE_S)
    queue.show(*of_namespace("b", 3))
    assert queue.release() == ["b0"]
    queue.clock.pass_s(1.0)
    # kube-scheduler does not try the pod of a.
    queue.gone("b0")
    assert (queue.due(), queue.next_look_s()) == ([], 1.5)
    assert queue.why("b1") == "waits for a/a0"
    queue.clock.pass_s(1.5)
    assert queue.release() == ["b1"]
    queue.gone("b1")
    # Nobody waits for that pod again, but its own namespace.
    assert queue.release() == ["b2"]
    assert queue.why("a1") == "waits for a/a0"


def test_a_patch_that_is_under_way_is_waited_for() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 1))
    assert queue.due() == ["a0"]
    queue.show(*of_namespace("b", 1))
    queue.clock.pass_s(59.0)
    assert queue.due() == []
    assert queue.next_look_s() == 1.0
    queue.patched("a0")
    assert queue.due() == []
    queue.clock.pass_s(NEXT_NAMESPACE_S)
    assert queue.due() == ["b0"]


@pytest.mark.parametrize("untried", [1, 2, 5, 30])
@pytest.mark.parametrize("priority", [0, 9])
def test_a_newcomer_waits_two_seconds_at_most_while_kube_scheduler_tries_no_pod(
    untried: int, priority: int
) -> None:
    queue = turns()
    for number in range(untried):
        queue.show(pod(f"{number}-0", namespace=f"{number}"), pod(f"{number}-1", namespace="z"))
        queue.release()
        queue.clock.pass_s(NEXT_NAMESPACE_S)
    queue.show(pod("new", namespace="new", priority=priority))
    began_s = queue.clock()
    while "new" not in queue.release():
        queue.clock.pass_s(1 / 16)
        assert queue.clock() - began_s <= 2.0


@pytest.mark.parametrize("end", ["bound", "unschedulable", "held in Permit"])
@BOTH
def test_a_pod_that_kube_scheduler_has_tried_delays_no_other_namespace(
    strategy: Strategy, end: str
) -> None:
    queue = turns(strategy)
    queue.show(*of_namespace("a", 1))
    assert queue.release() == ["a0"]
    queue.show(*of_namespace("b", 99, priority=9))
    assert queue.due() == []
    if end == "bound":
        queue.gone("a0")
    elif end == "unschedulable":
        queue.show(released("a0", "Unschedulable", namespace="a"))
    else:
        queue.permit_holds("a0")
    assert len(queue.drain()) == 99


def with_unschedulable(count: int, **settings: Any) -> Queue:
    """Return a queue with so many pods of the namespace ``a`` that kube-scheduler cannot place."""
    queue = turns(**settings)
    queue.list(*(released(f"bad{n}", "Unschedulable", namespace="a") for n in range(count)))
    return queue


def test_a_namespace_with_a_hundred_unschedulable_pods_gets_one_more_each_max_hold() -> None:
    queue = with_unschedulable(99)
    queue.show(*of_namespace("a", 9))
    assert queue.release() == ["a0"]
    queue.show(released("a0", "Unschedulable", namespace="a"), *of_namespace("b", 2))
    assert queue.drain() == ["b0", "b1"]
    assert queue.next_look_s() == 60.0
    assert "a1" not in queue.positions()
    assert queue.why("a1") == "waits because kube-scheduler cannot place 100 pods of its namespace"
    for name, seconds in (("a1", 0.5), ("a2", 2)):
        queue.clock.pass_s(59.5)
        assert queue.due() == []
        queue.clock.pass_s(seconds)
        assert queue.release() == [name]
        queue.show(released(name, "Unschedulable", namespace="a"))


@pytest.mark.parametrize("end", ["placed or deleted", "held in Permit"])
def test_the_next_pod_goes_as_soon_as_one_of_the_hundred_is_placed(end: str) -> None:
    queue = with_unschedulable(100)
    queue.show(*of_namespace("a", 3))
    assert queue.due() == []
    if end == "held in Permit":
        queue.permit_holds("bad7")
    else:
        queue.gone("bad7")
    assert queue.release() == ["a0"]
    queue.show(released("a0", "SchedulerError", namespace="a"))
    assert queue.due() == []
    queue.gone("bad8")
    assert queue.release() == ["a1"]


def test_a_pod_that_permit_rejected_counts_again() -> None:
    queue = with_unschedulable(100)
    queue.show(*of_namespace("a", 3))
    queue.permit_holds("bad7")
    # Late views from before Permit held the pod.
    for verdict in ("Unschedulable", "SchedulerError"):
        queue.show(released("bad7", verdict, namespace="a"))
    assert queue.release() == ["a0"]
    queue.gone("a0")
    queue.permit_lets_go("bad7")
    assert queue.due() == []


def test_a_gang_of_more_than_a_hundred_gets_all_its_pods_while_permit_holds_them() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 300))
    names = [f"a{number}" for number in range(300)]
    for name in names[:250]:
        assert queue.release() == [name]
        queue.permit_holds(name)
    # One pod fits nowhere, so all are sent back.
    queue.permit_lets_go(*names[:250])
    queue.show(*(released(name, "SchedulerError", namespace="a") for name in names[:250]))
    assert queue.due() == []
    # There is room now.
    queue.permit_holds(*names[:250])
    for name in names[250:]:
        assert queue.release() == [name]
        queue.permit_holds(name)


def test_a_namespace_that_comes_has_the_next_turn_of_the_round() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 2), *of_namespace("b", 2), *of_namespace("c", 2))
    (first,) = queue.release()
    queue.show(*of_namespace("d", 2))
    queue.gone(first)
    assert queue.release() == ["d0"]
    queue.gone("d0")
    rest = {"a0", "b0", "c0"} - {first}
    # One turn a round: the newcomer's second pod comes after the others.
    assert {*queue.drain()[:2]} == rest


def test_a_namespace_whose_pods_are_held_back_lets_the_others_of_the_round_go_first() -> None:
    asked: list[str] = []

    def rejects(held: Any) -> Status | None:
        asked.append(held.name)
        return Status.pending("not yet") if held.namespace == "a" else None

    queue = turns(pre_enqueue=(PreEnqueuePlugin(rejects),))
    queue.show(*of_namespace("b", 1), *of_namespace("a", 30))
    assert queue.due() == ["b0"]
    assert asked == ["a0", "b0"]


def test_no_pod_waits_while_a_refused_pod_of_its_namespace_is_set_aside() -> None:
    queue = turns()
    queue.show(*of_namespace("a", 3))
    assert queue.due() == ["a0"]
    queue.refused("a0")
    queue.show(*of_namespace("b", 2))
    assert sorted(queue.drain()) == ["a1", "a2", "b0", "b1"]
    queue.clock.pass_s(1.0)
    assert queue.due() == ["a0"]


@BOTH
def test_after_a_start_the_queue_waits_for_few_of_many_unschedulable_pods(
    strategy: Strategy,
) -> None:
    queue = turns(strategy)
    bad = [released(f"bad{number}", "Unschedulable", namespace="a") for number in range(1_000)]
    queue.list(*bad, *of_namespace("a", 1, second=9), *of_namespace("b", 1, second=9))
    assert queue.counts()["released"] <= 1
    assert queue.release() == ["b0"]
    queue.gone("b0")
    assert queue.due() == []


def test_after_a_start_untried_pods_delay_another_namespace_for_an_eighth_of_a_second() -> None:
    queue = turns()
    listed = [
        released(f"n{number}-{each}", namespace=f"n{number}", second=each)
        for number in range(30)
        for each in range(3)
    ]
    queue.list(*listed, pod("next", namespace="n7", second=9), *of_namespace("z", 1, second=9))
    # One of each namespace.
    assert queue.counts()["released"] == 30
    assert queue.due() == []
    queue.clock.pass_s(NEXT_NAMESPACE_S)
    assert queue.release() == ["z0"]
    queue.gone("z0")
    assert queue.why("next") == "waits for n7/n7-2"
    queue.gone("n7-2")
    assert queue.due() == ["next"]


def test_another_replica_knows_which_namespaces_wait_for_an_untried_pod() -> None:
    follower = turns(leads=False)
    follower.show(*of_namespace("a", 2), *of_namespace("b", 1))
    follower.show(released("a0", namespace="a"))
    # The leader released the second one an eighth of a second later; this replica saw it earlier.
    follower.clock.pass_s(NEXT_NAMESPACE_S / 2)
    follower.show(released("b0", namespace="b"))
    follower.leads = True
    follower.gone("b0")
    assert follower.due() == []
    assert follower.why("a1") == "waits for a/a0"
    follower.gone("a0")
    assert follower.due() == ["a1"]


@pytest.mark.slow
def test_namespaces_whose_pods_are_gone_take_no_memory() -> None:
    queue = turns()
    pods = [pod(f"p{number}", namespace=f"n{number}") for number in range(4000)]
    held_bytes = []
    tracemalloc.start()
    for first in range(0, 4000, 1000):
        queue.show(*pods[first : first + 1000])
        assert len(queue.drain(seconds=1.0)) == 1000
        held_bytes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held_bytes[3] - held_bytes[1] < 100_000


@pytest.mark.slow
def test_pods_that_change_without_end_take_no_memory() -> None:
    queue = turns()
    versions = [pod("a0", namespace="a", labels={"x": f"{number}"}) for number in range(9)]
    members = [pod(f"g{number}", namespace="g", group="g") for number in range(9)]
    held_bytes = []
    tracemalloc.start()
    for _ in range(4):
        for _ in range(300):
            queue.show(*versions, *members)
        held_bytes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held_bytes[3] - held_bytes[0] < 20_000


class Counting(PrioritySort):
    """PrioritySort that counts how often it is asked."""

    asked = 0

    def less(self, a: Any, b: Any) -> bool:
        self.asked += 1
        return super().less(a, b)


@pytest.mark.slow
def test_ten_thousand_namespaces_cost_each_release_little() -> None:
    plugin = Counting()
    queue = turns(plugin=plugin)
    queue.show(*(pod(f"p{number}", namespace=f"n{number}") for number in range(10_000)))
    queue.show(*of_namespace("a", 10_000))
    plugin.asked = 0
    for _ in range(100):
        queue.gone(*queue.release())
    # A few questions for each of 14 levels of a heap.
    assert plugin.asked <= 100 * 14 * 16


def test_pods_with_other_gates_are_not_counted_as_pods_that_kube_scheduler_cannot_place() -> None:
    queue = turns()
    for number in range(200):
        other = {"gates": ["x.dev/o"], "reason": "Unschedulable"}
        queue.show(pod(f"o{number}", namespace="a", **other))  # type: ignore[arg-type]
    queue.show(*of_namespace("a", 1))
    assert queue.due() == ["a0"]
