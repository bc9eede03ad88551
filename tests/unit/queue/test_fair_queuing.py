"""Namespaces take turns: what that promises, against a model that looks through everything."""

import gc
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from queue_simulation import NEIGHBOUR, Outcome, Simulation
from queue_world import Clock, Queue, pod, released

from kubextend import core
from kubextend.plugins import PrioritySort
from kubextend.queue import FairQueuing, State, Strategy
from kubextend.queue.heap import Heap

BY_NAMESPACE = FairQueuing.BY_NAMESPACE
# What a release counts beside the time that it takes.
RELEASE_S = 1 / 128
# How long namespaces wait for each other's pods.
LATE_S = 1 / 8
# How many pods become late after a late one and go before it, with a window of 1; and for how long
# it then delays others.
MOST_OVERTAKERS = 2
DELAY_S, LONGEST_DELAY_S = 1.5, 30.0


def p99(waited_s: list[float]) -> float:
    return waited_s[int(len(waited_s) * 0.99)]


@pytest.mark.parametrize(
    ("strategy", "bound_s"), [(Strategy.BEST_EFFORT_FIFO, 2.0), (Strategy.STRICT_FIFO, 60.0)]
)
def test_a_neighbour_does_not_wait_for_all_pods_of_a_tenant(
    strategy: Strategy, bound_s: float
) -> None:
    assert p99(Simulation(strategy, BY_NAMESPACE).run()) <= bound_s
    # The tenant makes enough pods to matter.
    assert p99(Simulation(strategy, FairQueuing.NONE, seconds=120.0).run()) > bound_s


