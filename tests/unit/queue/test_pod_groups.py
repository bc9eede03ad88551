"""The members of a pod group are released together, as one place in the window.

Source: kube-scheduler 1.37 tries no member of a group while one member has a scheduling gate.
"""

import json

import pytest
from queue_simulation import NEIGHBOUR, OTHER_TENANT, TENANT, Makers, Outcome, Simulation
from queue_world import GATE, Queue, pod, released

from kubextend import core
from kubextend.plugins import PrioritySort
from kubextend.queue import FairQueuing, State, Strategy
from kubextend.testing import pod_manifest

LATE_S = 1 / 8
RELEASE_S = 1 / 128
BOTH = pytest.mark.parametrize("fair_queuing", FairQueuing)


def members(count: int, group: str = "g", first: int = 0, **fields: object) -> list[core.Pod]:
    """Members of a group, whose names say which they are."""
    names = (f"{group}{number}" for number in range(first, first + count))
    return [pod(name, group=group, **fields) for name in names]  # type: ignore[arg-type]


def one_order(window: int = 1, strategy: Strategy = Strategy.BEST_EFFORT_FIFO) -> Queue:
    return Queue(strategy, window, PrioritySort())


def turns(window: int = 1) -> Queue:
    return Queue(window=window, plugin=PrioritySort(), fair_queuing=FairQueuing.BY_NAMESPACE)


def large(name: str, group: str, **metadata: object) -> core.Pod:
    """A member that is kept without some of its parts."""
    manifest = pod_manifest(
        name,
        uid=f"uid-{name}",
        creation_timestamp="2030-01-01T00:00:00Z",
        annotations={"a": "x" * 1000},
        schedulingGates=[{"name": GATE}],
        schedulingGroup={"podGroupName": group},
        **metadata,
    )
    store = core.PodStore(max_pod_bytes=100)
    listed = {"metadata": {"resourceVersion": "1"}, "items": [manifest]}
    store.replace(json.dumps(listed).encode())
    (made,) = store.pods()
    assert made.truncated
    assert made.scheduling_group == group
    return made


def all_released(queue: Queue) -> list[str]:
    """The names of all pods that are due until the window is full, as their gates are removed."""
    names: list[str] = []
    while due := queue.release():
        names += due
    return names


def bind(queue: Queue, *names: str) -> None:
    for name in names:
        queue.queue.forget(f"uid-{name}")


@BOTH
def test_the_members_of_a_group_take_one_place(fair_queuing: FairQueuing) -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=fair_queuing)
    queue.observe(*members(20), pod("lone", second=1))
    assert all_released(queue) == [f"g{number}" for number in range(20)]
    bind(queue, *(f"g{number}" for number in range(19)))
    assert queue.due() == []
    bind(queue, "g19")
    assert queue.due() == ["lone"]


def test_a_group_has_the_turn_of_its_first_member_and_its_members_the_order_of_the_plugin() -> None:
    queue = one_order()
    queue.observe(
        *members(2, second=5), pod("mid", second=3), pod("g7", group="g", second=1), pod("z")
    )
    assert queue.release() == ["z"]
    bind(queue, "z")
    assert all_released(queue) == ["g7", "g0", "g1"]
    bind(queue, "g0", "g1", "g7")
    assert queue.release() == ["mid"]


def test_groups_of_one_name_in_two_namespaces_are_two() -> None:
    queue = one_order()
    queue.observe(*members(2), pod("other", group="g", namespace="elsewhere", second=1))
    assert all_released(queue) == ["g0", "g1"]


def test_a_group_has_no_more_patches_under_way_than_the_window_has_places() -> None:
    queue = one_order(window=2)
    queue.observe(*members(9), *members(9, "h", second=1))
    assert queue.due() == ["g0", "h0", "g1", "h1"]
    assert queue.due() == []
    queue.queue.released("uid-h1")
    assert queue.due() == ["h2"]


