"""Which pods are released, and when."""

import itertools
import json
from typing import TYPE_CHECKING

import pytest
from queue_world import GATE, Queue, pod, released

from kubextend import core
from kubextend.plugins import PrioritySort
from kubextend.queue import FairQueuing, QueueEntry, State, Strategy
from kubextend.queue import gated_pod_queue as queue_module
from kubextend.queue.entry import Entry
from kubextend.testing import pod_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

STRICT = Strategy.STRICT_FIFO
BEST_EFFORT = Strategy.BEST_EFFORT_FIFO
BOTH = pytest.mark.parametrize("strategy", [STRICT, BEST_EFFORT])


def line(entry: QueueEntry) -> tuple[int | None, str, State, str]:
    return entry.position, entry.info.pod.name, entry.state, entry.why


@BOTH
def test_pods_are_released_in_order_one_after_the_other(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(
        pod("late", second=3),
        pod("poor", priority=-1),
        pod("early", second=1),
        pod("rich", priority=5, second=9),
    )
    for name in ("rich", "early", "late", "poor"):
        assert queue.release() == [name]
        assert queue.due() == []
        queue.queue.forget(f"uid-{name}")
    assert queue.due() == []


def test_of_pods_that_are_equal_the_one_that_came_first_goes_first() -> None:
    queue = Queue(window=3)
    queue.observe(pod("b"), pod("c"), pod("a"))
    assert queue.due() == ["b", "c", "a"]


def test_of_a_list_equal_pods_go_by_age_then_by_name() -> None:
    queue = Queue(window=4, plugin=PrioritySort())
    queue.queue.replace([pod("b"), pod("d", second=-1), pod("c"), pod("a")])
    assert queue.due() == ["d", "a", "b", "c"]


def test_as_many_are_released_as_the_window_has_room_for() -> None:
    queue = Queue(window=3)
    queue.observe(*(pod(f"p{number}", second=number) for number in range(6)))
    assert queue.release() == ["p0", "p1", "p2"]
    queue.queue.forget("uid-p1")
    assert queue.release() == ["p3"]
    queue.queue.forget("uid-p0")
    queue.queue.forget("uid-p2")
    assert queue.release() == ["p4", "p5"]


ENDS = {
    "bound": lambda queue: queue.queue.forget("uid-a"),
    "bound, as the watch of all pods shows it": lambda queue: queue.observe(
        released("a", reason="", node="n1")
    ),
    "being deleted": lambda queue: queue.observe(released("a", deleted=True)),
}


@BOTH
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_next_is_released_once_the_last_is_bound_or_deleted(
    strategy: Strategy, end: object
) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.release() == ["a"]
    queue.observe(released("a"))
    assert queue.due() == []
    end(queue)  # type: ignore[operator]
    assert queue.due() == ["b"]


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulerError"])
def test_an_unschedulable_pod_holds_up_the_next_only_under_strict_fifo(reason: str) -> None:
    for strategy, next_ones in ((STRICT, []), (BEST_EFFORT, ["b"])):
        queue = Queue(strategy)
        queue.observe(pod("a"), pod("b", second=1))
        assert queue.release() == ["a"]
        queue.observe(released("a", reason))
        assert queue.due() == next_ones


@BOTH
def test_no_released_pod_holds_up_the_next_for_longer_than_max_hold(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.release() == ["a"]
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(59.9)
    assert queue.due() == []
    queue.clock.pass_s(0.1)
    assert queue.queue.next_look_s() == 0.0
    assert queue.release() == ["b"]
    queue.observe(released("a", "Unschedulable"))
    assert queue.due() == []


@BOTH
@pytest.mark.parametrize("reason", ["SchedulingGated", "Unschedulable"])
def test_pods_whose_gate_somebody_else_takes_off_take_no_place_in_the_window(
    strategy: Strategy, reason: str
) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), *(pod(f"own{number}", second=1) for number in range(11)))
    queue.observe(*(released(f"own{number}", reason, second=1) for number in range(11)))
    assert list(queue.queue.entries()) == [queue.entry("a")]
    assert queue.due() == ["a"]


