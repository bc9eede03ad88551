"""The time of a ``testing.Cluster``, which passes only when the test says so.

Threads that run methods of plugins work in real time: while one works, the time of the test stands
still. An event loop of this module therefore knows when nothing more can happen at a moment.
"""

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kubextend.errors import PluginError
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits
from kubextend.profile.plugin_failures import PluginFailures

__all__ = ["Clock", "PausedLimits", "PausedLoop"]

_T = TypeVar("_T")
_Events = list[tuple[selectors.SelectorKey, int]]

_BEGIN_S: Final = 1000.0
_LONGEST_CALL_S: Final = 60.0


@dataclass(slots=True)
class Clock:
    """A clock that shows the seconds which a test has set.

    Attributes:
        now_s: the present time in seconds.
        in_threads: how many coroutines wait for a thread.
    """

    now_s: float = _BEGIN_S
    in_threads: int = 0

    def __call__(self) -> float:
        """Return the present time in seconds."""
        return self.now_s

    @contextmanager
    def waiting_for_thread(self) -> Iterator[None]:
        """Return a context in which a coroutine waits for a thread; the clock stands still."""
        self.in_threads += 1
        try:
            yield
        finally:
            self.in_threads -= 1


class PausedLimits(PluginLimits):
    """The threads and breakers of plugins, for coroutines of a ``PausedLoop``.

    Args:
        clock: the clock of the loop.
        metrics: counts the calls of plugins.

    Attributes:
        errors: what plugins raised, with the cause, in order.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        super().__init__(clock, metrics)
        self._paused = clock
        self.errors = list[PluginError]()
        self.failures = PluginFailures(metrics, clock, self.errors.append)

    async def within_async(self, seconds: float | None, work: Callable[[], _T]) -> _T:
        """Call ``work`` on a thread as ``PluginLimits`` does, while no time passes."""
        with self._paused.waiting_for_thread():
            return await super().within_async(seconds, work)

    def binding_call(
        self,
        plugin: str,
        deadline_s: float | None,
        work: Callable[[], _T],
        *,
        cleanup: bool = False,
        on_late: Callable[[asyncio.Future[None]], object] | None = None,
    ) -> tuple[asyncio.Future[None], Future[_T]]:
        """Run a binding method on a thread as ``PluginLimits`` does, while no time passes."""
        waiting = ExitStack()
        waiting.enter_context(self._paused.waiting_for_thread())
        returned, result = super().binding_call(
            plugin, deadline_s, work, cleanup=cleanup, on_late=on_late
        )
        returned.add_done_callback(lambda _: waiting.close())
        return returned, result


class PausedLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers fire when ``run_until`` moves its clock, and not by themselves.

    Args:
        clock: the clock of the loop.
    """

    def __init__(self, clock: Clock) -> None:
        self._paused = clock
        self._until_s = clock.now_s
        super().__init__(_Selector(self._idle))

    def time(self) -> float:
        """Return the time of the loop's clock in seconds."""
        return self._paused.now_s

    def run_until(self, at_s: float) -> None:
        """Run all that happens until a time of the clock, and set the clock to that time.

        Args:
            at_s: the time in seconds.

        Raises:
            RuntimeError: this thread runs another event loop.
            TimeoutError: a method of a plugin has not returned in a real minute.
        """
        self._until_s = at_s
        self.run_forever()

    def run_in_executor(  # type: ignore[override]  # typeshed has a form with type variables
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function on another thread, as ``asyncio.to_thread`` does, while no time passes."""
        self._paused.in_threads += 1
        done = super().run_in_executor(executor, func, *args)
        done.add_done_callback(self._thread_is_done)
        return done

    def _thread_is_done(self, _: object) -> None:
        self._paused.in_threads -= 1

    def _idle(self, timeout: float | None, select: Callable[[float], _Events]) -> _Events:
        """Return events of threads; without any, move the clock to the next timer, or stop."""
        if self._paused.in_threads:
            if events := select(_LONGEST_CALL_S):
                return events
            message = f"a method of a plugin has not returned for {_LONGEST_CALL_S:g} s"
            raise TimeoutError(message)
        if events := select(0):
            return events
        if timeout is not None and self._paused.now_s + timeout <= self._until_s:
            self._paused.now_s += timeout
        else:
            self._paused.now_s = self._until_s
            self.stop()
        return []


class _Selector(selectors.DefaultSelector):
    """Asks a function what to do if the event loop has no callback to run."""

    def __init__(self, idle: Callable[[float | None, Callable[[float], _Events]], _Events]) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> _Events:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        return self._idle(timeout, super().select)