def test_a_pod_that_takes_a_free_place_goes_before_the_members_of_a_large_group() -> None:
    queue = one_order(window=2)
    queue.observe(*members(9))
    assert queue.due() == ["g0", "g1"]
    queue.observe(pod("lone", second=9))
    queue.queue.released("uid-g0")
    assert queue.due() == ["lone", "g2"]


def test_a_member_that_comes_late_goes_with_its_group() -> None:
    queue = one_order()
    queue.observe(*members(2), pod("lone"))
    assert all_released(queue) == ["g0", "g1"]
    queue.observe(pod("g2", group="g", second=9))
    assert queue.queue.next_look_s() == 0.0
    assert queue.release() == ["g2"]
    bind(queue, "g0", "g1")
    assert queue.due() == []
    bind(queue, "g2")
    assert queue.due() == ["lone"]


def test_a_member_that_comes_after_its_group_is_placed_waits_for_a_turn() -> None:
    queue = one_order()
    queue.observe(*members(2), pod("lone", second=1))
    assert all_released(queue) == ["g0", "g1"]
    bind(queue, "g0", "g1")
    assert queue.release() == ["lone"]
    queue.observe(pod("g2", group="g"))
    assert queue.due() == []
    bind(queue, "lone")
    assert queue.due() == ["g2"]


@BOTH
def test_members_that_come_without_end_do_not_prolong_the_time_of_their_group(
    fair_queuing: FairQueuing,
) -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=fair_queuing)
    queue.observe(*members(1), pod("lone", second=1))
    for number in range(1, 120):
        assert queue.release() == [f"g{number - 1}"]
        queue.observe(pod(f"g{number}", group="g", second=2))
    queue.clock.pass_s(59.0)
    assert queue.release() == ["g119"]
    queue.observe(pod("g120", group="g", second=2))
    queue.clock.pass_s(1.0)
    assert queue.release() == ["lone"]
    assert queue.queue.counts()[State.RELEASED] == 1


def test_a_late_answer_gives_a_group_no_new_place() -> None:
    queue = one_order()
    queue.observe(*members(3), pod("lone", second=1))
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    queue.clock.pass_s(60.0)
    assert queue.release() == ["g2"]
    bind(queue, "g2")
    assert queue.state("g1") is State.SET_ASIDE
    queue.queue.released("uid-g1")
    assert queue.release() == ["lone"]
    queue.observe(pod("g3", group="g"))
    assert queue.due() == []


def test_a_gate_that_is_seen_to_be_gone_late_gives_a_group_no_new_place() -> None:
    queue = one_order()
    queue.observe(*members(1), pod("lone", second=1))
    assert queue.due() == ["g0"]
    queue.clock.pass_s(60.0)
    assert queue.release() == ["lone"]
    bind(queue, "lone")
    queue.observe(released("g0", group="g"))
    assert queue.state("g0") is None
    queue.observe(pod("next", second=2))
    assert queue.due() == ["next"]


def test_a_late_answer_counts_while_the_group_has_its_place() -> None:
    queue = one_order()
    queue.observe(*members(2))
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    queue.queue.refused("uid-g1", "no")
    queue.queue.released("uid-g1")
    assert queue.state("g1") is State.RELEASED
    bind(queue, "g0")
    queue.observe(pod("lone"))
    assert queue.due() == []


def test_no_patch_of_a_group_and_no_wait_for_it_takes_longer_than_max_hold() -> None:
    queue = one_order()
    queue.observe(*members(2), pod("lone", second=1))
    assert queue.due() == ["g0"]
    queue.clock.pass_s(59.0)
    queue.queue.released("uid-g0")
    assert queue.release() == ["g1"]
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(60.0)
    assert queue.due() == ["lone"]


def test_a_sole_member_whose_patch_takes_long_is_set_aside() -> None:
    queue = one_order()
    queue.observe(*members(1), pod("lone", second=1))
    assert queue.due() == ["g0"]
    queue.clock.pass_s(60.0)
    assert queue.due() == ["lone"]
    assert queue.entry("g0").why == "its gate could not be removed within maxHold"