def test_pods_that_may_go_do_not_wait_until_a_plugin_was_asked_about_all() -> None:
    queue = Queue(window=20)
    asked: list[str] = []

    def slowly(made: core.Pod) -> str:
        asked.append(made.name)
        queue.clock.pass_s(0.1)
        return "" if made.priority else "not yet"

    queue = Queue(window=20, why_held=slowly, clock=queue.clock)
    queue.observe(*(pod(f"held{number}", second=number) for number in range(30)))
    queue.observe(pod("a", priority=1), pod("b", priority=1))
    assert queue.due() == ["a", "b"]
    assert len(asked) == 10
    # The next look is at once.
    assert queue.queue.next_look_s() == 0.0
    assert queue.due() == []
    assert len(asked) == 20


def test_a_gate_that_is_off_after_we_tried_counts_as_released() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    queue.queue.returned("uid-a")
    queue.observe(released("a"))
    assert queue.state("a") is State.RELEASED
    assert queue.due() == []


def test_who_does_not_lead_counts_what_the_leader_releases() -> None:
    leads = False
    queue = Queue(leads=lambda: leads)
    queue.observe(pod("a"), pod("b", second=1), pod("c", second=2))
    queue.observe(released("a"))
    assert queue.state("a") is State.RELEASED
    queue.observe(released("b", second=1))
    assert (queue.state("a"), queue.state("b")) == (None, State.RELEASED)
    leads = True
    assert queue.due() == []
    queue.queue.forget("uid-b")
    assert queue.due() == ["c"]


def test_after_a_restart_no_more_pods_are_waited_for_than_the_window_has_places() -> None:
    queue = Queue(STRICT, window=2)
    stuck = [released(f"p{number:02}", "Unschedulable", second=number) for number in range(11)]
    queue.queue.replace([*stuck, pod("next", second=99)])
    assert [entry.info.pod.name for entry in queue.queue.entries()] == ["p09", "p10", "next"]
    queue.queue.forget("uid-p09")
    assert queue.due() == ["next"]


@BOTH
def test_a_pod_that_permit_holds_leaves_the_window(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), pod("b", second=1), pod("c", second=2))
    assert queue.release() == ["a"]
    queue.queue.held_in_permit("uid-a")
    assert queue.due() == ["b"]
    # kube-scheduler was quicker than the answer to the patch.
    queue.queue.held_in_permit("uid-b")
    queue.queue.released("uid-b")
    assert queue.release() == ["c"]
    queue.queue.held_in_permit("uid-nobody")


def test_a_pod_that_still_waits_is_not_held_in_permit() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    queue.queue.held_in_permit("uid-b")
    assert queue.state("b") is State.READY


def test_each_hold_in_vain_halves_the_next_one_of_the_namespace() -> None:
    queue = Queue(STRICT)
    names = [f"p{number}" for number in range(9)]
    queue.observe(*(pod(name, second=number) for number, name in enumerate(names)))
    holds = []
    for name in names:
        assert queue.release() == [name]
        queue.observe(released(name, "Unschedulable"))
        holds.append(queue.queue.next_look_s())
        queue.clock.pass_s(holds[-1] or 0)
    assert holds == [60, 30, 15, 7.5, 3.75, 1.875, 1, 1, 1]
    queue.observe(pod("other", namespace="elsewhere"))
    assert queue.release() == ["other"]
    assert queue.queue.next_look_s() == 60
    queue.queue.forget("uid-other")
    queue.clock.pass_s(601)
    queue.observe(pod("later"))
    assert queue.release() == ["later"]
    assert queue.queue.next_look_s() == 60


def test_a_short_hold_does_not_end_before_kube_scheduler_has_tried_the_pod() -> None:
    queue = Queue(STRICT)
    queue.observe(pod("a"), pod("b", second=1), pod("c", second=2), pod("d", second=3))
    assert queue.release() == ["a"]
    queue.observe(released("a", "Unschedulable"))
    queue.clock.pass_s(60)
    assert queue.release() == ["b"]
    queue.clock.pass_s(29)
    assert queue.queue.next_look_s() == 31
    queue.observe(released("b", "Unschedulable", second=1))
    assert queue.queue.next_look_s() == 1
    queue.clock.pass_s(1)
    assert queue.release() == ["c"]
    queue.clock.pass_s(20)
    assert queue.due() == []
    queue.observe(released("c", "Unschedulable", second=2))
    assert queue.release() == ["d"]