@pytest.mark.parametrize("attempt_s", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("priority", [0, 9])
def test_two_namespaces_keep_no_slow_kube_scheduler_from_a_neighbour(
    attempt_s: float, priority: int
) -> None:
    # Both have more pods than kube-scheduler can try. All are older than the neighbour's.
    backlogs = [(0.02, namespace, Outcome.BOUND, priority) for namespace in ("old", "older")]
    simulation = Simulation(
        Strategy.BEST_EFFORT_FIFO, BY_NAMESPACE, seconds=60.0, attempt_s=attempt_s
    )
    waited_s = simulation.run([*backlogs, (5.0, NEIGHBOUR, Outcome.BOUND, 0)])
    assert waited_s[-1] <= 6 * attempt_s + 0.5


@pytest.mark.parametrize("priority", [0, 9])
def test_a_pause_of_kube_scheduler_is_over_when_it_ends(priority: int) -> None:
    backlogs = [(0.04, namespace, Outcome.BOUND, priority) for namespace in ("old", "older")]
    simulation = Simulation(
        Strategy.BEST_EFFORT_FIFO, BY_NAMESPACE, seconds=60.0, attempt_s=0.2, pauses_s=(20.3, 22.3)
    )
    waited_s = simulation.run([*backlogs, (5.0, NEIGHBOUR, Outcome.BOUND, 0)])
    assert waited_s[-1] <= 5.0


@pytest.mark.parametrize("priority", [0, 9])
def test_slow_volumes_of_thirty_namespaces_do_not_stop_a_neighbour(priority: int) -> None:
    slow = [(10.0, f"slow-{number}", Outcome.SLOW_VOLUME, number % 5) for number in range(30)]
    simulation = Simulation(Strategy.BEST_EFFORT_FIFO, BY_NAMESPACE, seconds=60.0, attempt_s=0.05)
    waited_s = simulation.run([*slow, (0.2, NEIGHBOUR, Outcome.BOUND, priority)])
    assert waited_s[-1] <= 10.0


def fair(window: int = 1, strategy: Strategy = Strategy.BEST_EFFORT_FIFO) -> Queue:
    return Queue(strategy, window, PrioritySort(), fair_queuing=BY_NAMESPACE)


def some(namespace: str, count: int, *, priority: int = 0, **fields: object) -> list[core.Pod]:
    """Pods of a namespace, whose names say which it is."""
    names = (f"{namespace}{number}" for number in range(count))
    return [
        pod(name, namespace=namespace, priority=priority, **fields)  # type: ignore[arg-type]
        for name in names
    ]


def drained(queue: Queue, seconds: float = 0.0) -> list[str]:
    """The names of all pods as they are released, each bound after so many seconds."""
    names: list[str] = []
    while due := queue.release():
        names += due
        queue.clock.pass_s(seconds)
        for name in due:
            queue.queue.forget(f"uid-{name}")
    return names


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_namespaces_take_turns_whatever_the_priority_of_their_pods(seconds: float) -> None:
    queue = fair()
    queue.observe(*some("a", 3, priority=1000), *some("b", 2), *some("c", 1, priority=7))
    assert drained(queue, seconds) == ["a0", "c0", "b0", "a1", "b1", "a2"]


def test_within_a_namespace_the_order_is_the_plugins() -> None:
    queue = fair()
    queue.observe(*(pod(f"a{priority}", priority=priority) for priority in (1, 3, 2)))
    assert drained(queue) == ["a3", "a2", "a1"]


def test_without_turns_the_order_is_the_plugins_among_all() -> None:
    queue = Queue(plugin=PrioritySort())
    queue.observe(*some("a", 2), *some("b", 2, priority=1))
    assert drained(queue) == ["b0", "b1", "a0", "a1"]


def test_the_turns_are_of_equal_time_and_not_of_equal_numbers() -> None:
    queue = fair()
    queue.observe(*some("a", 2, priority=1), *some("b", 40))
    assert queue.release() == ["a0"]
    queue.clock.pass_s(LATE_S)
    queue.queue.forget("uid-a0")
    names = drained(queue, seconds=LATE_S / 8)
    # Each release counts as half as much again.
    assert names.index("a1") == 6


def test_the_time_that_a_patch_takes_counts() -> None:
    queue = fair()
    queue.observe(*some("a", 2, priority=1), *some("b", 9))
    assert queue.due() == ["a0"]
    queue.clock.pass_s(5 * LATE_S)
    queue.queue.refused("uid-a0", "too large")
    queue.queue.forget("uid-a0")
    assert drained(queue, seconds=LATE_S)[:6] == ["b0", "b1", "b2", "b3", "b4", "a1"]


def test_the_time_that_a_plugin_takes_to_hold_a_pod_back_counts() -> None:
    queue = fair()

    def slowly(made: core.Pod) -> str:
        queue.clock.pass_s(0.25)
        return "not yet" if made.namespace == "a" else ""

    queue = Queue(
        plugin=PrioritySort(), fair_queuing=BY_NAMESPACE, clock=queue.clock, why_held=slowly
    )
    queue.observe(*some("a", 50, priority=1000), *some("b", 1))
    asked_at_s = queue.clock()
    assert queue.due() == ["b0"]
    assert queue.clock() - asked_at_s == 0.5


def test_nobody_saves_up_turns() -> None:
    queue = fair()
    queue.observe(*some("a", 20))
    for number in range(10):
        assert queue.release() == [f"a{number}"]
        queue.clock.pass_s(1)
        queue.queue.forget(f"uid-a{number}")
    assert queue.release() == ["a10"]
    # Ten seconds were of one namespace alone; the other gets no ten in a row.
    queue.observe(*some("b", 10))
    queue.clock.pass_s(1)
    queue.queue.forget("uid-a10")
    assert drained(queue, seconds=1.0)[:4] == ["b0", "a11", "b1", "a12"]


def test_a_namespace_does_not_get_new_turns_by_having_no_pod_for_a_moment() -> None:
    queue = fair()
    queue.observe(*some("b", 9), *some("a", 1, priority=1000))
    assert queue.release() == ["a0"]
    queue.clock.pass_s(LATE_S)
    queue.queue.forget("uid-a0")
    queue.observe(pod("a1", namespace="a", priority=1000))
    assert drained(queue, seconds=3 * LATE_S / 8)[:4] == ["b0", "b1", "b2", "a1"]


def test_a_window_is_shared_by_the_namespaces_that_wait() -> None:
    queue = fair(window=4)
    queue.observe(*some("a", 9, priority=1000), *some("b", 9))
    assert queue.due() == ["a0", "b0", "a1", "b1"]


def test_another_replica_that_takes_over_goes_on_with_the_turns() -> None:
    follower = fair()
    follower.leads = lambda: False
    follower.observe(*some("a", 9, priority=1000), *some("b", 9))
    for number in range(3):
        follower.observe(released(f"a{number}", namespace="a", priority=1000))
        follower.clock.pass_s(1)
        follower.queue.forget(f"uid-a{number}")
    follower.leads = lambda: True
    assert drained(follower, seconds=1.0)[:5] == ["b0", "b1", "b2", "a3", "b3"]


def test_positions_are_those_of_the_turns() -> None:
    queue = fair()
    queue.observe(*some("a", 3, priority=1000), *some("b", 3))
    assert queue.release() == ["a0"]
    shown = {
        entry.info.pod.name: entry.position
        for entry in queue.queue.entries()
        if entry.position is not None
    }
    assert shown == {"b0": 1, "a1": 2, "b1": 3, "a2": 4, "b2": 5}
    queue.queue.forget("uid-a0")
    assert drained(queue) == list(shown)


def test_namespaces_that_have_nothing_ready_take_no_memory() -> None:
    def heaps() -> int:
        return sum(isinstance(each, Heap) for each in gc.get_objects())

    queue = fair()
    before = heaps()
    for number in range(100):
        queue.observe(pod(f"p{number}", namespace=f"n{number}"))
    assert heaps() > before + 50
    assert len(drained(queue, seconds=1.0)) == 100
    assert heaps() <= before + 1


def test_a_namespace_whose_turns_are_over_takes_no_memory_while_others_have_pods() -> None:
    def heaps() -> int:
        return sum(isinstance(each, Heap) for each in gc.get_objects())

    queue = fair()
    queue.observe(*some("a", 150))
    before = heaps()
    for number in range(100):
        queue.observe(pod(f"p{number}", namespace=f"n{number}"))
    made: list[str] = []
    while len(made) < 150:
        (name,) = queue.release()
        made.append(name)
        queue.clock.pass_s(0.5)
        queue.queue.forget(f"uid-{name}")
    assert sum(name.startswith("p") for name in made) == 100
    # Pods of the others are ready still, and have used as much as the hundred.
    assert queue.queue.counts()[State.READY] == 100
    assert heaps() <= before


def many(count: int, namespace: str = "a", **fields: object) -> Queue:
    """A queue of which kube-scheduler has so many pods of a namespace and cannot place them."""
    queue = Queue(plugin=PrioritySort(), fair_queuing=BY_NAMESPACE)
    for number in range(count):
        bad = released(f"bad{number}", "Unschedulable", namespace=namespace, **fields)
        queue.observe(bad)
    return queue


def test_a_namespace_with_a_hundred_unschedulable_pods_gets_one_more_each_max_hold() -> None:
    queue = many(99)
    queue.observe(*some("a", 9), *some("b", 2))
    for name in ("a0", "b0", "b1"):
        assert queue.release() == [name]
        queue.observe(released(name, "Unschedulable", namespace=name[0]))
    assert queue.due() == []
    assert queue.queue.next_look_s() == 60.0
    shown = {entry.info.pod.name: (entry.position, entry.why) for entry in queue.queue.entries()}
    assert shown["a1"] == (
        None,
        "waits because kube-scheduler cannot place 100 pods of its namespace",
    )
    queue.clock.pass_s(59.5)
    assert queue.due() == []
    queue.clock.pass_s(0.5)
    assert queue.queue.next_look_s() == 0.0
    assert queue.release() == ["a1"]
    queue.observe(released("a1", "Unschedulable", namespace="a"))
    # The more there are the longer it takes.
    assert queue.queue.next_look_s() == pytest.approx(60.6)


@pytest.mark.parametrize("end", ["placed or deleted", "held in Permit"])
def test_the_next_pod_goes_as_soon_as_one_of_the_hundred_is_placed(end: str) -> None:
    queue = many(100)
    queue.observe(*some("a", 3))
    assert queue.due() == []
    if end == "held in Permit":
        queue.queue.held_in_permit("uid-bad7")
    else:
        queue.queue.forget("uid-bad7")
    assert queue.release() == ["a0"]
    queue.observe(released("a0", "SchedulerError", namespace="a"))
    assert queue.due() == []
    queue.queue.forget("uid-bad8")
    assert queue.release() == ["a1"]


def test_a_pod_that_permit_rejected_counts_again() -> None:
    queue = many(100)
    queue.observe(*some("a", 3))
    queue.queue.held_in_permit("uid-bad7")
    # Late views from before Permit held the pod.
    for verdict in ("Unschedulable", "SchedulerError"):
        queue.observe(released("bad7", verdict, namespace="a"))
    assert queue.release() == ["a0"]
    queue.queue.forget("uid-a0")
    queue.queue.left_permit("uid-bad7")
    assert queue.due() == []


def test_a_gang_larger_than_a_hundred_gets_all_its_pods_while_permit_holds_them() -> None:
    queue = many(0)
    queue.observe(*some("a", 300))
    for number in range(250):
        assert queue.release() == [f"a{number}"]
        queue.queue.held_in_permit(f"uid-a{number}")
    # One pod fits nowhere, so all are sent back.
    for number in range(250):
        queue.queue.left_permit(f"uid-a{number}")
        queue.observe(released(f"a{number}", "SchedulerError", namespace="a"))
    assert queue.due() == []
    # There is room now.
    for number in range(250):
        queue.queue.held_in_permit(f"uid-a{number}")
    for number in range(250, 300):
        assert queue.release() == [f"a{number}"]
        queue.queue.held_in_permit(f"uid-a{number}")
    assert queue.due() == []


def test_a_namespace_saves_up_no_turns_while_it_waits_for_its_unschedulable_pods() -> None:
    queue = many(100)
    queue.observe(*some("a", 20), *some("b", 80))
    for number in range(50):
        assert queue.release() == [f"b{number}"]
        queue.clock.pass_s(1)
        queue.queue.forget(f"uid-b{number}")
    for number in range(100):
        queue.queue.forget(f"uid-bad{number}")
    assert "".join(name[0] for name in drained(queue, seconds=1.0)[:6]) == "aababa"


def test_with_one_order_unschedulable_pods_are_not_counted() -> None:
    queue = Queue(plugin=PrioritySort())
    queue.observe(*(released(f"bad{number}", "Unschedulable") for number in range(200)))
    queue.observe(pod("a"))
    assert queue.due() == ["a"]


def test_another_replica_counts_the_same_unschedulable_pods() -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=BY_NAMESPACE)
    bad = [released(f"bad{n}", "Unschedulable", namespace="a", generation=1) for n in range(100)]
    queue.queue.replace([*bad, *some("a", 3), *some("b", 1)])
    assert queue.release() == ["b0"]
    queue.queue.forget("uid-b0")
    assert queue.due() == []


