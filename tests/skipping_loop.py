"""An event loop on which a test skips time instead of waiting for it."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
# Of all loops: time goes forward only, also from one test to the next.
_skipped_s = [0.0]


def now() -> float:
    """The clock of such a loop. Real time goes on beneath: what was skipped comes on top."""
    return time.monotonic() + _skipped_s[0]


class SkippingLoop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return now()


def run(scenario: Coroutine[Any, Any, _T]) -> _T:
    """As ``asyncio.run``, on a loop whose time can be skipped."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(scenario)


async def skip(seconds: float) -> None:
    """Every timer that is due by then has gone off, and what waited for it has gone on."""
    assert isinstance(asyncio.get_running_loop(), SkippingLoop)
    _skipped_s[0] += seconds
    # A turn for the timers, one for who waits for them, and some for who waits for those.
    for _ in range(10):
        await asyncio.sleep(0)