@pytest.mark.parametrize("end", ["bound", "rejected", "held in Permit", "refused", "returned"])
def test_a_group_gives_up_its_place_with_its_last_member(end: str) -> None:
    queue = one_order()
    queue.observe(*members(2), pod("lone", second=1))
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    bind(queue, "g0")
    assert queue.due() == []
    if end == "bound":
        queue.queue.released("uid-g1")
        bind(queue, "g1")
    elif end == "rejected":
        queue.observe(released("g1", "Unschedulable", group="g"))
    elif end == "held in Permit":
        queue.queue.held_in_permit("uid-g1")
    elif end == "refused":
        queue.queue.refused("uid-g1", "too large")
    else:
        queue.queue.returned("uid-g1")
        assert queue.due() == ["g1"]
        return
    assert queue.due() == ["lone"]


def test_with_strict_fifo_the_queue_waits_for_a_group_that_finds_no_node() -> None:
    queue = one_order(strategy=Strategy.STRICT_FIFO)
    queue.observe(*members(2), *members(2, "h", second=1), pod("lone", second=2))
    assert all_released(queue) == ["g0", "g1"]
    queue.observe(*(released(f"g{number}", "Unschedulable", group="g") for number in range(2)))
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(60.0)
    # Waits in vain halve the next one, of groups too: once for each group.
    assert all_released(queue) == ["h0", "h1"]
    queue.observe(released("h0", "Unschedulable", group="h"))
    assert queue.queue.next_look_s() == 30.0


def test_a_held_member_follows_its_group_once_it_may() -> None:
    queue = one_order()
    queue.holds["g1"] = "not yet"
    queue.observe(*members(3), pod("lone", second=1))
    assert all_released(queue) == ["g0", "g2"]
    assert queue.queue.next_look_s() == 1.0
    del queue.holds["g1"]
    queue.clock.pass_s(1.0)
    assert queue.release() == ["g1"]
    queue.observe(pod("g3", group="g", gates=[GATE, "x.dev/a"]))
    assert queue.due() == []
    queue.observe(pod("g3", group="g"))
    assert queue.release() == ["g3"]


def test_a_replica_that_takes_over_goes_on_with_a_group_that_is_half_released() -> None:
    queue = one_order()
    queue.queue.replace(
        [released("g0", group="g"), *members(3, first=1, second=9), pod("lone", second=1)]
    )
    assert all_released(queue) == ["g1", "g2", "g3"]
    queue.clock.pass_s(60.0)
    assert queue.due() == ["lone"]


@BOTH
def test_after_a_start_a_group_counts_as_one(fair_queuing: FairQueuing) -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=fair_queuing)
    queue.queue.replace(
        [
            released("first", second=0),
            *(released(f"g{number}", group="g", second=1) for number in range(5)),
            pod("next", second=2),
        ]
    )
    assert queue.queue.counts()[State.RELEASED] == 5
    queue.clock.pass_s(LATE_S)
    assert queue.due() == []
    bind(queue, *(f"g{number}" for number in range(5)))
    assert queue.due() == ["next"]


def test_a_large_group_delays_another_namespace_for_an_eighth_of_a_second() -> None:
    queue = turns()
    queue.observe(*members(1000, namespace="a"), *(pod(f"b{n}", namespace="b") for n in range(3)))
    made = []
    for _ in range(60):
        for name in queue.release():
            made.append(name)
            if name.startswith("b"):
                bind(queue, name)
        queue.clock.pass_s(0.01)
    # One patch of the group is under way at a time, beside those of the others.
    assert made.index("b0") <= 14
    assert made.index("b2") <= 17
    assert len(made) >= 60
    # The namespace waits for its group alone.
    queue.observe(pod("a-lone", namespace="a", priority=9))
    assert "a-lone" not in queue.release()
    assert queue.entry("a-lone").why == "waits for pod group a/g"


