"""The members of a pod group are released together, as one place in the window.

Source: kube-scheduler 1.37 tries no member of a group while one member has a scheduling gate.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.queue_stories import GATE, NEXT_NAMESPACE_S, Queue, Strategy, pod, released

from kubextend import core
from kubextend.plugins import PrioritySort

BOTH = pytest.mark.parametrize("by_namespace", [False, True])


def members(count: int, group: str = "g", first: int = 0, **fields: Any) -> list[core.Pod]:
    """Return members of a group, whose names say which they are."""
    names = (f"{group}{number}" for number in range(first, first + count))
    return [pod(name, group=group, **fields) for name in names]


def made(**settings: Any) -> Queue:
    return Queue(plugin=PrioritySort(), **settings)


def two_and_one(**settings: Any) -> Queue:
    """Return a queue of the group ``g`` of two, and a lone pod behind it."""
    queue = made(**settings)
    queue.show(*members(2), pod("lone", second=1))
    return queue


@BOTH
def test_the_members_of_a_group_take_one_place(by_namespace: bool) -> None:
    queue = made(by_namespace=by_namespace)
    queue.show(*members(20), pod("lone", second=1))
    names = queue.release_all()
    assert names == [f"g{number}" for number in range(20)]
    queue.gone(*names[:-1])
    assert queue.due() == []
    queue.gone(names[-1])
    assert queue.due() == ["lone"]


def test_a_group_has_the_turn_of_its_first_member_and_its_members_the_order_of_the_plugin() -> None:
    queue = made()
    queue.show(
        *members(2, second=5), pod("mid", second=3), pod("g7", group="g", second=1), pod("z")
    )
    assert queue.release() == ["z"]
    queue.gone("z")
    assert queue.release_all() == ["g7", "g0", "g1"]
    queue.gone("g0", "g1", "g7")
    assert queue.release() == ["mid"]


def test_groups_of_one_name_in_two_namespaces_are_two() -> None:
    queue = made()
    queue.show(*members(2), pod("other", group="g", namespace="elsewhere", second=1))
    assert queue.release_all() == ["g0", "g1"]


def test_a_group_has_as_many_patches_under_way_as_the_window_has_places() -> None:
    queue = made(window=2)
    queue.show(*members(9), *members(9, "h", second=1))
    assert queue.due() == ["g0", "h0", "g1", "h1"]
    assert queue.due() == []
    queue.patched("h1")
    assert queue.due() == ["h2"]
    # A pod that takes a free place goes before the members of a large group.
    queue = made(window=2)
    queue.show(*members(9))
    assert queue.due() == ["g0", "g1"]
    queue.show(pod("lone", second=9))
    queue.patched("g0")
    assert queue.due() == ["lone", "g2"]


@pytest.mark.parametrize("verdict", ["SchedulingGated", "Unschedulable"])
def test_no_patch_of_a_group_and_no_wait_for_it_takes_longer_than_max_hold(verdict: str) -> None:
    queue = two_and_one(strategy=Strategy.STRICT_FIFO)
    assert queue.due() == ["g0"]
    queue.clock.pass_s(59.0)
    queue.patched("g0")
    assert queue.release() == ["g1"]
    queue.show(*(released(name, verdict, group="g") for name in ("g0", "g1")))
    assert queue.next_look_s() == 60.0
    queue.clock.pass_s(59.9)
    assert queue.due() == []
    queue.clock.pass_s(0.1)
    assert queue.due() == ["lone"]


def test_a_late_member_goes_with_its_group_or_waits_once_the_group_is_placed() -> None:
    queue = two_and_one()
    assert queue.release_all() == ["g0", "g1"]
    queue.show(pod("g2", group="g", second=9))
    assert queue.next_look_s() == 0.0
    assert queue.release() == ["g2"]
    queue.gone("g0", "g1")
    assert queue.due() == []
    queue.gone("g2")
    assert queue.release() == ["lone"]
    queue.show(pod("g3", group="g"))
    assert queue.due() == []
    queue.gone("lone")
    assert queue.due() == ["g3"]


@BOTH
def test_members_that_come_without_end_do_not_prolong_the_time_of_their_group(
    by_namespace: bool,
) -> None:
    queue = made(by_namespace=by_namespace)
    queue.show(*members(1), pod("lone", second=1))
    for number in range(1, 120):
        assert queue.release() == [f"g{number - 1}"]
        queue.show(pod(f"g{number}", group="g", second=2))
    queue.clock.pass_s(59.0)
    assert queue.release() == ["g119"]
    queue.show(pod("g120", group="g", second=2))
    queue.clock.pass_s(1.0)
    assert queue.release() == ["lone"]
    assert queue.counts()["released"] == 1


@pytest.mark.parametrize("seen_by_the_watch", [False, True])
def test_a_gate_that_is_removed_late_gives_a_group_no_new_place(seen_by_the_watch: bool) -> None:
    queue = made()
    queue.show(*members(3), pod("lone", second=1))
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    queue.clock.pass_s(60.0)
    assert queue.release() == ["g2"]
    queue.gone("g2")
    assert queue.state("g1") == "set_aside"
    if seen_by_the_watch:
        queue.show(released("g1", group="g"))
    else:
        queue.patched("g1")
    assert queue.release() == ["lone"]
    queue.show(pod("g3", group="g"))
    assert queue.due() == []


ENDS: dict[str, Callable[[Queue], None]] = {
    "bound": lambda queue: queue.gone("g1"),
    "rejected": lambda queue: queue.show(released("g1", "Unschedulable", group="g")),
    "held in Permit": lambda queue: queue.permit_holds("g1"),
    "refused": lambda queue: queue.refused("g1"),
    "not sent": lambda queue: queue.unsent("g1"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_group_gives_up_its_place_with_its_last_member(end: str) -> None:
    queue = two_and_one()
    assert queue.release() == ["g0"]
    assert queue.due() == ["g1"]
    queue.gone("g0")
    assert queue.due() == []
    ENDS[end](queue)
    # Without a patch, it has its old turn.
    assert queue.due() == (["g1"] if end == "not sent" else ["lone"])


def test_a_held_member_follows_its_group_once_it_may() -> None:
    queue = made(holds={"g1": "not yet"})
    queue.show(*members(3), pod("lone", second=1))
    assert queue.release_all() == ["g0", "g2"]
    assert queue.next_look_s() == 1.0
    del queue.holds["g1"]
    queue.clock.pass_s(1.0)
    assert queue.release() == ["g1"]
    queue.show(pod("g3", group="g", gates=[GATE, "x.dev/a"]))
    assert queue.due() == []
    queue.show(pod("g3", group="g"))
    assert queue.release() == ["g3"]


def test_a_replica_that_takes_over_goes_on_with_a_group_that_is_half_released() -> None:
    queue = made()
    queue.list(released("g0", group="g"), *members(3, first=1, second=9), pod("lone", second=1))
    assert queue.release_all() == ["g1", "g2", "g3"]
    queue.clock.pass_s(60.0)
    assert queue.due() == ["lone"]


@BOTH
def test_after_a_start_a_group_counts_as_one(by_namespace: bool) -> None:
    queue = made(by_namespace=by_namespace)
    names = [f"g{number}" for number in range(5)]
    group = [released(name, group="g", second=1) for name in names]
    queue.list(released("first"), *group, pod("next", second=2))
    assert queue.counts()["released"] == 5
    queue.clock.pass_s(NEXT_NAMESPACE_S)
    assert queue.due() == []
    queue.gone(*names)
    assert queue.due() == ["next"]


def test_the_queue_shows_the_members_of_a_group_together() -> None:
    queue = made()
    queue.show(*members(2), *members(2, "h", second=1), pod("lone"))
    assert list(queue.positions()) == ["g0", "g1", "lone", "h0", "h1"]
    assert queue.why("h1") == "is next"
    assert queue.due() == ["g0"]
    queue.patched("g0")
    assert [(place, name, why) for place, name, _, why in queue.shown()] == [
        (None, "g0", "released; kube-scheduler has not placed it yet"),
        (None, "g1", "follows released pods of pod group default/g"),
        (1, "lone", "waits for pod group default/g"),
        (2, "h0", "waits for pod group default/g"),
        (3, "h1", "waits for pod group default/g"),
    ]
    assert queue.counts()["ready"] == 4
