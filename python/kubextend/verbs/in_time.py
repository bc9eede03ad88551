"""Answers before kube-scheduler's timeout, whatever plugins do.

A verb runs on a thread. kubextend waits until 80 % of the timeout are over, counted from the
arrival of the request's head. Where a verb can answer without its slowest plugin, kubextend gives
up that plugin at 60 % and runs the verb again without the plugin in the time that is left.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubextend.errors import PluginError
from kubextend.metrics import Metrics
from kubextend.profile.limits import LimitedCall, PluginLimits
from kubextend.profile.run import Run
from kubextend.verbs.answer import REJECTS_ALL, Body, QuickVerb, unable
from kubextend.verbs.failures import Failures, sentence

__all__ = ["InTime", "OnJob"]

_SHARE: Final = 0.80
_FIRST_TRY_SHARE: Final = 0.60
_TOO_LATE = "kubextend has not answered in time"


OnJob: TypeAlias = Callable[[Future[Any]], object]
"""Called with a future that is done once a thread no longer uses the request's memory."""


@dataclass(slots=True, eq=False)
class _Asked:
    """One request, for as long as a thread works on it."""

    verb: QuickVerb
    work: Callable[[], Body]
    arrived_s: float
    on_job: OnJob
    call: LimitedCall[Body] | None = None
    wanted: bool = True

    def withdraw(self) -> None:
        """Note that nobody waits for the answer; a running call is still watched: it may hang."""
        self.wanted = False
        if self.call is not None:
            self.call.withdraw()


class InTime:
    """Runs the quick verbs on threads, and answers in place of those that take too long.

    Args:
        limits: the threads, and the breakers of the plugins.
        failures: told of every plugin that did not answer in time.
        metrics: where requests are counted.
        timeout_s: kube-scheduler's timeout.
        ignorable: kube-scheduler ignores our Errors, so a late answer has to be a rejection.
        clock: monotonic seconds, as fast as the clock of the event loop.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing it is joined to
        self,
        limits: PluginLimits,
        failures: Failures,
        *,
        metrics: Metrics,
        timeout_s: float,
        ignorable: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._failures = failures
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._ignorable = ignorable
        self._clock = clock
        self._watching: set[asyncio.Task[Body]] = set()

    async def answer(
        self,
        verb: QuickVerb,
        work: Callable[[], Body],
        arrived_s: float,
        on_job: OnJob = lambda _: None,
    ) -> Body:
        """Return the verb's answer, or a substitute when the time is over.

        Args:
            verb: the verb.
            work: runs the verb.
            arrived_s: when the request came, on ``clock``.
            on_job: told of each thread's work on the request.

        Raises: WireError: the body cannot be read.
        """
        asked = _Asked(verb, work, arrived_s, on_job)
        watching = asyncio.ensure_future(self._watched(asked))
        self._watching.add(watching)
        watching.add_done_callback(self._watched_to_the_end)
        try:
            return await asyncio.shield(watching)
        except asyncio.CancelledError:
            asked.withdraw()
            raise
        finally:
            # An error refers to the frames that it went through, so this frame must not refer to
            # the error.
            del watching

    def _watched_to_the_end(self, watching: asyncio.Task[Body]) -> None:
        self._watching.discard(watching)
        if not watching.cancelled():
            # Where the client is gone nobody retrieves the exception, and the event loop would log
            # that.
            watching.exception()

    async def _watched(self, asked: _Asked) -> Body:
        call = self._begun(asked)
        try:
            if await call.done_within(self._left_s(asked, _FIRST_TRY_SHARE)):
                return call.job.future.result()
            slowest = call.run.slowest()
            if asked.wanted and slowest and slowest.plugin in call.run.may_go_on_without:
                self._give_up(call, f"{asked.verb} goes on without it")
                call = self._begun(asked)
            if await call.done_within(self._left_s(asked, _SHARE)):
                return call.job.future.result()
            why = self._give_up(call, f"{asked.verb} fails")
            self._metrics.requests(asked.verb, "error").inc()
            return self._instead(asked.verb, call.run, why)
        finally:
            asked.call = None
            del call

    def _begun(self, asked: _Asked) -> LimitedCall[Body]:
        asked.call = self._limits.start(asked.work)
        asked.on_job(asked.call.job.future)
        return asked.call

    def _left_s(self, asked: _Asked, share: float) -> float:
        return asked.arrived_s + self._timeout_s * share - self._clock()

    def _give_up(self, call: LimitedCall[Body], consequence: str) -> str:
        """Abandon the call and return the reason for kube-scheduler."""
        error = call.given_up()
        if not isinstance(error, PluginError):
            return _TOO_LATE
        self._failures.note(error, consequence)
        return sentence(error)

    def _instead(self, verb: QuickVerb, run: Run, why: str) -> Body:
        if run.answer_instead is not None:
            return run.answer_instead(why)
        if verb == "filter" and self._ignorable:
            return REJECTS_ALL.body
        return unable(verb, why).body
