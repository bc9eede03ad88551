"""The thread that runs a queue."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue

import pytest
from queue_world import Clock, Queue, pod, released

from kubextend import core
from kubextend.queue import QueueRunner, SchedulingQueue, State
from kubextend.queue import gated_pod_queue as queue_module
from kubextend.queue import queue_runner as runner_module

PATIENCE_S = 30.0


@dataclass
class Running:
    """A runner, what it released, and whether it leads.

    Attributes:
        asked: how often it asked whether it leads.
        faults: raised by the next releases.
    """

    queue: Queue = field(default_factory=Queue)
    leads: bool = True
    asked: int = 0
    released: list[str] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = self.queue.clock
        self.queue.leads = self._leads
        self.runner = QueueRunner(self.queue.queue, self._release, self._leads, clock)

    def _leads(self) -> bool:
        self.asked += 1
        return self.leads

    def _release(self, made: core.Pod) -> None:
        if self.faults:
            raise self.faults.pop()
        self.threads.add(threading.current_thread().name)
        self.released.append(made.name)


@pytest.fixture
def turned() -> Running:
    """A runner without its thread: a test takes its turns."""
    return Running()


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    made.runner.start()
    yield made
    made.runner.stop()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "did not come to hold in time"
        time.sleep(0.002)


def test_a_replica_that_does_not_lead_waits_for_no_pod_longer_than_the_leader(
    turned: Running,
) -> None:
    turned.leads = False
    turned.runner.tell(SchedulingQueue.replace, [pod("a"), released("b")])
    assert turned.runner.turn(0) == runner_module.FOLLOWER_LOOKS_S
    assert turned.runner.counts()[State.RELEASED] == 1
    turned.queue.clock.pass_s(60.0)
    turned.runner.turn(0)
    assert turned.runner.counts()[State.RELEASED] == 0


def test_what_is_told_leads_to_releases_on_one_thread(running: Running) -> None:
    runner = running.runner
    runner.tell(
        SchedulingQueue.replace,
        [pod("a"), pod("b", second=1), pod("c", second=2), pod("d", second=3)],
    )
    eventually(lambda: running.released == ["a"])
    runner.tell(SchedulingQueue.released, "uid-a")
    runner.tell(SchedulingQueue.forget, "uid-a")
    eventually(lambda: running.released == ["a", "b"])
    runner.tell(SchedulingQueue.refused, "uid-b", "no")
    eventually(lambda: running.released == ["a", "b", "c"])
    runner.tell(SchedulingQueue.forget, "uid-c")
    eventually(lambda: running.released == ["a", "b", "c", "d"])
    runner.tell(SchedulingQueue.returned, "uid-d")
    eventually(lambda: running.released[4:] == ["d"])
    runner.tell(SchedulingQueue.observe, released("d", node="n1"))
    eventually(lambda: runner.counts()[State.RELEASING] == 0)
    assert running.threads == {"kubextend-queue"}


def test_who_does_not_lead_follows_and_releases_nothing(turned: Running) -> None:
    turned.leads = False
    runner = turned.runner
    runner.tell(SchedulingQueue.observe, pod("a"))
    runner.tell(SchedulingQueue.observe, pod("b", second=1))
    runner.turn(0)
    assert runner.counts()[State.READY] == 2
    assert turned.released == []
    runner.tell(SchedulingQueue.observe, released("a"))
    runner.turn(0)
    assert runner.counts()[State.RELEASED] == 1
    runner.tell(SchedulingQueue.forget, "uid-a")
    runner.turn(0)
    assert turned.released == []
    turned.leads = True
    runner.wake()
    runner.turn(0)
    assert turned.released == ["b"]


def test_the_thread_asks_whether_it_leads_before_it_releases(running: Running) -> None:
    running.leads = False
    running.runner.tell(SchedulingQueue.observe, pod("a"))
    eventually(lambda: running.asked >= 1 or running.released)
    running.runner.wake()
    # Whoever asks a second time is through with the first time.
    eventually(lambda: running.asked >= 2 or running.released)
    assert running.released == []
    running.leads = True
    running.runner.wake()
    eventually(lambda: running.released == ["a"])


def test_who_does_not_lead_looks_again_without_being_told(turned: Running) -> None:
    turned.leads = False
    turned.runner.tell(SchedulingQueue.observe, pod("a"))
    assert turned.runner.turn(0) == 1.0


def test_a_turn_says_when_time_alone_may_release_the_next(turned: Running) -> None:
    turned.queue.holds["a"] = "for a moment"
    turned.runner.tell(SchedulingQueue.observe, pod("a"))
    assert turned.runner.turn(0) == 1.0
    del turned.queue.holds["a"]
    turned.queue.clock.pass_s(0.9)
    assert turned.runner.turn(0) == pytest.approx(0.1)
    assert turned.released == []
    turned.queue.clock.pass_s(0.2)
    turned.runner.turn(0)
    assert turned.released == ["a"]


def test_a_turn_where_nothing_can_become_due_is_the_last_until_something_is_told(
    turned: Running,
) -> None:
    assert turned.runner.turn(0) is None


def test_the_thread_wakes_when_time_alone_may_release_the_next(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "FIRST_PAUSE_S", 0.01)
    running.queue.holds["a"] = "for a moment"
    running.runner.tell(SchedulingQueue.observe, pod("a"))
    eventually(lambda: running.runner.counts()[State.HELD] == 1)
    del running.queue.holds["a"]
    running.queue.clock.pass_s(1)
    eventually(lambda: running.released == ["a"])


def test_a_fault_in_what_is_told_does_not_end_it(running: Running) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    running.runner._inbox.put(broken)
    running.runner.tell(SchedulingQueue.observe, pod("a"))
    eventually(lambda: running.released == ["a"])


def test_after_a_fault_it_goes_on_soon_without_being_told(turned: Running) -> None:
    turned.faults.append(ZeroDivisionError())
    turned.runner.tell(SchedulingQueue.observe, pod("a"))
    assert turned.runner.turn(0) == 1.0
    assert turned.released == []
    turned.runner.tell(SchedulingQueue.refused, "uid-a", "it failed")
    turned.runner.tell(SchedulingQueue.observe, pod("b"))
    turned.runner.turn(0)
    assert turned.released == ["b"]


def test_a_plugin_that_hangs_is_told_of_after_a_minute() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang(_: core.Pod) -> str:
        entered.set()
        leave.wait(PATIENCE_S)
        return ""

    clock = Clock()
    released_pods: list[core.Pod] = []
    queue = Queue(why_held=hang, clock=clock).queue
    runner = QueueRunner(queue, released_pods.append, lambda: True, clock)
    runner.start()
    assert runner.why_not_alive() == ""
    runner.tell(SchedulingQueue.observe, pod("a"))
    assert entered.wait(PATIENCE_S)
    clock.pass_s(59)
    assert runner.why_not_alive() == ""
    clock.pass_s(2)
    why = "the queue is stuck in a plugin's less or pre_enqueue for 61 s"
    assert runner.why_not_alive() == why
    leave.set()
    eventually(lambda: released_pods)
    eventually(lambda: runner.why_not_alive() == "")
    runner.stop()


def test_nothing_is_released_once_it_is_stopped(turned: Running) -> None:
    turned.runner.tell(SchedulingQueue.observe, pod("a"))
    turned.runner.stop()
    turned.runner.turn(0)
    assert turned.runner.counts()[State.READY] == 1
    assert turned.released == []


def test_stop_returns_when_the_release_that_is_under_way_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_module, "JOIN_S", PATIENCE_S)
    entered = threading.Event()

    def slow(_: core.Pod) -> str:
        entered.set()
        assert running.runner._stopped.wait(PATIENCE_S)
        # Time for a stop that does not wait to return.
        time.sleep(0.1)
        return ""

    running = Running(Queue(why_held=slow))
    running.runner.start()
    running.runner.tell(SchedulingQueue.observe, pod("a"))
    assert entered.wait(PATIENCE_S)
    running.runner.stop()
    assert running.released == ["a"]
    assert not running.runner._thread.is_alive()


def test_stop_wakes_a_thread_that_waits_to_be_told_something(
    turned: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = threading.Event()

    class Inbox(SimpleQueue[Callable[[], object]]):
        def get(self, block: bool = True, timeout: float | None = None) -> Callable[[], object]:
            asleep.set()
            return super().get(block, timeout)

    monkeypatch.setattr(runner_module, "JOIN_S", PATIENCE_S)
    runner = turned.runner
    runner._inbox = Inbox()
    runner.start()
    assert asleep.wait(PATIENCE_S)
    runner.stop()
    assert not runner._thread.is_alive()
