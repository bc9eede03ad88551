"""The answers to patches, late views of pods, restarts, and other replicas."""

from typing import Any

import pytest
from tests.doors.queue_stories import Clock, Queue, Strategy, pod, released

STRICT = Strategy.STRICT_FIFO
BEST_EFFORT = Strategy.BEST_EFFORT_FIFO
BOTH = pytest.mark.parametrize("strategy", Strategy)


@BOTH
def test_a_refused_pod_is_set_aside_and_tried_again_ever_more_rarely(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.show(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    queue.refused("a", "the API says no")
    assert queue.shown()[-1] == (None, "a", "set_aside", "the API says no")
    assert (queue.counts()["set_aside"], queue.counts()["held"]) == (1, 0)
    assert queue.drain() == ["b"]
    pauses = []
    for _ in range(11):
        pauses.append(queue.next_look_s() or 0)
        queue.clock.pass_s(pauses[-1] - 0.1)
        # A change of the pod does not end the pause.
        queue.show(pod("a", labels={"changed": str(len(pauses))}))
        assert queue.due() == []
        queue.clock.pass_s(0.1)
        assert queue.due() == ["a"]
        queue.refused("a", "the API says no")
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1
    assert pauses[-2:] == [300, 300]


@BOTH
def test_no_pod_holds_up_the_next_while_its_gate_cannot_be_removed(strategy: Strategy) -> None:
    queue = Queue(strategy)
    queue.show(pod("a"), pod("b", second=1))
    assert queue.due() == ["a"]
    assert queue.next_look_s() == 60.0
    queue.clock.pass_s(59.9)
    assert queue.due() == []
    queue.clock.pass_s(0.1)
    assert queue.due() == ["b"]
    why = "its gate could not be removed within maxHold"
    assert queue.shown()[-1] == (None, "a", "set_aside", why)


def queue_of_three(**settings: Any) -> Queue:
    """Return a queue of the pods ``a``, ``b`` and ``c``."""
    queue = Queue(**settings)
    queue.show(pod("a"), pod("b", second=1), pod("c", second=2))
    return queue


def test_an_answer_that_comes_after_the_pod_was_set_aside_counts() -> None:
    queue = queue_of_three()
    assert queue.due() == ["a"]
    queue.clock.pass_s(60)
    assert queue.release() == ["b"]
    queue.patched("a")
    assert queue.state("a") == "released"
    queue.gone("b")
    assert queue.due() == []


def test_a_pod_whose_patch_was_not_sent_keeps_its_turn() -> None:
    queue = queue_of_three()
    for _ in range(2):
        assert queue.due() == ["a"]
        queue.unsent("a")
        assert queue.state("a") == "ready"
    # The patch was sent after all.
    queue.show(released("a"))
    assert queue.state("a") == "released"
    assert queue.due() == []


def test_a_late_view_of_a_released_pod_does_not_release_it_again() -> None:
    queue = Queue()
    queue.show(pod("a"))
    assert queue.release() == ["a"]
    for seconds, state in ((0, "released"), (100, "")):
        queue.clock.pass_s(seconds)
        assert queue.due() == []
        queue.show(pod("a", labels={"changed": f"after {seconds} s"}))
        assert queue.due() == []
        assert queue.state("a") == state


def test_the_watch_may_be_ahead_of_the_answer_to_the_patch() -> None:
    queue = queue_of_three()
    assert queue.due() == ["a"]
    assert queue.state("a") == "releasing"
    queue.show(released("a"))
    assert queue.state("a") == "released"
    queue.gone("a")
    queue.patched("a")
    assert queue.state("a") == ""
    assert queue.due() == ["b"]
    # Deleted before its patch is answered.
    queue.gone("b")
    assert queue.due() == ["c"]


@pytest.mark.parametrize(
    ("strategy", "reason", "generation", "waits"),
    [
        (STRICT, "SchedulingGated", 2, True),
        (BEST_EFFORT, "SchedulingGated", 2, True),
        (STRICT, "Unschedulable", 2, True),
        (BEST_EFFORT, "Unschedulable", 2, False),
        # Nobody ever changed the pod: it never had a gate.
        (STRICT, "SchedulerError", 1, False),
        (STRICT, "", 2, False),
    ],
)
def test_after_a_restart_the_queue_waits_for_what_was_released_before(
    strategy: Strategy, reason: str, generation: int, waits: bool
) -> None:
    queue = Queue(strategy)
    queue.list(pod("b", second=1), released("a", reason, generation=generation))
    assert queue.due() == ([] if waits else ["b"])
    queue.clock.pass_s(60)
    assert queue.due() == (["b"] if waits else [])


def test_after_a_restart_the_queue_waits_for_no_more_pods_than_the_window_has_places() -> None:
    queue = Queue(STRICT, window=2)
    stuck = [released(f"p{number:02}", "Unschedulable", second=number) for number in range(11)]
    queue.list(*stuck, pod("next", second=99))
    assert [name for _, name, _, _ in queue.shown()] == ["p09", "p10", "next"]
    queue.gone("p09")
    assert queue.due() == ["next"]


def test_a_list_forgets_what_it_does_not_hold_and_keeps_what_was_known() -> None:
    queue = queue_of_three(window=2)
    assert queue.release() == ["a", "b"]
    queue.clock.pass_s(30)
    queue.list(released("b"), pod("c", second=2), pod("d", second=3))
    assert queue.release() == ["c"]
    queue.clock.pass_s(30)
    assert queue.release() == ["d"]


def test_a_replica_that_does_not_lead_counts_what_the_leader_releases() -> None:
    queue = queue_of_three(leads=False)
    queue.show(released("a"))
    assert queue.state("a") == "released"
    queue.show(released("b", second=1))
    assert (queue.state("a"), queue.state("b")) == ("", "released")
    queue.leads = True
    assert queue.due() == []
    queue.gone("b")
    assert queue.due() == ["c"]


@BOTH
@pytest.mark.parametrize("by_namespace", [False, True])
def test_a_replica_that_does_not_lead_waits_for_no_pod_longer_than_the_leader(
    strategy: Strategy, by_namespace: bool
) -> None:
    follower = Queue(strategy, by_namespace=by_namespace, leads=False)
    for number in range(200):
        namespace = "abc"[number % 3] if by_namespace else "a"
        name = f"p{number}"
        follower.show(pod(name, namespace=namespace), released(name, namespace=namespace))
        if strategy is STRICT:
            follower.show(released(name, "Unschedulable", namespace=namespace))
        follower.clock.pass_s(0.5)
        follower.look_without_lease()
        assert follower.counts()["released"] <= (3 if by_namespace else 1)
    follower.clock.pass_s(60.0)
    follower.look_without_lease()
    assert follower.counts()["released"] == 0


def test_after_a_fault_of_the_api_no_pod_is_released_and_then_the_same_one_first() -> None:
    queue = queue_of_three()
    pauses = []
    for _ in range(7):
        assert queue.due() == ["a"]
        queue.refused("a", "no answer", api_fails=True)
        assert queue.why("a") == "no answer"
        assert queue.due() == []
        pauses.append(queue.next_look_s())
        queue.clock.pass_s(pauses[-1] or 0)
    # A pod that the API alone does not answer for holds up the others for seconds.
    assert pauses == [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert queue.drain() == ["b", "c"]
    assert queue.next_look_s() == 62.0


class MovingClock(Clock):
    """A clock that moves on by half a second whenever the queue looks at it."""

    def __call__(self) -> float:
        self.now_s += 0.5
        return self.now_s


def test_the_same_pod_is_first_though_time_passes_while_the_queue_looks() -> None:
    queue = queue_of_three(clock=MovingClock())
    assert queue.due() == ["a"]
    queue.refused("a", "no answer", api_fails=True)
    due: list[str] = []
    while not due:
        due = queue.due()
    assert due == ["a"]


def test_the_api_says_how_long_no_pod_is_released_but_half_a_minute_at_most() -> None:
    queue = queue_of_three()
    for asked_s, pause_s in ((7.0, 7.0), (1e9, 30.0)):
        assert queue.due() == ["a"]
        queue.refused("a", "too many", asked_s, api_fails=True)
        queue.clock.pass_s(pause_s - 0.1)
        assert queue.due() == []
        queue.clock.pass_s(0.1)


def test_an_api_that_has_just_started_and_refuses_what_it_allows_later_changes_no_order() -> None:
    queue = queue_of_three()
    assert queue.due() == ["a"]
    queue.refused("a", "no answer", api_fails=True)
    queue.clock.pass_s(1.0)
    for pause_s in (2.0, 2.0):
        assert queue.due() == ["a"]
        queue.refused("a", "forbidden")
        assert queue.next_look_s() == pause_s
        queue.clock.pass_s(pause_s)
    assert queue.drain() == ["a", "b", "c"]
    queue.show(pod("d"), pod("e", second=1))
    queue.clock.pass_s(10.0)
    assert queue.due() == ["d"]
    queue.refused("d", "forbidden")
    assert queue.due() == ["e"]