def test_pods_that_have_other_gates_are_not_counted() -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=BY_NAMESPACE)
    for number in range(200):
        other = pod(f"o{number}", gates=["example.com/o"], reason="Unschedulable", namespace="a")
        queue.observe(other)
    queue.observe(*some("a", 1))
    assert queue.due() == ["a0"]


def test_while_a_refused_pod_is_tried_again_the_other_namespaces_go_on() -> None:
    queue = fair()
    queue.observe(*some("a", 3, priority=9), *some("b", 2))
    assert queue.due() == ["a0"]
    queue.queue.refused_once("uid-a0")
    # Whether the API refuses everything is not known yet, so the order within a namespace holds.
    assert queue.release() == ["b0"]
    queue.queue.forget("uid-b0")
    assert queue.release() == ["b1"]
    queue.queue.forget("uid-b1")
    assert queue.due() == []
    why = queue.entry("a1").why
    assert why == "waits for a/a0"
    queue.queue.refused("uid-a0", "too large")
    assert queue.release() == ["a1"]


def test_with_one_order_all_wait_while_a_refused_pod_is_tried_again() -> None:
    queue = Queue(plugin=PrioritySort())
    queue.observe(*some("a", 1, priority=9), *some("b", 2))
    assert queue.due() == ["a0"]
    queue.queue.refused_once("uid-a0")
    assert queue.due() == []


def test_a_refused_pod_that_is_released_after_all_takes_a_place() -> None:
    queue = fair()
    queue.observe(*some("a", 1, priority=9), *some("b", 2))
    assert queue.due() == ["a0"]
    queue.queue.refused_once("uid-a0")
    queue.queue.released("uid-a0")
    assert queue.state("a0") is State.RELEASED
    assert queue.due() == []
    queue.queue.forget("uid-a0")
    assert queue.due() == ["b0"]


def test_ten_thousand_namespaces_cost_each_release_little() -> None:
    asked = 0

    class Counting(PrioritySort):
        def less(self, a: object, b: object) -> bool:
            nonlocal asked
            asked += 1
            return super().less(a, b)  # type: ignore[arg-type]

    queue = Queue(plugin=Counting(), fair_queuing=BY_NAMESPACE)
    queue.observe(*(pod(f"p{number}", namespace=f"n{number}") for number in range(10_000)))
    queue.observe(*some("a", 10_000))
    asked = 0
    for _ in range(100):
        (name,) = queue.release()
        queue.queue.forget(f"uid-{name}")
    # Two questions at most for each of two children on each of 14 levels, in either heap, and a
    # release moves a flow three times.
    assert asked <= 100 * 4 * 14 * 4


def test_a_pod_that_finds_no_node_delays_its_own_namespace_alone() -> None:
    queue = fair(strategy=Strategy.STRICT_FIFO)
    queue.observe(*some("a", 2, priority=9), *some("b", 2))
    assert queue.release() == ["a0"]
    assert queue.due() == []
    queue.observe(released("a0", "Unschedulable", namespace="a", priority=9))
    assert drained(queue) == ["b0", "b1"]
    assert queue.entry("a1").why == "waits for a/a0"
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(60)
    assert queue.release() == ["a1"]


def test_a_pod_that_is_not_tried_for_an_eighth_of_a_second_delays_its_own_namespace_alone() -> None:
    queue = fair()
    queue.observe(*some("a", 2, priority=9), *some("b", 2), *some("c", 1))
    assert queue.release() == ["a0"]
    assert queue.due() == []
    assert queue.queue.next_look_s() == LATE_S
    queue.clock.pass_s(LATE_S)
    # Each further namespace waits as long again.
    assert queue.release() == ["b0"]
    assert queue.due() == []
    assert queue.queue.next_look_s() == LATE_S
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["c0"]
    queue.clock.pass_s(LATE_S)
    assert queue.due() == []
    assert queue.entry("a1").why == "waits for a/a0"
    assert queue.entry("b1").why == "waits for b/b0"
    queue.queue.forget("uid-a0")
    assert queue.release() == ["a1"]
    queue.observe(released("b0", "Unschedulable", namespace="b"))
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["b1"]


def test_a_late_pod_waits_for_kube_scheduler_until_max_hold_ends() -> None:
    queue = fair()
    queue.observe(*some("a", 2))
    assert queue.release() == ["a0"]
    queue.clock.pass_s(59.75)
    assert queue.due() == []
    assert queue.queue.next_look_s() == 0.25
    queue.clock.pass_s(0.25)
    assert queue.release() == ["a1"]


def test_a_patch_that_is_under_way_is_never_late() -> None:
    # All patches have one thread: the next one would only wait for it.
    queue = fair()
    queue.observe(*some("a", 1, priority=9), *some("b", 1))
    assert queue.due() == ["a0"]
    queue.clock.pass_s(59.0)
    assert queue.due() == []
    assert queue.queue.next_look_s() == 1.0
    queue.queue.released("uid-a0")
    assert queue.due() == []
    queue.clock.pass_s(LATE_S)
    assert queue.due() == ["b0"]