def test_a_hold_without_a_verdict_halves_nothing() -> None:
    """kube-scheduler is down: it has said nothing of the pods."""
    queue = Queue(STRICT)
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.release() == ["a"]
    queue.clock.pass_s(60)
    assert queue.release() == ["b"]
    assert queue.queue.next_look_s() == 60
    queue.observe(released("b", "Unschedulable", second=1))
    assert queue.queue.next_look_s() == 60


def test_a_late_view_of_a_released_pod_does_not_release_it_again() -> None:
    queue = Queue(BEST_EFFORT)
    queue.observe(pod("a"))
    assert queue.release() == ["a"]
    queue.observe(pod("a", labels={"changed": "meanwhile"}))
    assert queue.state("a") is State.RELEASED
    queue.clock.pass_s(100)
    assert queue.due() == []
    queue.observe(pod("a", labels={"changed": "again"}))
    assert queue.due() == []
    assert queue.state("a") is None


def test_the_watch_may_be_ahead_of_the_answer_to_the_patch() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    assert queue.state("a") is State.RELEASING
    queue.observe(released("a"))
    assert queue.state("a") is State.RELEASED
    queue.queue.forget("uid-a")
    queue.queue.released("uid-a")
    assert queue.state("a") is None
    assert queue.due() == ["b"]


def test_a_pod_that_is_gone_before_it_could_be_released_is_forgotten() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    queue.queue.forget("uid-a")
    assert queue.release() == ["b"]


@BOTH
def test_a_refused_pod_is_set_aside_and_tried_again_ever_more_rarely(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    queue.queue.refused("uid-a", "the API says no")
    assert line(queue.entry("a")) == (None, "a", State.SET_ASIDE, "the API says no")
    assert queue.queue.counts()[State.SET_ASIDE] == 1
    assert queue.queue.counts()[State.HELD] == 0
    assert queue.release() == ["b"]
    queue.queue.forget("uid-b")
    pauses = []
    for _ in range(11):
        pauses.append(queue.queue.next_look_s() or 0)
        queue.clock.pass_s(pauses[-1] - 0.1)
        # A change of the pod does not end the pause.
        queue.observe(pod("a", labels={"changed": str(len(pauses))}))
        assert queue.due() == []
        queue.clock.pass_s(0.1)
        assert queue.due() == ["a"]
        queue.queue.refused("uid-a", "the API says no")
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@BOTH
def test_no_pod_holds_up_the_next_while_its_gate_cannot_be_taken_off(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    assert queue.queue.next_look_s() == 60.0
    queue.clock.pass_s(59.9)
    assert queue.due() == []
    queue.clock.pass_s(0.1)
    assert queue.due() == ["b"]
    why = "its gate could not be removed within maxHold"
    assert line(queue.entry("a")) == (None, "a", State.SET_ASIDE, why)


def test_an_answer_that_comes_after_the_pod_was_set_aside_counts() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1), pod("c", second=2))
    assert queue.due() == ["a"]
    queue.clock.pass_s(60)
    assert queue.release() == ["b"]
    queue.queue.released("uid-a")
    assert queue.state("a") is State.RELEASED
    queue.queue.forget("uid-b")
    assert queue.due() == []


def large(name: str, second: int = 0, namespace: str = "default") -> core.Pod:
    """A pod that is kept without some of its parts."""
    manifest = pod_manifest(
        name,
        uid=f"uid-{name}",
        namespace=namespace,
        creation_timestamp=f"2030-01-01T00:00:{second:02}Z",
        annotations={"a": "x" * 1000},
        schedulingGates=[{"name": GATE}],
    )
    store = core.PodStore(max_pod_bytes=100)
    listed = {"metadata": {"resourceVersion": "1"}, "items": [manifest]}
    store.replace(json.dumps(listed).encode())
    (made,) = store.pods()
    assert made.truncated
    return made