def test_a_group_uses_as_many_turns_as_it_has_members() -> None:
    queue = turns()
    queue.observe(
        *members(20, namespace="a", priority=9),
        *(pod(f"a{n}", namespace="a") for n in range(2)),
        *(pod(f"b{n}", namespace="b") for n in range(30)),
    )
    assert len(all_released(queue)) == 20
    bind(queue, *(f"g{number}" for number in range(20)))
    order = []
    while due := queue.release():
        order += due
        bind(queue, *due)
    assert order.index("a0") == 20


def test_a_namespace_that_comes_after_a_large_group_waits_behind_nobody_for_it() -> None:
    queue = turns()
    queue.observe(*members(500, namespace="a"), *(pod(f"b{n}", namespace="b") for n in range(9)))
    while len(queue.release()) > 0 and queue.state("g250") is State.READY:
        pass
    # The group has been charged for 250 members; who comes now begins where the others are.
    queue.clock.pass_s(LATE_S)
    queue.observe(pod("c0", namespace="c", priority=-1))
    names = queue.release()
    assert names[0] == "b0"
    bind(queue, "b0")
    names = queue.release()
    assert names[0] in {"b1", "c0"}
    bind(queue, names[0])
    assert queue.release()[0] in {"b1", "c0"}


def test_a_group_is_one_late_pod() -> None:
    queue = turns()
    queue.observe(*members(5, namespace="a", priority=9))
    assert len(all_released(queue)) == 5
    queue.observe(pod("b0", namespace="b"))
    queue.clock.pass_s(LATE_S)
    assert queue.release() == ["b0"]
    queue.clock.pass_s(LATE_S)
    assert queue.due() == []
    # One late group overtook b0, not five pods.
    queue.observe(pod("c0", namespace="c", priority=9))
    assert queue.due() == ["c0"]


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("priority", [0, 9])
@pytest.mark.parametrize("outcome", [Outcome.GANG, Outcome.INCOMPLETE_GANG])
def test_gangs_of_two_tenants_do_not_stop_a_neighbour(
    outcome: Outcome, priority: int, strategy: Strategy
) -> None:
    gangs = [(1.0, tenant, outcome, priority) for tenant in (TENANT, OTHER_TENANT)]
    alone: Makers = [(0.3, TENANT, Outcome.BOUND, 9), (1.0, NEIGHBOUR, Outcome.BOUND, 0)]
    simulation = Simulation(strategy, FairQueuing.BY_NAMESPACE, seconds=60.0)
    assert simulation.run([*gangs, *alone])[-1] <= 2.0


def test_a_gang_of_ten_thousand_does_not_stop_a_neighbour() -> None:
    simulation = Simulation(
        Strategy.BEST_EFFORT_FIFO, FairQueuing.BY_NAMESPACE, seconds=150.0, gang=10_000
    )
    gang: Makers = [(70.0, TENANT, Outcome.INCOMPLETE_GANG, 9)]
    waited_s = simulation.run([*gang, (1.0, NEIGHBOUR, Outcome.BOUND, 0)])
    assert waited_s[-1] <= 1.0


def test_while_a_refused_first_member_is_tried_again_other_namespaces_go_on() -> None:
    queue = turns()
    queue.observe(*members(3, namespace="a"), pod("b0", namespace="b"))
    assert queue.due() == ["g0"]
    queue.queue.refused_once("uid-g0")
    assert queue.release() == ["b0"]
    queue.queue.refused("uid-g0", "too large")
    bind(queue, "b0")
    assert queue.due() == ["g1"]


def test_a_refused_member_of_a_late_group_keeps_its_group_late() -> None:
    queue = turns()
    queue.observe(*members(2, namespace="a"), pod("b0", namespace="b", priority=9))
    queue.queue.forget("uid-b0")
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    for namespace in "bc":
        queue.clock.pass_s(LATE_S)
        queue.observe(pod(f"{namespace}9", namespace=namespace, priority=9))
        assert queue.release() == [f"{namespace}9"]
    queue.clock.pass_s(LATE_S)
    queue.observe(pod("d9", namespace="d", priority=9))
    assert queue.due() == []
    queue.queue.refused_once("uid-g1")
    assert queue.due() == []


