"""Which pods are released, in which order, and when the next one may go."""

from collections.abc import Callable

import pytest
from tests.doors.queue_stories import GATE, Queue, Strategy, pod, released

from kubextend import core
from kubextend.plugins import PrioritySort

STRICT = Strategy.STRICT_FIFO
BEST_EFFORT = Strategy.BEST_EFFORT_FIFO
BOTH = pytest.mark.parametrize("strategy", Strategy)


@BOTH
@pytest.mark.parametrize("window", [1, 3])
def test_pods_are_released_in_order_as_the_window_has_room(strategy: Strategy, window: int) -> None:
    queue = Queue(strategy, window)
    queue.show(
        pod("sure", second=3),
        pod("poor", priority=-1),
        pod("early", second=1),
        pod("rich", priority=5, second=9),
    )
    # A waiting pod that changes is sorted again.
    queue.show(pod("sure", second=3, qos="Guaranteed"))
    order = ["rich", "sure", "early", "poor"]
    assert queue.release() == order[:window]
    for gone, next_one in zip(order, order[window:], strict=False):
        assert queue.due() == []
        queue.gone(gone)
        assert queue.release() == [next_one]
    queue.gone(*order)
    assert queue.due() == []


def test_equal_pods_go_by_arrival_and_those_of_a_list_by_age_and_name() -> None:
    queue = Queue(window=3)
    queue.show(pod("b"), pod("c"), pod("a"))
    assert queue.due() == ["b", "c", "a"]
    queue = Queue(window=4, plugin=PrioritySort())
    queue.list(pod("b"), pod("d", second=-1), pod("c"), pod("a"))
    assert queue.due() == ["d", "a", "b", "c"]


def after_a(strategy: Strategy) -> Queue:
    """Return a queue of the pods ``a`` and ``b``, of which the first is released."""
    queue = Queue(strategy)
    queue.show(pod("a"), pod("b", second=1))
    assert queue.release() == ["a"]
    return queue


ENDS: dict[str, Callable[[Queue], None]] = {
    "bound": lambda queue: queue.gone("a"),
    "shown as bound": lambda queue: queue.show(released("a", reason="", node="n1")),
    "being deleted": lambda queue: queue.show(released("a", deleted=True)),
    "held in Permit": lambda queue: queue.permit_holds("a"),
}


@BOTH
@pytest.mark.parametrize("end", ENDS)
def test_the_next_is_released_once_the_last_is_bound_deleted_or_held_in_permit(
    strategy: Strategy, end: str
) -> None:
    queue = after_a(strategy)
    queue.show(released("a"))
    assert queue.due() == []
    ENDS[end](queue)
    assert queue.due() == ["b"]


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulerError"])
def test_an_unschedulable_pod_holds_up_the_next_only_under_strict_fifo(reason: str) -> None:
    for strategy, next_ones in ((STRICT, []), (BEST_EFFORT, ["b"])):
        queue = after_a(strategy)
        queue.show(released("a", reason))
        assert queue.due() == next_ones


@BOTH
def test_no_released_pod_holds_up_the_next_for_longer_than_max_hold(strategy: Strategy) -> None:
    queue = after_a(strategy)
    assert queue.next_look_s() == 60.0
    queue.clock.pass_s(59.9)
    assert queue.due() == []
    queue.clock.pass_s(0.1)
    assert queue.next_look_s() == 0.0
    assert queue.release() == ["b"]
    queue.show(released("a", "Unschedulable"))
    assert queue.due() == []


@BOTH
@pytest.mark.parametrize("reason", ["SchedulingGated", "Unschedulable"])
def test_pods_whose_gate_somebody_else_removes_take_no_place_in_the_window(
    strategy: Strategy, reason: str
) -> None:
    queue = Queue(strategy)
    queue.show(pod("a"), *(pod(f"own{number}", second=1) for number in range(11)))
    queue.show(*(released(f"own{number}", reason, second=1) for number in range(11)))
    assert [name for _, name, _, _ in queue.shown()] == ["a"]
    assert queue.due() == ["a"]


