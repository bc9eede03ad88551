"""Runs calls of plugins on threads with a time limit; opens the breaker of a plugin that hangs.

Python cannot end a thread. kubextend abandons a thread that hangs in a plugin: another thread takes
its place, and kubextend drops the late result.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from kubextend.errors import PluginError
from kubextend.metrics import Metrics
from kubextend.profile.breaker import HEALTH, Breakers
from kubextend.profile.guarded_calls import about
from kubextend.profile.plugin_call_metrics import PluginCallMetrics
from kubextend.profile.plugin_failures import PluginFailures
from kubextend.profile.run_in_progress import PluginCall, Run
from kubextend.profile.threads import THREADS, Job, Threads

__all__ = ["HungError", "LateCalls", "LimitedCall", "PluginLimits"]

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

# kube-scheduler asks about one pod at a time; large bodies and retries need further threads.
_VERB_THREADS: Final = 8
# Methods of the binding cycle mostly wait, and kube-scheduler binds any number of pods at once.
_BINDING_THREADS: Final = 32
_LOOK_AGAIN_S: Final = 1.0


class HungError(PluginError):
    """A plugin's method did not return in time."""

    def __init__(self, call: PluginCall) -> None:
        super().__init__(call.plugin, call.extension_point, "has not answered in time")


class LateCalls:
    """The calls of Reserve plugins on threads that outlive their binding cycles.

    Such a call may still change what the plugin has reserved for the pod. All methods run in one
    event loop.
    """

    def __init__(self) -> None:
        self._calls: dict[asyncio.Future[Any], tuple[str, PluginCall]] = {}

    def add(self, uid: str, call: PluginCall, end: Coroutine[Any, Any, object]) -> None:
        """Await ``end``, and count the call as late until then.

        Args:
            uid: the UID of the pod that the call is about.
            call: the plugin and the extension point.
            end: ends when the call changes nothing any more.
        """
        task = asyncio.ensure_future(end)
        self._calls[task] = uid, call
        task.add_done_callback(self._calls.pop)

    def of(self, uid: str) -> PluginCall | None:
        """Return a late call about the pod with this UID; None: there is none."""
        return next((call for of_pod, call in self._calls.values() if of_pod == uid), None)


