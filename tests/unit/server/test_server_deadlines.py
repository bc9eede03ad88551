"""The rule of deadlines on a clock that the test turns."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kubextend.server.connection.deadlines import Deadline


class Handle:
    """What a loop returns for a call to come."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop(asyncio.AbstractEventLoop):
    """Has no time but the one it is told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.due: list[tuple[float, Callable[[], None], Handle]] = []
        self.looks = 0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Any, *args: Any, **_: Any) -> Any:
        handle = Handle()
        self.due.append((self.now_s + delay, partial(callback, *args), handle))
        return handle

    def pass_time(self, until_s: float) -> None:
        while self.due and self.due[0][0] <= until_s:
            self.now_s, callback, handle = self.due.pop(0)
            if not handle.cancelled:
                self.looks += 1
                callback()
        self.now_s = until_s


def over_at(moved_s: Callable[[float], float], allowed_s: float = 30.0) -> tuple[float, int]:
    """After how many seconds it is over, and how often it was looked at, within an hour."""
    loop, ends = Loop(), []
    begun_s = loop.now_s
    Deadline(loop).start(
        allowed_s,
        lambda: ends.append(loop.now_s - begun_s),
        lambda: moved_s(loop.now_s - begun_s),
    )
    loop.pass_time(begun_s + 3600)
    assert len(ends) <= 1
    return (ends[0] if ends else float("inf")), loop.looks


@pytest.mark.parametrize(
    ("pace", "seconds"),
    [(0.0, 30.0), (0.00002, 30.0), (0.5, 60.0), (0.75, 120.0), (0.95, 600.0), (1.01, float("inf"))],
)
def test_a_pace_decides_how_long_somebody_is_waited_for(pace: float, seconds: float) -> None:
    # After t seconds 30 + pace * t are allowed.
    found, looks = over_at(lambda elapsed_s: pace * elapsed_s)
    assert found == pytest.approx(seconds, abs=1.0)
    assert looks < 300


def test_a_burst_at_the_end_counts() -> None:
    found, _ = over_at(lambda elapsed_s: 10.0 if elapsed_s >= 29 else 0.0)
    assert found == pytest.approx(40.0, abs=0.1)


def test_nobody_rests_for_long_on_a_burst() -> None:
    # Half a gigabyte at 64 KiB a second would be two hours.
    found, _ = over_at(lambda elapsed_s: 8192.0 if elapsed_s >= 10 else 0.0)
    assert found == pytest.approx(60.0, abs=0.1)


def test_who_moves_enough_in_bursts_is_waited_for() -> None:
    # 30 s are allowed ahead, and each 25 s as much comes as they need.
    found, _ = over_at(lambda elapsed_s: 25.0 * (elapsed_s // 25))
    assert found == float("inf")


def test_nothing_is_over_once_it_has_ended() -> None:
    loop, ends = Loop(), []
    deadline = Deadline(loop)
    deadline.start(1.0, lambda: ends.append("over"))
    deadline.cancel()
    loop.pass_time(1000)
    assert ends == []


def test_nothing_is_over_once_it_has_ended_after_a_look_that_granted_more() -> None:
    loop, ends = Loop(), []
    deadline = Deadline(loop)
    deadline.start(2.0, lambda: ends.append("over"), lambda: 5.0)
    loop.pass_time(loop.now_s + 3.0)
    assert loop.looks == 1
    deadline.cancel()
    loop.pass_time(loop.now_s + 1000)
    assert ends == []


def test_a_deadline_that_runs_is_not_started_anew() -> None:
    loop, ends = Loop(), []
    deadline = Deadline(loop)
    for after_s in (0.0, 20.0):
        loop.pass_time(loop.now_s + after_s)
        deadline.start(30.0, lambda: ends.append(loop.now_s))
    begun_s = loop.now_s - 20.0
    loop.pass_time(loop.now_s + 1000)
    assert ends == [begun_s + 30.0]
    deadline.start(30.0, lambda: ends.append(loop.now_s))
    loop.pass_time(loop.now_s + 1000)
    assert len(ends) == 2
