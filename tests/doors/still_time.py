"""Time that stands still, and passes when a test says so: a clock, and an event loop on it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_PASSES: Final = 10


@dataclass(slots=True)
class Clock:
    """The time of a test, in seconds."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Loop(asyncio.SelectorEventLoop):
    """An event loop on the clock of a Wire."""

    def __init__(self, clock: Clock) -> None:
        self._clock_of_wire = clock
        super().__init__()

    def time(self) -> float:
        return self._clock_of_wire.now_s


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