def test_with_one_order_all_wait_for_a_late_pod() -> None:
    queue = Queue(Strategy.STRICT_FIFO, plugin=PrioritySort())
    queue.observe(*some("a", 1, priority=9), *some("b", 1))
    assert queue.release() == ["a0"]
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(30)
    queue.observe(released("a0", "Unschedulable", namespace="a", priority=9))
    assert queue.due() == []


def test_the_time_beside_the_window_does_not_count() -> None:
    queue = fair()
    queue.observe(*some("a", 3, priority=9), *some("b", 20))
    assert queue.release() == ["a0"]
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["b0"]
    queue.queue.forget("uid-b0")
    queue.clock.pass_s(30)
    queue.queue.forget("uid-a0")
    # a0 used an eighth of a second, as b1 does.
    assert drained(queue, seconds=LATE_S)[:4] == ["b1", "a1", "b2", "a2"]


def test_no_more_untried_pods_are_of_one_namespace_than_the_window_has_places() -> None:
    queue = fair(window=3)
    queue.observe(*some("a", 9), *some("b", 1))
    assert queue.release() == ["a0", "b0", "a1"]
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["a2"]
    queue.queue.forget("uid-a1")
    assert queue.release() == ["a3"]
    assert queue.due() == []


def test_in_a_wide_window_too_a_namespace_waits_for_its_refused_pod() -> None:
    queue = fair(window=3)
    queue.observe(*some("a", 9))
    assert queue.due() == ["a0", "a1", "a2"]
    queue.queue.refused_once("uid-a1")
    queue.queue.forget("uid-a0")
    assert queue.due() == []
    queue.queue.refused("uid-a1", "too large")
    assert queue.due() == ["a3", "a4"]


def test_a_namespace_whose_pods_are_never_tried_costs_another_one_an_eighth_of_a_second() -> None:
    # kube-scheduler may also say only after minutes what became of a pod, as its volume is slow.
    queue = fair()
    for number in range(30):
        queue.observe(*some(f"n{number}", 2))
    queue.observe(*some("z", 10))
    made = []
    for _ in range(40):
        (name,) = queue.release()
        made.append(name)
        if name.startswith("z"):
            queue.queue.forget(f"uid-{name}")
        else:
            assert queue.due() == []
            queue.clock.pass_s(LATE_S)
    assert made == [
        *(f"n{number}0" for number in range(30)),
        *(f"z{number}" for number in range(10)),
    ]
    assert queue.entry("n01").why == "waits for n0/n00"


def test_pods_that_are_tried_at_once_go_on_while_one_is_not() -> None:
    queue = fair()
    queue.observe(*some("a", 1))
    assert queue.release() == ["a0"]
    queue.observe(*some("b", 99, priority=9))
    queue.clock.pass_s(LATE_S)
    assert len(drained(queue)) == 99


def overtaken(namespaces: str = "bc", strategy: Strategy = Strategy.BEST_EFFORT_FIFO) -> Queue:
    """A queue with a late pod a0 that a late pod of each of these namespaces overtook."""
    queue = fair(strategy=strategy)
    queue.observe(*some("a", 2))
    assert queue.release() == ["a0"]
    for namespace in namespaces:
        queue.observe(*some(namespace, 2, priority=9))
        queue.clock.pass_s(LATE_S)
        assert queue.release() == [f"{namespace}0"]
    queue.clock.pass_s(LATE_S)
    assert queue.due() == []
    return queue


def test_a_late_pod_that_two_late_ones_overtook_delays_others_for_a_second_and_a_half() -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == []
    assert queue.entry("d0").why == "waits for a/a0"
    assert queue.queue.next_look_s() == DELAY_S - 3 * LATE_S
    queue.clock.pass_s(DELAY_S - 3 * LATE_S)
    assert queue.due() == ["d0"]


def test_one_late_overtaker_delays_nobody() -> None:
    queue = overtaken("b")
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == ["d0"]


def test_pods_that_kube_scheduler_tries_after_a_late_one_do_not_wait_for_it() -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, second=1))
    assert queue.due() == ["d0"]


def test_late_pods_behind_a_late_one_do_not_overtake_it() -> None:
    queue = fair()
    queue.observe(*some("a", 1))
    assert queue.release() == ["a0"]
    for namespace in "bc":
        queue.observe(*some(namespace, 1, second=1))
        queue.clock.pass_s(LATE_S)
        assert queue.release() == [f"{namespace}0"]
    queue.clock.pass_s(LATE_S)
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == ["d0"]


def test_older_pods_of_the_same_priority_overtake_too() -> None:
    queue = fair()
    queue.observe(*some("a", 1, second=7))
    assert queue.release() == ["a0"]
    for namespace in "bc":
        queue.observe(*some(namespace, 1, second=3))
        queue.clock.pass_s(LATE_S)
        assert queue.release() == [f"{namespace}0"]
    queue.clock.pass_s(LATE_S)
    queue.observe(*some("d", 1, second=6))
    assert queue.due() == []
    queue.queue.forget("uid-d0")
    queue.observe(*some("e", 1, second=8))
    assert queue.due() == ["e0"]


@pytest.mark.parametrize("end", ["bound or deleted", "unschedulable", "held in Permit"])
def test_a_late_pod_that_is_tried_delays_nobody(end: str) -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == []
    if end == "bound or deleted":
        queue.queue.forget("uid-a0")
    elif end == "unschedulable":
        queue.observe(released("a0", "Unschedulable", namespace="a"))
    else:
        queue.queue.held_in_permit("uid-a0")
    assert queue.due() == ["d0"]


def test_with_strict_fifo_a_late_pod_that_found_no_node_delays_nobody() -> None:
    queue = overtaken(strategy=Strategy.STRICT_FIFO)
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == []
    queue.observe(released("a0", "Unschedulable", namespace="a"))
    assert queue.due() == ["d0"]


def test_while_kube_scheduler_tries_pods_before_a_late_one_it_delays_others() -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, priority=9))
    queue.clock.pass_s(1.0)
    queue.queue.forget("uid-b0")
    assert queue.due() == []
    assert queue.queue.next_look_s() == DELAY_S
    queue.clock.pass_s(1.0)
    queue.queue.forget("uid-c0")
    assert queue.due() == []
    assert queue.queue.next_look_s() == DELAY_S
    queue.clock.pass_s(DELAY_S)
    assert len(queue.due()) == 1