@BOTH
def test_nobody_waits_while_the_gate_of_a_large_member_is_removed(
    fair_queuing: FairQueuing,
) -> None:
    queue = Queue(plugin=PrioritySort(), fair_queuing=fair_queuing)
    queue.observe(large("huge", "g"), *members(2, second=1), pod("lone", second=2))
    assert queue.due() == ["huge", "g0"]
    queue.queue.released("uid-g0")
    assert queue.release() == ["g1"]
    bind(queue, "g0", "g1")
    assert queue.due() == ["lone"]
    bind(queue, "lone")
    # Once its gate is gone, the queue waits for it.
    queue.queue.released("uid-huge")
    queue.observe(pod("next", second=3))
    assert queue.due() == []
    bind(queue, "huge")
    assert queue.due() == ["next"]


def test_a_large_member_does_not_join_its_group_until_another_large_pod_has_no_gate() -> None:
    queue = one_order()
    queue.observe(large("huge", "other"), *members(1, second=1))
    assert queue.due() == ["huge", "g0"]
    queue.observe(large("g1", "g"))
    queue.queue.released("uid-g0")
    assert queue.due() == []
    assert queue.entry("g1").why == "another pod of more than 64 KiB goes first"
    bind(queue, "huge")
    queue.clock.pass_s(1.0)
    assert queue.due() == ["g1"]
    bind(queue, "g0")
    queue.observe(pod("lone", second=2))
    assert queue.due() == ["lone"]


def test_a_member_that_grows_while_its_gate_is_removed_has_one_place() -> None:
    queue = one_order()
    queue.observe(*members(2), pod("lone", second=1))
    assert queue.due() == ["g0"]
    queue.observe(large("g0", "g"))
    queue.queue.released("uid-g0")
    assert queue.queue.counts()[State.RELEASED] == 1
    assert queue.due() == []
    bind(queue, "g0")
    assert queue.release() == ["g1"]
    bind(queue, "g1")
    assert queue.due() == ["lone"]


def test_the_queue_shows_the_members_of_a_group_together() -> None:
    queue = one_order()
    queue.observe(*members(2), *members(2, "h", second=1), pod("lone"))
    shown = [(each.position, each.info.pod.name, each.why) for each in queue.queue.entries()]
    assert shown == [
        (1, "g0", "is next"),
        (2, "g1", "is next"),
        (3, "lone", "is next"),
        (4, "h0", "is next"),
        (5, "h1", "is next"),
    ]
    assert queue.due() == ["g0"]
    queue.queue.released("uid-g0")
    shown = [(each.position, each.info.pod.name, each.why) for each in queue.queue.entries()]
    assert shown == [
        (None, "g0", "released; kube-scheduler has not placed it yet"),
        (None, "g1", "follows released pods of pod group default/g"),
        (1, "lone", "waits for pod group default/g"),
        (2, "h0", "waits for pod group default/g"),
        (3, "h1", "waits for pod group default/g"),
    ]
    assert queue.queue.counts()[State.READY] == 4


def test_two_thousand_members_cost_each_release_little() -> None:
    asked = 0

    class Counting(PrioritySort):
        def less(self, a: object, b: object) -> bool:
            nonlocal asked
            asked += 1
            return super().less(a, b)  # type: ignore[arg-type]

    queue = Queue(plugin=Counting(), fair_queuing=FairQueuing.BY_NAMESPACE)
    queue.observe(*members(2000, namespace="a"))
    asked = 0
    for _ in range(500):
        (name,) = queue.release()
    # Two questions for each of two children on each of 11 levels.
    assert asked <= 500 * 4 * 11
    assert name == "g499"
