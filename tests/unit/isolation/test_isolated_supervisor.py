"""When a child that ended is followed by another one, and who is kept waiting meanwhile."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from isolation_world import SOON_S, until

from kubextend.profile.breaker import Breakers
from kubextend.profile.isolation.process import ChildError
from kubextend.profile.isolation.supervisor import Supervisor
from kubextend.profile.plugin_calls import Run


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakeChild:
    """In the place of a process."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()

    def dispose(self) -> str:
        return "its process ended"


class Pauses(threading.Event):
    """Takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return self.is_set()


def supervisor_of(births: list[Callable[[], Any]], clock: Clock | None = None) -> Supervisor:
    """A supervisor whose children are born like this, one after the other."""
    coming = iter(births)

    def born() -> Any:
        return next(coming)()

    return Supervisor("P", born, clock or Clock())


def fails() -> None:
    message = "no memory"
    raise ChildError(message)


def ends(_child: object) -> None:
    raise EOFError


def lose(supervisor: Supervisor) -> None:
    """Its child ends, and another one is there."""
    with pytest.raises(ChildError, match="its process ended"):
        supervisor.ask(ends)
    until(lambda: supervisor._child is not None)


def test_one_that_does_not_start_is_tried_again_after_longer_and_longer_pauses() -> None:
    supervisor = supervisor_of([FakeChild, fails, fails, fails, FakeChild])
    pauses = supervisor._stopped = Pauses()
    lose(supervisor)
    assert pauses.seconds == [0, 1, 2, 4]


def test_each_child_has_a_life_of_its_own_that_is_long_or_short() -> None:
    clock = Clock()
    supervisor = supervisor_of([FakeChild] * 4, clock)
    pauses = supervisor._stopped = Pauses()
    for lived_s in (100, 1, 100):
        clock.now_s += lived_s
        lose(supervisor)
    assert pauses.seconds == [0, 1, 0]


def test_a_child_that_is_born_after_the_end_is_ended() -> None:
    being_born, go, late = threading.Event(), threading.Event(), FakeChild()

    def born_late() -> FakeChild:
        being_born.set()
        assert go.wait(SOON_S)
        return late

    supervisor = supervisor_of([FakeChild, born_late])
    with pytest.raises(ChildError):
        supervisor.ask(ends)
    assert being_born.wait(SOON_S)
    supervisor.stop()
    go.set()
    assert late.killed.wait(SOON_S)


def test_a_call_that_is_given_up_while_it_waits_for_its_turn_comes_back_at_once() -> None:
    busy, go = threading.Event(), threading.Event()

    def takes_long(_child: object) -> bool:
        busy.set()
        return go.wait(SOON_S)

    supervisor, run = supervisor_of([FakeChild]), Run(Breakers())
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(supervisor.ask, takes_long)
        assert busy.wait(SOON_S)
        second = threads.submit(run.enter, lambda: supervisor.ask(ends))
        until(lambda: len(supervisor._changed._waiters) == 1)
        run.abandon()
        try:
            with pytest.raises(ChildError, match="busy with another call"):
                second.result(SOON_S / 2)
            assert not first.done()
        finally:
            go.set()
        assert first.result(SOON_S)