def test_a_late_pod_whose_time_is_over_delays_nobody_again() -> None:
    queue = overtaken()
    queue.clock.pass_s(1.0)
    queue.queue.forget("uid-b0")
    queue.clock.pass_s(DELAY_S)
    queue.queue.forget("uid-c0")
    queue.observe(*some("d", 1, priority=9))
    assert len(queue.release()) == 1
    queue.clock.pass_s(LATE_S)
    assert len(queue.release()) == 1


def test_after_a_pause_of_kube_scheduler_a_late_pod_delays_others_again() -> None:
    queue = overtaken()
    queue.clock.pass_s(6.0)
    queue.queue.forget("uid-b0")
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == []
    assert queue.queue.next_look_s() == DELAY_S
    queue.clock.pass_s(DELAY_S)
    assert len(queue.due()) == 1


def test_after_a_pause_others_are_tried_first_and_a_late_pod_delays_nobody_again() -> None:
    queue = overtaken()
    queue.clock.pass_s(6.0)
    queue.observe(*some("d", 1, priority=9))
    assert len(queue.release()) == 1
    queue.queue.forget("uid-d0")
    queue.queue.forget("uid-b0")
    queue.observe(*some("e", 1, priority=9))
    assert len(queue.due()) == 1


def test_edits_of_a_pod_that_was_tried_hide_no_pause() -> None:
    queue = overtaken(strategy=Strategy.STRICT_FIFO)
    verdict = released("c0", "Unschedulable", namespace="c", priority=9)
    for _ in range(6):
        queue.observe(verdict)
        queue.clock.pass_s(1.0)
    queue.queue.forget("uid-b0")
    queue.observe(*some("e", 1, priority=9))
    assert queue.due() == []


def test_a_late_pod_delays_others_for_thirty_seconds_at_most() -> None:
    # Somebody deletes one late pod after the other, each in time.
    queue = fair()
    first = [f"n{number}" for number in range(32)]
    for namespace in [*first, "a", "b", "c"]:
        queue.observe(*some(namespace, 1, priority=0 if namespace == "a" else 9))
        assert queue.release() == [f"{namespace}0"]
        queue.clock.pass_s(LATE_S)
    queue.observe(*some("z", 1, priority=9))
    waited_s = 3 * LATE_S
    for namespace in first:
        if queue.due():
            break
        queue.clock.pass_s(1.0)
        waited_s += 1.0
        queue.queue.forget(f"uid-{namespace}0")
    assert LONGEST_DELAY_S <= waited_s < LONGEST_DELAY_S + 1.0


def test_a_pod_that_overtakes_nobody_goes_before_one_that_would() -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, priority=9), *some("e", 1, second=1))
    assert queue.entry("d0").why == "waits for a/a0"
    assert queue.entry("e0").why == "is next"
    assert queue.release() == ["e0"]


def test_a_pod_behind_one_that_may_not_overtake_a_late_pod_is_not_shown_as_next() -> None:
    queue = overtaken()
    queue.observe(*some("d", 1, priority=9), pod("d1", namespace="d", second=1))
    assert queue.entry("d0").why == "waits for a/a0"
    assert queue.entry("d1").why == "waits for a/a0"
    assert queue.due() == []


def test_a_tried_pod_behind_a_late_one_does_not_prolong_its_delay() -> None:
    queue = overtaken()
    queue.observe(*some("e", 1, second=1))
    assert queue.release() == ["e0"]
    queue.clock.pass_s(LATE_S)
    queue.observe(*some("d", 1, priority=9))
    assert queue.due() == []
    queue.queue.forget("uid-e0")
    assert queue.queue.next_look_s() == DELAY_S - 4 * LATE_S


def test_pods_that_found_no_node_are_overtaken_without_end() -> None:
    queue = fair(strategy=Strategy.STRICT_FIFO)
    queue.observe(*some("a", 1))
    assert queue.release() == ["a0"]
    queue.observe(*some("b", 99, priority=9))
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["b0"]
    queue.observe(released("a0", "Unschedulable", namespace="a"))
    queue.queue.forget("uid-b0")
    assert len(drained(queue)) == 98


@pytest.mark.parametrize("strategy", Strategy)
def test_after_a_start_the_queue_waits_for_few_of_many_unschedulable_pods(
    strategy: Strategy,
) -> None:
    bad = [released(f"bad{number}", "Unschedulable", namespace="a") for number in range(1_000)]
    queue = fair(strategy=strategy)
    queue.queue.replace([*bad, *some("b", 1)])
    assert queue.queue.counts()[State.RELEASED] <= 1
    assert queue.due() == ["b0"]


def test_after_a_start_the_queue_waits_for_one_pod_of_each_namespace() -> None:
    queue = fair()
    listed = [
        released(f"{namespace}{number}", namespace=namespace, second=number)
        for number in range(6)
        for namespace in "ab"
    ]
    next_one = pod("next", namespace="a", second=9)
    queue.queue.replace([*listed, next_one, *some("c", 1, second=9)])
    assert queue.queue.counts()[State.RELEASED] == 2
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["c0"]
    queue.queue.forget("uid-a5")
    queue.queue.forget("uid-c0")
    assert queue.due() == ["next"]


def test_after_a_start_untried_pods_delay_another_namespace_for_an_eighth_of_a_second() -> None:
    queue = fair()
    listed = [released(f"n{number}", namespace=f"n{number}", second=number) for number in range(30)]
    next_one = pod("next", namespace="n7", second=40)
    queue.queue.replace([*listed, next_one, *some("z", 1, second=40)])
    assert queue.queue.counts()[State.RELEASED] == 30
    assert queue.due() == []
    assert queue.queue.next_look_s() == LATE_S
    queue.clock.pass_s(LATE_S)
    assert queue.due() == ["z0"]
    assert queue.entry("next").why == "waits for n7/n7"


def test_another_replica_knows_which_late_pod_was_overtaken() -> None:
    follower = fair()
    follower.leads = lambda: False
    follower.observe(*some("a", 1), *some("b", 1, priority=9), *some("c", 1, priority=9))
    for namespace, priority in (("a", 0), ("b", 9), ("c", 9)):
        seen = released(f"{namespace}0", namespace=namespace, priority=priority)
        follower.observe(seen)
        follower.clock.pass_s(LATE_S)
        follower.queue.expire()
    follower.leads = lambda: True
    follower.observe(*some("d", 1, priority=9))
    assert follower.due() == []
    assert follower.entry("d0").why == "waits for a/a0"
    follower.queue.forget("uid-a0")
    assert follower.due() == ["d0"]


