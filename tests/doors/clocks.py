"""Time that passes when a test says so: of an event loop, and of the threads of this process.

``skipping`` gives the threads that begin inside of it a time of their own. This time stands still
while any of them has something to do. When all of them wait, ``SkippingTime`` moves it to the end
of the shortest wait: minutes pass at once, and a busy machine changes nothing. Waits are those for
a ``threading.Condition`` (hence ``Event`` and executors), ``time.sleep``, ``Thread.join``, reads of
sockets, and the timers of event loops.

``tests/conftest.py`` imports this module before kubextend, because functions bind
``time.monotonic`` as a default argument when their module is imported.
"""

from __future__ import annotations

import asyncio
import queue
import random
import select
import selectors
import socket
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    Source = socket.socket | selectors.EpollSelector

_T = TypeVar("_T")

AT_MOST_S: Final = 60.0
"""The real seconds after which a test fails; only a failing test takes as long."""

_real_monotonic = time.monotonic
_real_sleep = time.sleep
_real_condition = threading.Condition
_real_join = threading.Thread.join
_real_simple_queue = queue.SimpleQueue
_real_readinto = socket.SocketIO.readinto
_real_select = selectors.EpollSelector.select
_active: SkippingTime | None = None


class _Waiter:
    """One thread that waits, as ``threading.Condition`` keeps it.

    Attributes:
        until_s: the end of the wait.
        source: what the thread reads; None: it waits to be notified.
        is_late: whether the wait has ended because its time is over.
    """

    def __init__(self, until_s: float = inf, source: Source | None = None) -> None:
        self.until_s = until_s
        self.source = source
        self.is_done = self.is_late = False
        self._ended = threading.Lock()
        self._ended.acquire()

    def release(self) -> None:
        """End the wait, as ``Condition.notify`` does; RuntimeError: it has ended."""
        if self.is_done:
            raise RuntimeError
        self.is_done = True
        if _active is not None:
            _active.changes += 1
        self._ended.release()

    def block(self) -> None:
        self._ended.acquire()

    def is_idle(self) -> bool:
        return not self.is_done and not (self.source is not None and _is_readable(self.source))


class _Reader(_Waiter):
    """A thread that waits for bytes of a socket; a byte on ``_wake`` ends the wait."""

    def __init__(self, until_s: float, source: Source) -> None:
        super().__init__(until_s, source)
        self._wake, self._woken = socket.socketpair()

    def release(self) -> None:
        self.is_done = True
        with suppress(OSError):
            self._wake.send(b".")

    def block(self) -> None:
        assert self.source is not None
        with self._wake, self._woken:
            _poll(None, self.source, self._woken)


class _Joiner(_Waiter):
    """A thread that waits for the end of another."""

    def __init__(self, until_s: float, other: threading.Thread) -> None:
        super().__init__(until_s)
        self._other = other

    def block(self) -> None:
        while not self.is_done and self._other.is_alive():
            _real_join(self._other, 0.001)

    def is_idle(self) -> bool:
        # A thread that ends is alive for a moment after it is no longer among the threads.
        return not self.is_done and self._other in threading.enumerate()


def _poll(milliseconds: int | None, *sources: Source) -> bool:
    poller = select.poll()
    for each in sources:
        poller.register(each, select.POLLIN)
    return bool(poller.poll(milliseconds))


def _is_readable(source: Source) -> bool:
    try:
        return bool(getattr(source, "pending", int)()) or _poll(0, source)
    except (OSError, ValueError):
        return True


class SkippingTime:
    """The time of the threads that began inside of ``skipping``.

    Attributes:
        now_s: the present time in seconds.
        changes: how often a thread has begun or ended a wait.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.changes = 0
        self._waiters: dict[int, _Waiter] = {}
        self._others = {*threading.enumerate()}
        self._driver = threading.current_thread()

    def pass_s(self, seconds: float) -> None:
        """Let seconds pass, with all that the threads do meanwhile."""
        self._drive(lambda: False, self.now_s + seconds)

    def until(self, holds: Callable[[], object], within_s: float = 3600.0) -> None:
        """Let time pass until this holds; AssertionError: it does not within these seconds."""
        assert self._drive(holds, self.now_s + within_s), f"did not hold within {within_s:g} s"

    def settle(self) -> None:
        """Let no time pass, and return when every thread waits."""
        late_s = _real_monotonic() + AT_MOST_S
        while busy := self._busy():
            assert _real_monotonic() < late_s, f"these threads do not come to wait: {busy}"
            _real_sleep(0.0002)

    def wait(self, waiter: _Waiter) -> bool:
        """Wait on the calling thread; return False if time was over first."""
        if self.is_driven_here():
            return self.wait_here(lambda: waiter.is_done, waiter.until_s)
        me = threading.get_ident()
        self._waiters[me] = waiter
        self.changes += 1
        waiter.block()
        self.changes += 1
        del self._waiters[me]
        return not waiter.is_late

    def is_driven_here(self) -> bool:
        """Return whether the calling thread is the test's, which lets time pass while it waits."""
        return threading.current_thread() is self._driver

    def wait_here(self, holds: Callable[[], object], until_s: float) -> bool:
        """Let time pass on the test's thread until this holds; return False if time is over first.

        The test's thread may hold a lock that others need: it does not wait until they wait.
        """
        late_s = _real_monotonic() + AT_MOST_S
        while not holds():
            # What is waited for may have come before the last thread began to wait.
            if not self._busy() and not holds() and not self._skip(until_s):
                return False
            assert _real_monotonic() < late_s, f"these threads do not come to wait: {self._busy()}"
            _real_sleep(0.0001)
        return True

    def _drive(self, holds: Callable[[], object], until_s: float) -> bool:
        self.settle()
        while not holds():
            if not self._skip(until_s):
                return False
            self.settle()
        return True

    def _skip(self, until_s: float) -> bool:
        """Move the time to the end of the shortest wait; return False if that is ``until_s``."""
        due_s = min((each.until_s for each in self._waiters.copy().values()), default=inf)
        assert min(due_s, until_s) < inf, "every thread waits for ever"
        # Who waits for a moment that rounds to nothing would wait for ever.
        due_s = max(due_s, self.now_s + 1e-6)
        self.now_s = max(self.now_s, min(due_s, until_s))
        self._end_waits(self.now_s)
        return due_s <= until_s

    def _end_waits(self, until_s: float) -> None:
        for each in self._waiters.copy().values():
            if each.until_s <= until_s and not each.is_done:
                each.is_late = True
                with suppress(RuntimeError):
                    each.release()

    def _busy(self) -> list[str]:
        """Return the names of the threads that do not wait, or of all if one has just changed."""
        before = self.changes
        threads = {*threading.enumerate()} - self._others
        waiting = {me for me, each in self._waiters.copy().items() if each.is_idle()}
        busy = [each.name for each in threads if each.ident not in waiting]
        return busy if self.changes == before else busy or ["changed"]

    def end(self) -> None:
        """End all waits."""
        self._end_waits(inf)