@BOTH
def test_nobody_waits_while_the_gate_of_a_large_pod_is_taken_off(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.observe(large("huge"), pod("a", second=1), pod("b", second=2))
    assert queue.due() == ["huge", "a"]
    assert line(queue.entry("b")) == (1, "b", State.READY, "waits for default/a")
    queue.queue.released("uid-a")
    queue.queue.forget("uid-a")
    assert queue.due() == ["b"]


def test_one_large_pod_waits_for_another() -> None:
    queue = Queue()
    queue.observe(large("first"), large("second", second=1), pod("a", second=2))
    assert queue.due() == ["first", "a"]
    why = "another pod of more than 64 KiB goes first"
    assert line(queue.entry("second")) == (None, "second", State.HELD, why)
    queue.queue.refused("uid-first", "the API does not answer")
    queue.queue.forget("uid-a")
    queue.clock.pass_s(59)
    assert queue.due() == []
    # Each of them is looked at again within ten seconds.
    queue.clock.pass_s(10)
    assert queue.due() == ["first"]
    queue.queue.forget("uid-first")
    queue.clock.pass_s(10)
    assert queue.due() == ["second"]


@BOTH
def test_a_large_pod_waits_for_another_one_whose_first_patch_was_refused(
    strategy: Strategy,
) -> None:
    queue = Queue(strategy, plugin=PrioritySort(), fair_queuing=FairQueuing.BY_NAMESPACE)
    queue.observe(large("first", namespace="a"), large("second", namespace="b"))
    assert queue.due() == ["first"]
    queue.queue.refused_once("uid-first")
    assert queue.due() == []
    assert queue.state("second") is State.HELD
    queue.queue.forget("uid-first")
    queue.clock.pass_s(10)
    assert queue.due() == ["second"]


def test_large_pods_that_are_refused_one_after_the_other_are_tried_ever_more_rarely() -> None:
    queue = Queue()
    queue.observe(*(large(f"huge-{number:02}", second=number) for number in range(20)))
    tried_s = []
    for _ in range(1000):
        for name in queue.due():
            tried_s.append(queue.clock() - 1000.0)
            queue.queue.refused(f"uid-{name}", "the API does not answer")
        queue.clock.pass_s(1)
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(tried_s)]
    # Twice as long each time, and until one of them is looked at again.
    pauses_s = [60, 120, 240, 300]
    assert [pause <= gap <= pause + 10 for pause, gap in zip(pauses_s, gaps_s, strict=False)] == [
        True
    ] * 4
    queue.observe(pod("a"))
    assert queue.due() == ["a"]


def test_a_large_pod_without_its_gate_has_a_place_in_the_window() -> None:
    queue = Queue()
    queue.observe(large("huge"), pod("a", second=1))
    assert queue.due() == ["huge", "a"]
    queue.queue.forget("uid-a")
    queue.queue.released("uid-huge")
    queue.observe(pod("b", second=2))
    assert queue.due() == []
    queue.queue.forget("uid-huge")
    assert queue.due() == ["b"]


def test_what_is_said_of_a_refused_pod_is_short() -> None:
    queue = Queue()
    queue.observe(pod("a"))
    assert queue.due() == ["a"]
    queue.queue.refused("uid-a", "x" * 100_000)
    assert len(queue.entry("a").why) == 300


def test_a_pod_that_is_set_aside_and_loses_its_gate_is_passed_or_waited_for() -> None:
    queue = Queue()
    queue.observe(pod("a"))
    assert queue.due() == ["a"]
    queue.queue.refused("uid-a", "no")
    queue.observe(pod("a", gates=["x.dev/a"]))
    assert queue.state("a") is None


def test_a_pod_that_nothing_was_done_about_has_its_old_turn() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    queue.queue.returned("uid-a")
    assert queue.state("a") is State.READY
    assert queue.due() == ["a"]


def test_answers_about_unknown_pods_change_nothing() -> None:
    queue = Queue()
    for answer in (queue.queue.released, queue.queue.returned, queue.queue.forget):
        answer("nobody")
    queue.queue.refused("nobody", "why")
    assert list(queue.queue.entries()) == []


def test_a_pod_with_other_gates_is_skipped_until_they_are_off() -> None:
    queue = Queue()
    queue.observe(pod("a", gates=["x.dev/a", GATE, "y.dev/b"]), pod("b", second=1))
    assert line(queue.entry("a"))[2:] == (
        State.HELD,
        "has other scheduling gates: x.dev/a, y.dev/b",
    )
    assert queue.release() == ["b"]
    queue.queue.forget("uid-b")
    assert queue.queue.next_look_s() is None
    queue.observe(pod("a", gates=["x.dev/a", GATE]))
    assert queue.entry("a").why == "has other scheduling gates: x.dev/a"
    queue.observe(pod("a"))
    assert queue.due() == ["a"]