NEVER_OURS = {
    "never had a gate": pod("x", gates=(), reason="", generation=1),
    "unschedulable, never had a gate": released("x", "Unschedulable", generation=1),
    "has somebody else's gate": pod("x", gates=["x.dev/a"]),
    "another scheduler's": released("x", scheduler="another"),
    "bound": pod("x", node="n1", gates=(), reason=""),
    "being deleted": pod("x", deleted=True),
}


@pytest.mark.parametrize("other", NEVER_OURS.values(), ids=NEVER_OURS)
def test_pods_that_are_no_part_of_the_queue_are_never_released_nor_waited_for(
    other: core.Pod,
) -> None:
    queue = Queue(STRICT)
    queue.show(other, pod("a", second=1))
    assert queue.state("x") == ""
    assert queue.due() == ["a"]
    queue.show(other)
    assert queue.state("x") == ""


def test_a_pod_with_other_gates_is_skipped_until_they_are_removed() -> None:
    queue = Queue()
    queue.show(pod("a", gates=["x.dev/a", GATE, "y.dev/b"]), pod("b", second=1))
    assert queue.state("a") == "held"
    assert queue.why("a") == "has other scheduling gates: x.dev/a, y.dev/b"
    assert queue.release() == ["b"]
    queue.gone("b")
    assert queue.next_look_s() is None
    queue.show(pod("a", gates=["x.dev/a", GATE]))
    assert queue.why("a") == "has other scheduling gates: x.dev/a"
    queue.show(pod("a"))
    assert queue.due() == ["a"]


@pytest.mark.parametrize("refused", [False, True])
def test_a_pod_that_loses_our_gate_alone_is_not_waited_for(refused: bool) -> None:
    queue = Queue()
    queue.show(pod("a", gates=[GATE] if refused else [GATE, "x.dev/a"]), pod("b", second=1))
    if refused:
        assert queue.due() == ["a"]
        queue.refused("a")
    queue.show(pod("a", gates=["x.dev/a"]))
    assert queue.state("a") == ""
    assert queue.due() == ["b"]


def test_a_gated_pod_of_another_scheduler_is_shown_and_left_alone() -> None:
    queue = Queue()
    queue.show(pod("a", scheduler="another"), pod("b", second=1))
    assert (queue.state("a"), queue.why("a")) == ("held", "no profile is for the scheduler another")
    assert queue.drain() == ["b"]
    queue.show(released("a", scheduler="another"))
    assert queue.state("a") == ""


def test_the_queue_shows_released_then_next_then_held_pods() -> None:
    queue = Queue(STRICT, window=2, holds={"held": "of its own"})
    queue.show(
        pod("stuck", priority=9),
        pod("asked", priority=8),
        pod("second", second=2),
        pod("first", second=1),
        pod("gated", gates=[GATE, "x.dev/a"]),
        pod("held", second=3),
    )
    queue.shown(ask_plugins=True)
    assert queue.release() == ["stuck", "asked"]
    queue.show(released("stuck", "Unschedulable", priority=9))
    assert queue.shown() == [
        (None, "stuck", "released", "released; kube-scheduler says Unschedulable"),
        (None, "asked", "released", "released; kube-scheduler has not placed it yet"),
        (1, "first", "ready", "waits for default/stuck"),
        (2, "second", "ready", "waits for default/stuck"),
        (None, "gated", "held", "has other scheduling gates: x.dev/a"),
        (None, "held", "held", "of its own"),
    ]
    counts = {"ready": 2, "held": 2, "set_aside": 0, "releasing": 0, "released": 2}
    assert queue.counts() == counts
    queue.gone("stuck")
    assert queue.why("first") == "is next"


def test_what_a_gated_pod_waits_for_is_known_without_an_order_of_the_pods() -> None:
    queue = Queue(STRICT)
    queue.show(pod("first"), pod("second", second=1))
    assert queue.why_gated("second") == ""
    assert queue.release() == ["first"]
    assert queue.why_gated("second") == "waits for default/first"
    assert queue.why_gated("first") == queue.why_gated("nobody") == ""
    queue.gone("first")
    assert queue.due() == ["second"]
    queue.refused("second", "denied")
    assert queue.why_gated("second") == "denied"