def test_another_replica_charges_a_late_pod_no_more_than_the_leader_does() -> None:
    follower = fair()
    follower.leads = lambda: False
    follower.observe(*some("a", 3, priority=9), *some("b", 3))
    follower.observe(released("a0", namespace="a", priority=9))
    follower.clock.pass_s(1.0)
    follower.queue.expire()
    follower.queue.forget("uid-a0")
    follower.leads = lambda: True
    # Two turns of b take as long as the one of a, which the leader found late.
    assert drained(follower, seconds=LATE_S / 2)[:4] == ["b0", "b1", "a1", "b2"]


@pytest.mark.parametrize("strategy", Strategy)
def test_another_replica_keeps_no_pod_longer_than_the_leader_does(strategy: Strategy) -> None:
    follower = fair(strategy=strategy)
    follower.leads = lambda: False
    for number in range(200):
        namespace = "abc"[number % 3]
        seen = released(f"{namespace}{number}", namespace=namespace)
        follower.observe(pod(f"{namespace}{number}", namespace=namespace), seen)
        if strategy is Strategy.STRICT_FIFO:
            verdict = released(f"{namespace}{number}", "Unschedulable", namespace=namespace)
            follower.observe(verdict)
        follower.clock.pass_s(0.5)
        follower.queue.expire()
        assert follower.queue.counts()[State.RELEASED] <= 3
    follower.clock.pass_s(60.0)
    follower.queue.expire()
    assert follower.queue.counts()[State.RELEASED] == 0


def test_another_replica_knows_which_namespaces_wait_for_a_late_pod() -> None:
    follower = fair()
    follower.leads = lambda: False
    follower.observe(*some("a", 2, priority=9), *some("b", 1))
    follower.observe(released("a0", namespace="a", priority=9))
    # The leader released the second one an eighth of a second later; this replica saw it earlier.
    follower.clock.pass_s(LATE_S / 2)
    follower.observe(released("b0", namespace="b"))
    follower.leads = lambda: True
    follower.queue.forget("uid-b0")
    assert follower.due() == []
    assert follower.entry("a1").why == "waits for a/a0"
    follower.queue.forget("uid-a0")
    assert follower.due() == ["a1"]


MOST = 3
HOLD_S = 60.0


@dataclass
class Fact:
    """A pod, and how far it is; or the place that the members of a pod group have together.

    Attributes:
        group: its pod group; empty: it has none.
        in_group: whether the queue waits for it as for a member of its group.
        entered_s: since when it has a place in the window, or stands beside the window.
        is_released: whether its gate is removed.
        beside: whether it stands beside the window, as its first patch was refused, or it is late.
        is_late: whether it was released, became late and is not tried.
        overtakers: how many pods became late after it that kube-scheduler tries first.
        delays_until_s: until when it delays others once enough overtook it.
        delays_no_longer_at_s: when it delays nobody any more, whatever happens.
        verdict: what kube-scheduler said of it; empty while it is not tried.
        in_permit: whether Permit holds it.
    """

    name: str
    namespace: str
    priority: int
    arrived: int
    group: str = ""
    in_group: bool = False
    entered_s: float | None = None
    is_released: bool = False
    beside: bool = False
    is_late: bool = False
    overtakers: int = 0
    delays_until_s: float = 0.0
    delays_no_longer_at_s: float = 0.0
    verdict: str = ""
    in_permit: bool = False

    @property
    def key(self) -> tuple[int, int]:
        return -self.priority, self.arrived

    def used_s(self, now_s: float) -> float | None:
        """How long it took its place; after its release for no longer than it was not late."""
        if self.entered_s is None:
            return None
        return min(now_s - self.entered_s, LATE_S if self.is_released else HOLD_S)

    @property
    def is_in(self) -> bool:
        """Whether the queue waits for it, or only its namespace does."""
        return self.in_group or self.entered_s is not None

    @property
    def waits(self) -> bool:
        return not (self.is_in or self.verdict or self.in_permit)

    @property
    def is_out(self) -> bool:
        """Whether kube-scheduler has it, without a place in the window."""
        return not (self.is_in or self.waits)

    @property
    def is_unschedulable(self) -> bool:
        return bool(self.is_out and self.verdict and not self.in_permit)


