"""The thread that runs a queue."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from queue_world import Clock, Queue, pod, released

from kubextend import core
from kubextend.queue import QueueRunner, State


@dataclass
class Running:
    """A runner, what it released, and whether it leads."""

    queue: Queue = field(default_factory=Queue)
    leads: bool = True
    released: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.runner = QueueRunner(self.queue.queue, self._release, lambda: self.leads)

    def _release(self, made: core.Pod) -> None:
        self.threads.add(threading.current_thread().name)
        self.released.append(made.name)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    made.runner.start()
    yield made
    made.runner.stop()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "did not come to hold in time"
        time.sleep(0.002)


def test_what_is_told_leads_to_releases_on_one_thread(running: Running) -> None:
    runner = running.runner
    runner.replace([pod("a"), pod("b", second=1), pod("c", second=2), pod("d", second=3)])
    eventually(lambda: running.released == ["a"])
    runner.released(pod("a"))
    runner.forget("uid-a")
    eventually(lambda: running.released == ["a", "b"])
    runner.refused(pod("b"), "no")
    eventually(lambda: running.released == ["a", "b", "c"])
    runner.gone(pod("c"))
    eventually(lambda: running.released == ["a", "b", "c", "d"])
    runner.returned(pod("d"))
    eventually(lambda: running.released[4:] == ["d"])
    runner.observe(released("d", node="n1"))
    eventually(lambda: runner.counts()[State.RELEASING] == 0)
    assert running.threads == {"kubextend-queue"}


def test_who_does_not_lead_follows_and_releases_nothing(running: Running) -> None:
    running.leads = False
    running.runner.observe(pod("a"))
    running.runner.observe(pod("b", second=1))
    running.runner.observe(released("a"))
    eventually(lambda: running.runner.counts()[State.RELEASED] == 1)
    assert running.released == []
    running.leads = True
    running.runner.wake()
    running.runner.forget("uid-a")
    eventually(lambda: running.released == ["b"])


def test_time_alone_releases_the_next(running: Running) -> None:
    running.queue.holds["a"] = "for a moment"
    clock = running.queue.clock
    running.runner.observe(pod("a"))
    eventually(lambda: running.runner.counts()[State.HELD] == 1)
    del running.queue.holds["a"]
    clock.pass_s(5)
    eventually(lambda: running.released == ["a"])


def test_a_fault_in_between_does_not_end_it(running: Running) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    running.runner._inbox.put(broken)
    running.runner.observe(pod("a"))
    eventually(lambda: running.released == ["a"])


def test_a_plugin_that_hangs_is_told_of_after_a_minute() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang(_: core.Pod) -> str:
        entered.set()
        leave.wait(10)
        return ""

    clock = Clock()
    released_pods: list[core.Pod] = []
    queue = Queue(why_held=hang, clock=clock).queue
    runner = QueueRunner(queue, released_pods.append, lambda: True, clock)
    runner.start()
    assert runner.why_not_alive() == ""
    runner.observe(pod("a"))
    assert entered.wait(10)
    clock.pass_s(59)
    assert runner.why_not_alive() == ""
    clock.pass_s(2)
    why = "the queue is stuck in a plugin's less or pre_enqueue for 61 s"
    assert runner.why_not_alive() == why
    leave.set()
    eventually(lambda: released_pods)
    eventually(lambda: runner.why_not_alive() == "")
    runner.stop()


def test_nothing_is_released_once_it_is_stopped() -> None:
    made = Running()
    made.runner.start()
    made.runner.stop()
    made.runner.observe(pod("a"))
    time.sleep(0.05)
    assert made.released == []