class PluginLimits:
    """The breakers of all plugins, and the threads on which plugins are called.

    Args:
        clock: returns the present time in monotonic seconds.
        metrics: gets the metrics of plugins' calls, breakers and threads; None: new metrics.

    Attributes:
        breakers: the breakers of all plugins.
        clock: the argument ``clock``.
        metrics: counts the calls of plugins.
        failures: counts and logs the failures of plugins.
        late: the calls of Reserve plugins that outlive their binding cycles.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
    ) -> None:
        self.breakers = Breakers(clock)
        self.clock = clock
        metrics = Metrics() if metrics is None else metrics
        self.metrics = PluginCallMetrics(metrics)
        self.failures = PluginFailures(metrics, clock)
        self.late = LateCalls()
        metrics.scrape(HEALTH, self.breakers.health)
        self._verb_threads = Threads(_VERB_THREADS, "verb")
        self._binding_threads = Threads(_BINDING_THREADS, "binding")
        metrics.scrape(THREADS, self._verb_threads.use, pool="verb")
        metrics.scrape(THREADS, self._binding_threads.use, pool="binding")

    def start(self, work: Callable[[], _T]) -> "LimitedCall[_T]":
        """Begin the work for a request on a thread, and return the call, which may be abandoned.

        Args:
            work: calls plugins, whose calls the run of the ``LimitedCall`` records.
        """
        return LimitedCall(work, self.run(), self._verb_threads, self.breakers)

    def run(self) -> Run:
        """Return a new run, for work that calls plugins."""
        return Run(self.breakers, self.clock, self.metrics)

    def within(self, seconds: float | None, work: Callable[[], _T]) -> _T:
        """Call ``work`` on a thread, block until it ends, and return its result.

        Args:
            seconds: the most seconds to wait; None: wait until the work ends.
            work: calls plugins.

        Raises:
            HungError: the work took longer than ``seconds``, and a plugin took most of the time.
            TimeoutError: the work took longer than ``seconds``, and no plugin took most of the
                time.
        """
        call = self.start(work)
        if not wait([call.job.future], seconds).done:
            raise call.given_up()
        return call.job.future.result()

    async def within_async(self, seconds: float | None, work: Callable[[], _T]) -> _T:
        """Call ``work`` on a thread, await its end, and return its result.

        Args:
            seconds: the most seconds to wait; None: wait until the work ends.
            work: calls plugins.

        Raises:
            HungError: the work took longer than ``seconds``, and a plugin took most of the time.
            TimeoutError: the work took longer than ``seconds``, and no plugin took most of the
                time.
        """
        call = self.start(work)
        told, until_s = (
            call.told(),
            None if seconds is None else asyncio.get_running_loop().time() + seconds,
        )
        try:
            await asyncio.wait([told], timeout=seconds)
            if not call.job.future.done():
                raise call.given_up()
            return call.job.future.result()
        except asyncio.CancelledError:
            call.leave(told, until_s, call.given_up)
            raise
        finally:
            # An error of the work refers to this frame, which must not refer to the error.
            del call

    def binding_call(
        self,
        plugin: str,
        deadline_s: float | None,
        work: Callable[[], _T],
        *,
        cleanup: bool = False,
        on_late: "Callable[[asyncio.Future[None]], object] | None" = None,
    ) -> "tuple[asyncio.Future[None], Future[_T]]":
        """Run a plugin's synchronous binding method on a thread.

        Returns: a future to await, which is done once the method has returned, and one that has the
            result then. If the first is cancelled, the thread may go on until the deadline; after
            the deadline the thread counts as stuck.

        Args:
            plugin: the name of the plugin.
            deadline_s: the deadline on the clock of ``time.monotonic``; None: no deadline.
            work: calls the method.
            cleanup: True makes sure that the method is called, even if the future is cancelled
                before a thread is free.
            on_late: called if the future is cancelled and the method has still to return; gets a
                future that is done once the method has returned. None: nothing is called.
        """
        job = self._binding_threads.submit(work)
        told = _told_of(job.future)

        def left(_: object) -> None:
            if not told.cancelled():
                return
            if not cleanup:
                job.withdraw()
            if on_late is not None and not job.future.done():
                on_late(_told_of(job.future))
            if deadline_s is None:
                return
            if (left_s := deadline_s - time.monotonic()) > 0:
                give_up = partial(self._give_up, plugin, job, blames=True, cleanup=cleanup)
                asyncio.get_running_loop().call_later(left_s, give_up)
            else:
                # Whoever waited until now has blamed the plugin.
                self._give_up(plugin, job, blames=False, cleanup=cleanup)

        told.add_done_callback(left)
        return told, job.future

    def _give_up(self, plugin: str, job: Job[_T], *, blames: bool, cleanup: bool) -> None:
        """Abandon a binding method that has not returned; wait for one that must run, and has not.

        Args:
            plugin: the name of the plugin.
            job: the call of the method.
            blames: whether to open the plugin's breaker.
            cleanup: whether the method must be called.
        """
        if job.future.done():
            return
        _log_stack(plugin, job)
        if blames:
            self.breakers.hung(plugin)
        if cleanup and not job.future.running():
            again = partial(self._give_up, plugin, job, blames=False, cleanup=cleanup)
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, again)
        elif self._binding_threads.give_up(job, partial(self.breakers.came_back, plugin)):
            self.breakers.stuck(plugin)

    def stop(self) -> None:
        """Accept no further work, without waiting for running work."""
        self._verb_threads.stop()
        self._binding_threads.stop()


class LimitedCall(Generic[_T]):
    """The work for a request on a thread, which the caller can abandon.

    Attributes:
        run: records the plugin calls of the work.
        job: the call on the thread, with its future.
    """

    def __init__(
        self, work: Callable[[], _T], run: Run, threads: Threads, breakers: Breakers
    ) -> None:
        self.run = run
        self._threads = threads
        self._breakers = breakers
        self.job = threads.submit(work, run.context(), run.end)

    def told(self) -> "asyncio.Future[None]":
        """Return a future that is done once the work has ended."""
        return _told_of(self.job.future)

    def leave(
        self,
        told: "asyncio.Future[None]",
        until_s: float | None,
        too_late: Callable[[], object],
    ) -> None:
        """Cancel work that has not begun; other work goes on, though nobody waits for it.

        Args:
            told: what ``told`` returned.
            until_s: when ``too_late`` is called, on the event loop's clock, if the work has not
                ended by then; None: never.
            too_late: calls ``given_up``.
        """
        self.job.withdraw()
        if until_s is not None and not self.job.future.done():
            timer = asyncio.get_running_loop().call_at(until_s, _without_errors, too_late)
            told.add_done_callback(lambda _: timer.cancel())

    def given_up(self) -> HungError | TimeoutError:
        """Abandon the work, which took too long, and return the error to raise.

        The method opens the breaker of the plugin that took most of the time. Without such a plugin
        the error is a TimeoutError.
        """
        slowest = self.run.slowest()
        current = self.run.abandon()
        if current is not None:
            _log_stack(current.plugin, self.job)
        if current is None:
            self._threads.give_up(self.job)
        elif self._threads.give_up(self.job, partial(self._breakers.came_back, current.plugin)):
            self._breakers.stuck(current.plugin)
        if slowest is None:
            _LOGGER.error("no answer in time, and no plugin took most of the time")
            return TimeoutError("kubextend has not answered in time")
        self._breakers.hung(slowest.plugin)
        hung = HungError(slowest)
        about(hung, self.run.pod)
        return hung


def _without_errors(too_late: Callable[[], object]) -> None:
    """Call ``too_late`` where nobody waits for its result."""
    with suppress(PluginError, TimeoutError):
        too_late()


def _log_stack(plugin: str, job: Job[_T]) -> None:
    """Log where the thread of a plugin's call is that kubextend gives up, once for each call.

    After two such calls kubextend does not call the plugin any more.
    """
    stack = job.stack()
    if stack:
        message = 'plugin "%s" has not answered in time; its thread is here'
        where = (_LOGGER.name, logging.ERROR, __file__, 0)
        _LOGGER.handle(
            _LOGGER.makeRecord(
                *where, message, (plugin,), None, extra={"plugin": plugin}, sinfo=stack
            )
        )


def _told_of(future: Future[_T]) -> asyncio.Future[None]:
    """Return an asyncio future that is done once a thread's future is done.

    A cancellation of the asyncio future does not cancel the thread's future.
    """
    loop = asyncio.get_running_loop()
    told = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    def tell_loop(_future: Future[_T]) -> None:
        # A thread may come back after the loop has ended.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)

    future.add_done_callback(tell_loop)
    return told