def test_a_pod_that_keeps_others_gates_is_not_waited_for() -> None:
    queue = Queue()
    queue.observe(pod("a", gates=[GATE, "x.dev/a"]), pod("b", second=1))
    queue.observe(pod("a", gates=["x.dev/a"]))
    assert queue.state("a") is None
    assert queue.due() == ["b"]


def test_a_gated_pod_of_another_scheduler_is_shown_and_left_alone() -> None:
    queue = Queue()
    queue.observe(pod("a", scheduler="another"), pod("b", second=1))
    assert line(queue.entry("a")) == (
        None,
        "a",
        State.HELD,
        "no profile is for the scheduler another",
    )
    assert queue.release() == ["b"]
    queue.queue.forget("uid-b")
    assert queue.due() == []
    queue.observe(released("a", scheduler="another"))
    assert queue.state("a") is None


def test_a_held_pod_lets_the_next_ones_go_first() -> None:
    queue = Queue(holds={"a": "not yet"})
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.release() == ["b"]
    assert line(queue.entry("a")) == (None, "a", State.HELD, "not yet")


def test_a_held_pod_is_asked_about_again_less_and_less_often() -> None:
    queue = Queue(holds={"a": "not yet"})
    queue.observe(pod("a"))
    for pause_s in (1, 2, 4, 8, 10, 10):
        assert queue.due() == []
        assert queue.queue.next_look_s() == pause_s
        queue.clock.pass_s(pause_s)
    del queue.holds["a"]
    assert queue.due() == ["a"]


def test_a_held_pod_that_changes_is_asked_about_at_once() -> None:
    queue = Queue(holds={"a": "not yet"})
    queue.observe(pod("a"))
    assert queue.due() == []
    queue.holds["a"] = "nor now"
    queue.observe(pod("a", labels={"x": "y"}))
    assert queue.due() == []
    assert queue.entry("a").why == "nor now"
    assert queue.queue.next_look_s() == 1.0


def test_nobody_is_asked_about_while_there_is_no_room() -> None:
    queue = Queue(STRICT, holds={"b": "not yet"})
    queue.observe(pod("a"), pod("b", second=1))
    assert queue.release() == ["a"]
    assert queue.queue.next_look_s() == 60.0
    assert queue.entry("b").why == "waits for default/a"


def test_a_waiting_pod_that_changes_is_sorted_anew() -> None:
    queue = Queue()
    queue.observe(pod("a"), pod("b", second=1))
    queue.observe(pod("b", second=1, qos="Guaranteed"))
    assert queue.due() == ["b"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("x", gates=(), reason="", generation=1), id="never had a gate"),
        pytest.param(
            released("x", "Unschedulable", generation=1), id="unschedulable, never had a gate"
        ),
        pytest.param(pod("x", gates=["x.dev/a"]), id="has somebody else's gate"),
        pytest.param(released("x", scheduler="another"), id="another scheduler's"),
        pytest.param(pod("x", node="n1", gates=(), reason=""), id="bound"),
        pytest.param(pod("x", deleted=True), id="being deleted"),
    ],
)
def test_pods_that_are_no_part_of_the_queue_are_never_released_nor_waited_for(
    other: core.Pod,
) -> None:
    queue = Queue(STRICT)
    queue.observe(other, pod("a", second=1))
    assert queue.state("x") is None
    assert queue.due() == ["a"]
    queue.observe(other)
    assert queue.state("x") is None


@pytest.mark.parametrize(
    ("strategy", "reason", "generation", "waits"),
    [
        (STRICT, "SchedulingGated", 2, True),
        (BEST_EFFORT, "SchedulingGated", 2, True),
        (STRICT, "Unschedulable", 2, True),
        (BEST_EFFORT, "Unschedulable", 2, False),
        # A kube-apiserver before 1.33 counts no generations: such a pod may never have had a gate.
        (STRICT, "SchedulerError", 0, False),
        (STRICT, "SchedulingGated", 0, True),
        (STRICT, "", 2, False),
    ],
)
def test_after_a_restart_what_was_released_before_is_waited_for(
    strategy: Strategy, reason: str, generation: int, waits: bool
) -> None:
    queue = Queue(strategy)
    made = pod("a", gates=(), reason=reason, generation=generation)
    assert made.generation == generation
    queue.queue.replace([pod("b", second=1), made])
    assert queue.due() == ([] if waits else ["b"])
    queue.clock.pass_s(60)
    assert queue.due() == (["b"] if waits else [])


