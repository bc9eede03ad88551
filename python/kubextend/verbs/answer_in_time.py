"""The base of filter, prioritize and preempt: they answer in time, however long plugins take.

A verb reads its request and decides on a thread. If 80 % of kube-scheduler's timeout are over,
counted from the arrival of the request, kubextend abandons the thread and answers in place of the
verb. The breaker of the plugin that took the time keeps the plugin out of the next requests.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.profile.plugin_failures import sentence
from kubextend.profile.run_in_progress import Run
from kubextend.profile.time_limited_calls import LimitedCall
from kubextend.verbs.answer import Answer, Body
from kubextend.verbs.context import Context
from kubextend.verbs.decision_records import VerbCall
from kubextend.verbs.request_metrics import REQUESTS, counting, failure

__all__ = ["OnJob", "TimedVerb"]

_Args = TypeVar("_Args")

OnJob: TypeAlias = Callable[[Future[Any]], object]
"""A function that gets a future, which is done once a thread no longer uses the request."""

_SHARE: Final = 0.80
_TOO_LATE = "kubextend has not answered in time"

# A thread hop costs 50 to 75 us; for a smaller body the core needs one or two milliseconds at most.
_BRIEF_BYTES: Final = 1_000_000


class TimedVerb(ABC, Generic[_Args]):
    """Any verb but bind: waits for nothing but plugins, and answers in time.

    Attributes:
        name: the name of the verb.
        answers_refusals: whether a request that the server refuses gets the answer of the method
            ``instead``, with status 200, and no HTTP error.
        holds_body: whether the verb uses the request's body until the answer is ready.

    Args:
        context: what all verbs share.
        in_python: whether the verb runs Python code of plugins, which may take any time.
    """

    name: ClassVar[VerbName]
    answers_refusals: ClassVar[bool] = False
    holds_body: Final = True

    def __init__(self, context: Context, *, in_python: bool) -> None:
        self._context = context
        self._in_python = in_python
        self._decisions = context.decisions
        self._limits = context.limits

    @abstractmethod
    def read(self, body: Body) -> _Args:
        """Parse the body of a request of this verb.

        Raises: WireError: the body cannot be read.
        """

    @abstractmethod
    def decide(self, body: Body, read: list[_Args]) -> Answer:
        """Return the answer to a request.

        Args:
            body: the body of the request.
            read: gets what ``read`` returns for the body.

        Raises: WireError: the body cannot be read.
        """

    @abstractmethod
    def instead(self, why: str, args: _Args | None = None) -> Answer:
        """Return the answer of a verb that failed or took too long, such as an Error of filter.

        Args:
            why: the reason for kube-scheduler; not every verb's answer has a field for it.
            args: the request; None if the request has not been read.
        """

    def __call__(self, body: Body) -> Body:
        """Return the verb's answer to a request body, on this thread and without a time limit.

        Raises: WireError: the body cannot be read.
        """
        return self._now(body).body

    def at_once(self, body: Body) -> Answer | None:
        """Answer a body of at most 1 MB if the verb needs no other thread; else return None.

        Raises: WireError: the body cannot be read.
        """
        if self._in_python or len(body) > _BRIEF_BYTES:
            return None
        return self._now(body)

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob) -> Answer:
        """Return the verb's answer, or a substitute after 80 % of kube-scheduler's timeout.

        If this coroutine is cancelled, as the client is gone, the deadline stays: a plugin that
        hangs is found out.

        Args:
            body: the body of the request.
            arrived_s: when the request came, in seconds of the clock of the breakers.
            on_job: called with a future of the thread's work on the body.

        Raises: WireError: the body cannot be read.
        """
        # Empty until the thread has read the request.
        read: list[_Args] = []
        call = self._limits.start(partial(self.decide, body, read))
        call.job.future.add_done_callback(partial(self._ended, call.run))
        on_job(call.job.future)
        too_late, told = partial(self._too_late, read, call), call.told()
        timeout_s = self._context.config.extender.http_timeout.seconds
        left_s = max(0.0, arrived_s + _SHARE * timeout_s - self._limits.clock())
        until_s = asyncio.get_running_loop().time() + left_s
        try:
            await asyncio.wait([told], timeout=left_s)
            return call.job.future.result() if call.job.future.done() else too_late()
        except asyncio.CancelledError:
            call.leave(told, until_s, too_late)
            raise
        finally:
            # An error refers to this frame, which must not refer to the error by the call.
            del call, too_late

    def _blamed(self, pod: core.Pod, error: PluginError, consequence: str) -> str:
        """Log and record a plugin's failure, and return the reason to tell kube-scheduler."""
        self._context.failures.note(error, consequence)
        call = VerbCall(self.name, error=sentence(error))
        call.blame(error)
        self._decisions.add(pod, call)
        return call.error

    def _now(self, body: Body) -> Answer:
        with counting(self._context.metrics, self.name) as counted, self._limits.run():
            return counted(self.decide(body, []))

    def _ended(self, run: Run, done: Future[Answer]) -> None:
        """Count how the work on a thread ended, unless the request was answered without it."""
        if not done.cancelled() and not run.is_abandoned:
            error = done.exception()
            result = done.result().result if error is None else failure(error)
            self._context.metrics.counter(REQUESTS, self.name, result).inc()

    def _too_late(self, read: list[_Args], call: LimitedCall[Answer]) -> Answer:
        """Abandon the thread, and answer in place of the verb."""
        error, why = call.given_up(), _TOO_LATE
        if isinstance(error, PluginError):
            self._context.failures.note(error, f"{self.name} fails")
            why = sentence(error)
        with counting(self._context.metrics, self.name) as counted:
            return counted(self.instead(why, *read))