@dataclass
class SlowTurns:
    """The turns of namespaces, by looking at all pods.

    Attributes:
        facts: the pods, by name.
        groups: the places of groups, by the group.
        used_s: what each namespace has used.
        begins_s: what a namespace has used that has nothing yet.
        many_since_s: of each namespace with many unschedulable pods, since when it has so many, or
            when its last pod was released.
        paused: the namespaces that wait.
        counts: how many pods of each namespace were unschedulable, in the window or beside it,
            beside it, and refused, when the namespace was last looked at.
        window: the number of places.
        progress_at_s: when a released pod was last tried, or was gone.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    groups: dict[str, Fact] = field(default_factory=dict)
    used_s: dict[str, float] = field(default_factory=dict)
    begins_s: float = 0.0
    many_since_s: dict[str, float] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    window: int = 1
    progress_at_s: float = -HOLD_S

    def waiting(self, namespace: str | None = None) -> list[Fact]:
        return [
            fact
            for fact in self.facts.values()
            if fact.waits and namespace in {None, fact.namespace}
        ]

    def ready(self) -> list[Fact]:
        """The pods whose turn may come; those that follow others of their group need none."""
        return [
            fact
            for fact in self.waiting()
            if fact.namespace not in self.paused and fact.group not in self.groups
        ]

    def members(self, group: str) -> list[Fact]:
        return [fact for fact in self.facts.values() if fact.group == group and fact.in_group]

    def places(self) -> list[Fact]:
        """What has a place in the window, or stands beside it."""
        both = [*self.facts.values(), *self.groups.values()]
        return [fact for fact in both if fact.entered_s is not None]

    def place_of(self, fact: Fact) -> Fact:
        return self.groups[fact.group] if fact.in_group else fact

    def taken(self) -> int:
        """How many places of the window are taken."""
        return sum(not place.beside for place in self.places())

    def late(self) -> list[Fact]:
        return [place for place in self.places() if place.is_late]

    def next(self, now_s: float) -> Fact | None:
        """The first that may take a free place, or else one that follows others of its group."""
        first = self.next_turn(now_s) if self.taken() < self.window else None
        if first is not None:
            return first
        for group in self.groups:
            releasing = sum(not fact.is_released for fact in self.members(group))
            following = [fact for fact in self.waiting() if fact.group == group]
            if following and releasing < self.window:
                return min(following, key=lambda fact: fact.key)
        return None

    def next_turn(self, now_s: float) -> Fact | None:
        """The first pod of a namespace that overtakes no late pod that others overtook already."""
        ready = self.ready()
        firsts = [
            min((fact for fact in ready if fact.namespace == name), key=lambda fact: fact.key)
            for name in {fact.namespace for fact in ready}
        ]
        delaying = [
            late.key
            for late in self.late()
            if late.overtakers >= MOST_OVERTAKERS + self.window - 1 and now_s < late.delays_until_s
        ]
        able = [fact for fact in firsts if not any(fact.key < key for key in delaying)]
        return min(able, key=lambda fact: (self.used(fact.namespace), *fact.key), default=None)

    def becomes_late(self, fact: Fact) -> None:
        for late in self.late():
            late.overtakers += fact.key < late.key
        fact.is_late = True
        fact.delays_until_s = (fact.entered_s or 0.0) + DELAY_S
        fact.delays_no_longer_at_s = (fact.entered_s or 0.0) + LONGEST_DELAY_S

    def is_late_no_more(self, fact: Fact, now_s: float) -> None:
        """kube-scheduler works: the pods behind this one may be next."""
        has_paused = now_s > self.progress_at_s + DELAY_S
        if fact.is_released and fact.entered_s is not None:
            self.progress_at_s = now_s
        if fact.is_late:
            fact.is_late = False
            for late in self.late():
                if fact.key < late.key and (has_paused or now_s < late.delays_until_s):
                    late.delays_until_s = min(now_s + DELAY_S, late.delays_no_longer_at_s)

    def begins(self, namespace: str) -> None:
        """A namespace without waiting pods is about to have one."""
        if not self.waiting(namespace):
            self.used_s[namespace] = max(self.used(namespace), self.begins_s)

    def used(self, namespace: str) -> float:
        return self.used_s.get(namespace, self.begins_s)

    def uses(self, namespace: str, seconds: float) -> None:
        self.used_s[namespace] = self.used(namespace) + seconds
        self.rests()

    def rests(self) -> None:
        """Once nobody waits all are equal again."""
        if not self.waiting():
            self.begins_s = max([self.begins_s, *self.used_s.values()])
            self.used_s.clear()

    def release(self, now_s: float) -> str:
        first = self.next(now_s)
        assert first is not None
        if first.group in self.groups:
            first.in_group = True
            self.rests()
            self.uses(first.namespace, RELEASE_S)
            return first.name
        used_s = self.used(first.namespace)
        if first.group:
            first.in_group = True
            place = Fact(first.group, first.namespace, first.priority, first.arrived)
            self.groups[first.group] = place
        self.place_of(first).entered_s = now_s
        self.rests()
        self.begins_s = max(self.begins_s, used_s)
        self.uses(first.namespace, RELEASE_S)
        if first.namespace in self.many_since_s:
            self.many_since_s[first.namespace] = now_s
        self.pauses(now_s, first.namespace)
        return first.name

    def leaves(self, fact: Fact, now_s: float) -> None:
        """A pod gives its place up, if it has one; it is no longer there, or it is out."""
        place = self.place_of(fact)
        fact.in_group = False
        if place is not fact and self.members(fact.group):
            self.pauses(now_s)
            return
        self.groups.pop(place.name, None)
        self.is_late_no_more(place, now_s)
        beside, used_s = place.beside, place.used_s(now_s)
        place.entered_s, place.beside = None, False
        if used_s is not None and not beside:
            self.uses(place.namespace, used_s)
        self.pauses(now_s)

    def is_free(self, fact: Fact, now_s: float) -> None:
        """A pod's gate is removed."""
        place = self.place_of(fact)
        if not place.is_released:
            self.begins_to_wait_for_kube_scheduler(place, now_s)
        fact.is_released = True

    def begins_to_wait_for_kube_scheduler(self, fact: Fact, now_s: float) -> None:
        """A pod's gate is removed: the pod takes a place from now on, even if it stood aside."""
        entered_s, fact.entered_s = fact.entered_s, now_s
        beside, fact.beside = fact.beside, False
        fact.is_released = True
        if entered_s is not None and not beside:
            self.uses(fact.namespace, now_s - entered_s)
        self.pauses(now_s, fact.namespace)

    def steps_aside(self, fact: Fact, now_s: float) -> None:
        """Others no longer wait for a pod that was released, and its own namespace does."""
        if fact.entered_s is not None and not fact.beside:
            fact.beside = True
            if fact.is_released:
                self.becomes_late(fact)
            self.uses(fact.namespace, fact.used_s(now_s) or 0.0)
            self.pauses(now_s)

    def lets_late_pods_aside(self, now_s: float) -> None:
        for place in self.places():
            if place.is_released and now_s >= (place.entered_s or 0.0) + LATE_S:
                self.steps_aside(place, now_s)

    def pauses(self, now_s: float, looked_at: str = "") -> None:
        """Look which namespaces wait now; one that goes on has saved up nothing.

        Time alone ends no pause: the end is noticed when the queue looks at the namespace, or when
        one more or one fewer of its pods is unschedulable, in the window or beside it.
        """
        for namespace in "abc":
            mine = [fact for fact in self.facts.values() if fact.namespace == namespace]
            many = sum(fact.is_unschedulable for fact in mine)
            places = [place for place in self.places() if place.namespace == namespace]
            beside = [place for place in places if place.beside]
            refused = sum(not place.is_released for place in beside)
            taken = len(places)
            counts = many, taken, len(beside), refused
            if namespace not in looked_at and counts == self.counts.get(namespace, (0, 0)):
                continue
            self.counts[namespace] = counts
            if many < MOST:
                self.many_since_s.pop(namespace, None)
            since_s = now_s if many < MOST else self.many_since_s.setdefault(namespace, now_s)
            waits = many >= MOST and now_s < since_s + HOLD_S * many / MOST
            if waits or refused or (beside and taken >= self.window):
                self.paused.add(namespace)
            elif namespace in self.paused:
                self.paused.remove(namespace)
                if self.waiting(namespace):
                    self.used_s[namespace] = max(self.used(namespace), self.begins_s)


