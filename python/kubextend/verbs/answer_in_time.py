"""Makes verbs answer before kube-scheduler's timeout, however long plugins take.

A verb runs on a thread. kubextend waits until 80 % of the timeout are over, counted from the
arrival of the request's head. If the verb can answer without its slowest plugin, kubextend abandons
the verb's run at 60 % of the timeout, and runs the verb again without that plugin in the time that
is left.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from kubextend.errors import PluginError
from kubextend.profile.plugin_failures import sentence
from kubextend.profile.run_in_progress import Run
from kubextend.profile.time_limited_calls import LimitedCall
from kubextend.verbs.answer import Answer, Body
from kubextend.verbs.context import Context
from kubextend.verbs.request_metrics import counting
from kubextend.verbs.verb_interface import OnJob, QuickVerb

__all__ = ["TimeLimitedVerb"]

_Args = TypeVar("_Args")

_SHARE: Final = 0.80
_FIRST_TRY_SHARE: Final = 0.60
_TOO_LATE = "kubextend has not answered in time"

# A thread hop costs 50 to 75 us; for a smaller body the core needs one or two milliseconds at most.
_BRIEF_BYTES: Final = 1_000_000


@dataclass(slots=True, eq=False)
class _Asked(Generic[_Args]):
    """A request to a verb, for as long as a thread works on the request."""

    body: Body
    arrived_s: float = 0.0
    on_job: OnJob = lambda _: None
    args: _Args | None = None
    call: LimitedCall[Answer] | None = None
    wanted: bool = True

    def withdraw(self) -> None:
        """Record that the client is gone; a running call is still watched, because it may hang."""
        self.wanted = False
        if self.call is not None:
            self.call.withdraw()


class TimeLimitedVerb(Generic[_Args]):
    """Runs a verb on threads, and answers in place of a verb that takes too long.

    In place of the filter verb, for example, ``TimeLimitedVerb`` answers with an Error.

    Args:
        verb: the verb to run.
        context: what all verbs share.
    """

    holds_body: Final = True

    def __init__(self, verb: QuickVerb[_Args], context: Context) -> None:
        self.name = verb.name
        self.answers_refusals = verb.answers_refusals
        self._verb = verb
        self._limits = context.memory.limits
        self._failures = context.failures
        self._metrics = context.metrics
        self._timeout_s = context.settings.http_timeout_s
        self._clock = context.memory.clock
        self._watching: set[asyncio.Task[Answer]] = set()

    def __call__(self, body: Body) -> Body:
        """Return the verb's answer to a request body, on this thread and without a time limit.

        Raises: WireError: the body cannot be read.
        """
        return self._now(body).body

    def at_once(self, body: Body) -> Answer | None:
        """Answer a body of at most 1 MB if the verb needs no other thread; else return None.

        Raises: WireError: the body cannot be read.
        """
        brief = len(body) <= _BRIEF_BYTES and not self._verb.on_thread
        return self._now(body) if brief else None

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob) -> Answer:
        """Return the verb's answer, or a substitute after 80 % of kube-scheduler's timeout.

        Args:
            body: the body of the request.
            arrived_s: when the request came, in seconds of the clock of ``Memory``.
            on_job: called with a future of each thread's work on the body.

        Raises: WireError: the body cannot be read.
        """
        asked: _Asked[_Args] = _Asked(body, arrived_s, on_job)
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

    def instead(self, why: str) -> Answer:
        """Return the answer of a verb that failed, such as an Error of filter.

        The verb may have failed before it read the request.

        Args:
            why: the reason for kube-scheduler.
        """
        return self._verb.instead(why)

    def _now(self, body: Body) -> Answer:
        return self._work(_Asked(body), self._limits.run())

    def _work(self, asked: _Asked[_Args], run: Run) -> Answer:
        with counting(self._metrics, self.name) as counted, run:
            if asked.args is None:
                asked.args = self._verb.read(asked.body)
            # A second run of the verb is about the same request, and not about a later one.
            answer = self._verb.answer(asked.args)
            run.check()
            return counted(answer)

    def _watched_to_the_end(self, watching: asyncio.Task[Answer]) -> None:
        self._watching.discard(watching)
        if not watching.cancelled():
            # Where the client is gone nobody retrieves the exception, and the event loop would log
            # that.
            watching.exception()

    async def _watched(self, asked: _Asked[_Args]) -> Answer:
        call = self._begun(asked)
        try:
            if await call.done_within(self._left_s(asked, _FIRST_TRY_SHARE)):
                return call.job.future.result()
            if asked.wanted and self._can_go_on(asked, call.run):
                self._give_up(call, f"{self.name} goes on without it")
                call = self._begun(asked)
            if await call.done_within(self._left_s(asked, _SHARE)):
                return call.job.future.result()
            why = self._give_up(call, f"{self.name} fails")
            with counting(self._metrics, self.name) as counted:
                return counted(self._verb.instead(why, asked.args))
        finally:
            asked.call = None
            del call

    def _begun(self, asked: _Asked[_Args]) -> LimitedCall[Answer]:
        asked.call = self._limits.start(partial(self._work, asked))
        asked.on_job(asked.call.job.future)
        return asked.call

    def _can_go_on(self, asked: _Asked[_Args], run: Run) -> bool:
        """Return whether the verb can answer without the plugin that has taken the longest."""
        slowest = run.slowest()
        if slowest is None or asked.args is None:
            return False
        return slowest.plugin in self._verb.dispensable(asked.args)

    def _left_s(self, asked: _Asked[_Args], share: float) -> float:
        return asked.arrived_s + self._timeout_s * share - self._clock()

    def _give_up(self, call: LimitedCall[Answer], consequence: str) -> str:
        """Abandon a call that takes too long; return the reason to tell kube-scheduler."""
        error = call.given_up()
        if not isinstance(error, PluginError):
            return _TOO_LATE
        self._failures.note(error, consequence)
        return sentence(error)