def test_a_list_forgets_what_it_does_not_hold_and_keeps_what_was_known() -> None:
    queue = Queue(window=2)
    queue.observe(pod("a"), pod("b", second=1), pod("c", second=2))
    assert queue.release() == ["a", "b"]
    queue.clock.pass_s(30)
    queue.queue.replace([released("b"), pod("c", second=2), pod("d", second=3)])
    assert queue.release() == ["c"]
    queue.clock.pass_s(30)
    assert queue.release() == ["d"]


def test_the_queue_shows_released_then_next_then_held_pods() -> None:
    queue = Queue(STRICT, window=2, holds={"held": "of its own"})
    queue.observe(
        pod("stuck", priority=9),
        pod("asked", priority=8),
        pod("second", second=2),
        pod("first", second=1),
        pod("gated", gates=[GATE, "x.dev/a"]),
        pod("held", second=3),
    )
    queue.queue.look_ahead()
    assert queue.release() == ["stuck", "asked"]
    queue.observe(released("stuck", "Unschedulable", priority=9))
    assert [line(entry) for entry in queue.queue.entries()] == [
        (None, "stuck", State.RELEASED, "released; kube-scheduler says Unschedulable"),
        (None, "asked", State.RELEASED, "released; kube-scheduler has not placed it yet"),
        (1, "first", State.READY, "waits for default/stuck"),
        (2, "second", State.READY, "waits for default/stuck"),
        (None, "gated", State.HELD, "has other scheduling gates: x.dev/a"),
        (None, "held", State.HELD, "of its own"),
    ]
    assert queue.queue.counts() == {
        State.READY: 2,
        State.HELD: 2,
        State.SET_ASIDE: 0,
        State.RELEASING: 0,
        State.RELEASED: 2,
    }
    queue.queue.forget("uid-stuck")
    assert queue.entry("first").why == "is next"


def test_a_pod_without_a_creation_time_has_waited_longest() -> None:
    queue = Queue(plugin=PrioritySort())
    queue.observe(pod("a"), core.PodStore().apply(NO_TIME).pod or pod("never"))
    assert queue.due() == ["ageless"]


NO_TIME = b"""{"type": "ADDED", "object": {
    "metadata": {"name": "ageless", "namespace": "default", "uid": "uid-ageless"},
    "spec": {"schedulingGates": [{"name": "kubextend.dev/queue"}]}}}"""


def test_pods_that_move_while_they_are_counted_are_counted_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves: list[Callable[[], object]] = []

    class Seen(Entry):
        """The next move happens as soon as somebody asks for a state."""

        @property
        def state(self) -> State:
            if moves:
                moves.pop()()
            found: State = Entry.state.__get__(self)
            return found

        @state.setter
        def state(self, state: State) -> None:
            Entry.state.__set__(self, state)

    monkeypatch.setattr(queue_module, "Entry", Seen)
    queue = Queue(window=3)
    queue.observe(pod("a"), pod("b"), pod("c"), pod("d"))
    assert queue.due() == ["a", "b", "c"]
    moves.append(lambda: queue.queue.forget("uid-b"))
    states = State.HELD, State.SET_ASIDE, State.RELEASED
    counts = {State.READY: 1, State.RELEASING: 3} | dict.fromkeys(states, 0)
    assert queue.queue.counts() == counts
    assert queue.queue.counts() == counts | {State.RELEASING: 2}


def test_what_a_gated_pod_waits_for_is_known_without_an_order_of_the_pods() -> None:
    queue = Queue(STRICT)
    queue.observe(pod("first"), pod("second", second=1))
    assert queue.queue.why_waiting("uid-second") == ""
    assert queue.release() == ["first"]
    assert queue.queue.why_waiting("uid-second") == "waits for default/first"
    assert queue.queue.why_waiting("uid-first") == queue.queue.why_waiting("nobody") == ""
    queue.queue.forget("uid-first")
    assert queue.due() == ["second"]
    queue.queue.refused("uid-second", "denied")
    assert queue.queue.why_waiting("uid-second") == "denied"
