"""An event loop on which time passes when a test says so, and never by itself."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

AT_MOST_S: Final = 60.0
"""The real seconds after which ``run`` fails a test; only a failing test takes as long."""

# The time of all loops, which only goes forward, also from one test to the next.
_now_s = [1000.0]


def now() -> float:
    """Return the time of every ``SkippingLoop`` in seconds."""
    return _now_s[0]


class SkippingLoop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return now()


def run(scenario: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on a ``SkippingLoop``; raise TimeoutError after a real minute."""

    async def watched() -> _T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        late = threading.Timer(AT_MOST_S, loop.call_soon_threadsafe, [task.cancel])
        late.daemon = True
        late.start()
        try:
            return await scenario
        except asyncio.CancelledError:
            message = f"not done after {AT_MOST_S:g} s"
            raise TimeoutError(message) from None
        finally:
            late.cancel()

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(watched())


async def skip(seconds: float = 0.0) -> None:
    """Move the loop's time forward, and run all timers that are due and the tasks they wake."""
    assert isinstance(asyncio.get_running_loop(), SkippingLoop)
    _now_s[0] += seconds
    # One pass of the loop for the timers, one for the tasks that wait for them, and so on.
    for _ in range(10):
        await asyncio.sleep(0)


async def until(fulfilled: Callable[[], object]) -> None:
    """Wait until threads have made ``fulfilled`` true, while the loop's time stands still."""
    while not fulfilled():  # noqa: ASYNC110  there is no event for what is waited for
        await asyncio.sleep(0)
