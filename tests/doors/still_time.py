"""Time that stands still, and passes when a test says so: a clock, and an event loop on it."""

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

AT_MOST_S: Final = 60.0
"""The real seconds after which what a test waits for fails the test."""

_PASSES: Final = 10


@dataclass(slots=True)
class Clock:
    """The time of a test, in seconds."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


class Loop(asyncio.SelectorEventLoop):
    """An event loop on a clock that a test moves."""

    def __init__(self, clock: Clock) -> None:
        self._clock_of_test = clock
        super().__init__(_Selector())

    def time(self) -> float:
        return self._clock_of_test.now_s


class _Selector(selectors.DefaultSelector):
    """Fails a test whose loop waits for a thread that does nothing for a real minute."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        at_most_s = AT_MOST_S if timeout is None else min(timeout, AT_MOST_S)
        events = super().select(at_most_s)
        if not events and at_most_s == AT_MOST_S:
            message = f"nothing happened for {AT_MOST_S:g} s"
            raise TimeoutError(message)
        return events


@contextmanager
def time_of(clock: Clock) -> Iterator[None]:
    """Let the process read the clock of a Wire as its monotonic time."""
    earlier = time.monotonic
    time.monotonic = clock
    try:
        yield
    finally:
        time.monotonic = earlier


async def passes() -> None:
    # One pass of the loop for timers, one for the tasks that wait for them, and so on.
    for _ in range(_PASSES):
        await asyncio.sleep(0)
