"""An event loop on which time passes when a test says so, and never by itself."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

AT_MOST_S: Final = 60.0
"""Real seconds, which only a test waits for that is about to fail."""

# Of all loops: time goes forward only, also from one test to the next.
_now_s = [1000.0]


def now() -> float:
    """The clock of such a loop."""
    return _now_s[0]


class SkippingLoop(asyncio.SelectorEventLoop):
    def time(self) -> float:
        return now()


def run(scenario: Coroutine[Any, Any, _T]) -> _T:
    """As ``asyncio.run``, on such a loop; TimeoutError after a real minute."""

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
    """Every timer that is due by then has gone off, and what waited for it has gone on."""
    assert isinstance(asyncio.get_running_loop(), SkippingLoop)
    _now_s[0] += seconds
    # A turn for the timers, one for who waits for them, and some for who waits for those.
    for _ in range(10):
        await asyncio.sleep(0)


async def until(fulfilled: Callable[[], object]) -> None:
    """What threads bring about is there, while no time passes."""
    while not fulfilled():  # noqa: ASYNC110  there is no event for what is waited for
        await asyncio.sleep(0)