class TurnsMachine(RuleBasedStateMachine):
    """What is due is what the slow turns say, whatever happens in whatever order."""

    window = 1

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(0.0)
        made = Queue(
            Strategy.BEST_EFFORT_FIFO,
            self.window,
            PrioritySort(),
            clock=self.clock,
            fair_queuing=BY_NAMESPACE,
            most_unschedulable=MOST,
        )
        self.queue = made.queue
        self.turns = SlowTurns(window=self.window)
        self.arrivals = 0

    def named(self, data: st.DataObject, wanted: Callable[[Fact], bool]) -> Fact:
        return self.turns.facts[
            data.draw(
                st.sampled_from([name for name, fact in self.turns.facts.items() if wanted(fact)])
            )
        ]

    def some_wait(self) -> bool:
        return bool(self.turns.waiting())

    def some_are_released(self) -> bool:
        return any(fact.is_in for fact in self.turns.facts.values())

    def permit_holds_some(self) -> bool:
        return any(fact.in_permit for fact in self.turns.facts.values())

    def some_are_out(self) -> bool:
        return any(fact.is_out for fact in self.turns.facts.values())

    def show(self, fact: Fact) -> None:
        # The group of a namespace has the same name in each.
        group = fact.group[1:]
        made = pod(fact.name, namespace=fact.namespace, priority=fact.priority, group=group)
        self.queue.observe(made)

    @rule(
        namespace=st.sampled_from("abc"),
        priority=st.integers(0, 2),
        count=st.integers(1, 4),
        group=st.sampled_from(["", "", "g", "h"]),
    )
    def create(self, namespace: str, priority: int, count: int, group: str) -> None:
        for _ in range(count):
            self.arrivals += 1
            fact = Fact(f"p{self.arrivals}", namespace, priority, self.arrivals)
            fact.group = namespace + group if group else ""
            self.turns.begins(namespace)
            self.turns.facts[fact.name] = fact
            self.show(fact)

    @precondition(some_wait)
    @rule(data=st.data())
    def one_is_deleted_while_it_waits(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.waits)
        del self.turns.facts[fact.name]
        self.turns.rests()
        self.queue.forget(f"uid-{fact.name}")

    @rule(seconds=st.sampled_from([0.0, 0.0625, 0.25, 1.0, 8.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        if all(
            self.clock() + seconds < (place.entered_s or 0.0) + HOLD_S
            for place in self.turns.places()
        ):
            self.clock.pass_s(seconds)

    @rule()
    def look(self) -> None:
        self.turns.lets_late_pods_aside(self.clock())
        self.turns.pauses(self.clock(), "abc")
        expected = []
        while self.turns.next(self.clock()):
            expected.append(self.turns.release(self.clock()))
        assert [made.name for made in self.queue.due()] == expected
        assert self.queue.next_look_s() != 0.0

    @precondition(some_are_released)
    @rule(data=st.data())
    def one_is_bound_or_deleted(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_in)
        del self.turns.facts[fact.name]
        self.turns.leaves(fact, self.clock())
        self.queue.forget(f"uid-{fact.name}")

    @precondition(some_are_released)
    @rule(data=st.data())
    def its_gate_is_removed(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_in)
        self.turns.is_free(fact, self.clock())
        self.queue.released(f"uid-{fact.name}")

    @precondition(some_are_released)
    @rule(data=st.data())
    def the_api_refuses_the_first_patch(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_in)
        if not fact.is_released:
            self.turns.steps_aside(self.turns.place_of(fact), self.clock())
        self.queue.refused_once(f"uid-{fact.name}")

    @precondition(some_are_released)
    @rule(data=st.data())
    def kube_scheduler_finds_no_node(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_in)
        self.turns.is_free(fact, self.clock())
        fact.verdict = "Unschedulable"
        self.turns.leaves(fact, self.clock())
        self.queue.observe(released(fact.name, "Unschedulable", namespace=fact.namespace))

    @precondition(some_are_released)
    @rule(data=st.data())
    def permit_holds_one(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_in)
        fact.in_permit = True
        self.turns.leaves(fact, self.clock())
        self.queue.held_in_permit(f"uid-{fact.name}")

    @precondition(some_are_out)
    @rule(data=st.data())
    def permit_holds_one_again(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_out)
        fact.in_permit = True
        self.turns.pauses(self.clock())
        self.queue.held_in_permit(f"uid-{fact.name}")

    @precondition(permit_holds_some)
    @rule(data=st.data(), late=st.booleans())
    def permit_rejects_one(self, data: st.DataObject, late: bool) -> None:
        fact = self.named(data, lambda fact: fact.in_permit)
        if late or not fact.verdict:
            self.show_verdict(fact, "SchedulerError")
        fact.in_permit = False
        self.turns.pauses(self.clock())
        self.queue.left_permit(f"uid-{fact.name}")
        self.show_verdict(fact, fact.verdict)

    @precondition(some_are_out)
    @rule(data=st.data(), verdict=st.sampled_from(["Unschedulable", "SchedulerError"]))
    def another_verdict_is_seen(self, data: st.DataObject, verdict: str) -> None:
        self.show_verdict(self.named(data, lambda fact: fact.is_out), verdict)

    @precondition(some_are_out)
    @rule(data=st.data())
    def one_is_placed_or_deleted_late(self, data: st.DataObject) -> None:
        fact = self.named(data, lambda fact: fact.is_out)
        del self.turns.facts[fact.name]
        self.turns.pauses(self.clock())
        self.queue.forget(f"uid-{fact.name}")

    def show_verdict(self, fact: Fact, verdict: str) -> None:
        """kube-scheduler says of a pod without a place in the window that it found no node."""
        fact.verdict = verdict
        self.queue.observe(released(fact.name, verdict, namespace=fact.namespace))

    def teardown(self) -> None:
        """In the end every pod is released, once."""
        left = sorted(fact.name for fact in self.turns.waiting())
        for fact in self.turns.facts.values():
            if not fact.waits:
                self.queue.forget(f"uid-{fact.name}")
        made: list[str] = []
        while due := self.queue.due():
            for each in due:
                made.append(each.name)
                self.queue.forget(each.uid)
        assert sorted(made) == left

    @invariant()
    def positions_are_the_turns_if_all_take_equally_long(self) -> None:
        turns: dict[str, int] = {}
        waiting = sorted(self.turns.ready(), key=lambda fact: fact.key)
        ahead = []
        while waiting:
            first = waiting[0]
            together = [
                fact
                for fact in waiting
                if fact is first or (fact.group and fact.group == first.group)
            ]
            waiting = [fact for fact in waiting if fact not in together]
            turn = turns.get(first.namespace, 0)
            turns[first.namespace] = turn + len(together)
            used_s = self.turns.used(first.namespace) + turn * RELEASE_S
            ahead += [(used_s, first.key, fact.key, fact.name) for fact in together]
        entries = list(self.queue.entries())
        shown = [each for each in entries if each.position is not None]
        assert [each.info.pod.name for each in shown] == [name for *_, name in sorted(ahead)]
        ready = {each.info.pod.name for each in entries if each.state is State.READY}
        assert ready == {fact.name for fact in self.turns.waiting()}


class WideTurnsMachine(TurnsMachine):
    """Namespaces take turns where three pods are released at a time."""

    window = 3


LONG = settings(max_examples=100, stateful_step_count=40, deadline=None)

TestTurns = TurnsMachine.TestCase
TestWideTurns = WideTurnsMachine.TestCase
TestTurns.settings = TestWideTurns.settings = LONG