class _Condition(_real_condition):
    """A ``threading.Condition`` whose waits end by the skipping time, if there is one."""

    def wait(self, timeout: float | None = None) -> bool:
        if (time_now := _active) is None or (timeout is not None and timeout <= 0):
            return super().wait(timeout)
        inner: Any = self
        waiter = _Waiter(inf if timeout is None else time_now.now_s + timeout)
        inner._waiters.append(waiter)
        saved = inner._release_save()
        try:
            return time_now.wait(waiter)
        finally:
            inner._acquire_restore(saved)
            with suppress(ValueError):
                inner._waiters.remove(waiter)


class _Latest(random.Random):
    """Jitter that always waits as long as it may."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)

    def randint(self, a: int, b: int) -> int:
        return max(a, b)


def _monotonic() -> float:
    return _real_monotonic() if _active is None else _active.now_s


def _sleep(seconds: float) -> None:
    if _active is None:
        _real_sleep(seconds)
    else:
        _active.wait(_Waiter(_active.now_s + seconds))


def wait_until_readable(source: Source, limit_s: float | None = None) -> bool:
    """Wait until a socket or a selector can be read; return False if time is over first."""
    if (time_now := _active) is None:
        return _poll(None if limit_s is None else int(limit_s * 1000), source)
    if _is_readable(source):
        return True
    until_s = inf if limit_s is None else time_now.now_s + limit_s
    if time_now.is_driven_here():
        return time_now.wait_here(lambda: _is_readable(source), until_s)
    return time_now.wait(_Reader(until_s, source)) or _is_readable(source)


def _select(self: selectors.EpollSelector, timeout: float | None = None) -> Any:
    if _active is not None and (timeout is None or timeout > 0):
        wait_until_readable(self, timeout)
        timeout = 0
    return _real_select(self, timeout)


def _join(self: threading.Thread, timeout: float | None = None) -> None:
    if (time_now := _active) is None:
        _real_join(self, timeout)
    elif self.is_alive():
        until_s = inf if timeout is None else time_now.now_s + timeout
        if time_now.is_driven_here():
            time_now.wait_here(lambda: not self.is_alive(), until_s)
        else:
            time_now.wait(_Joiner(until_s, self))


def _readinto(self: socket.SocketIO, buffer: Any) -> int | None:
    sock = self._sock  # type: ignore[attr-defined]
    if _active is not None and not wait_until_readable(sock, sock.gettimeout()):
        raise TimeoutError
    return _real_readinto(self, buffer)


class _SimpleQueue:
    """A ``queue.SimpleQueue``: one that waits by ``threading`` if the time skips."""

    def __new__(cls) -> Any:
        skips = _active is not None
        return queue._PySimpleQueue() if skips else _real_simple_queue()  # type: ignore[attr-defined]

    __class_getitem__ = classmethod(GenericAlias)


_is_first = "kubextend" not in sys.modules
time.monotonic = threading._time = _monotonic  # type: ignore[attr-defined]
time.sleep = _sleep
queue.SimpleQueue = _SimpleQueue  # type: ignore[assignment,misc]


@contextmanager
def skipping() -> Iterator[SkippingTime]:
    """Give the threads that begin inside of this block a time that skips; jitter is as long as
    possible.
    """
    global _active  # noqa: PLW0603
    assert _is_first, "import tests.doors.clocks before kubextend"
    _active = made = SkippingTime()
    with ExitStack() as changes:
        for owner, name, stand_in in (
            (threading, "Condition", _Condition),
            (threading.Thread, "join", _join),
            (socket.SocketIO, "readinto", _readinto),
            (selectors.EpollSelector, "select", _select),
            (random, "Random", _Latest),
        ):
            changes.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, stand_in)
        try:
            yield made
        finally:
            _active = None
            made.end()


# The time of all loops, which only goes forward, also from one test to the next.
_now_s = [1000.0]


def now() -> float:
    """Return the time of every ``SkippingLoop`` in seconds."""
    return _now_s[0]


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes by ``skip``, and never by itself."""

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
