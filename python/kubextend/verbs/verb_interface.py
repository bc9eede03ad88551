"""The protocols of a verb: how the server calls a verb, and what a verb implements."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from kubextend.config import VerbName
from kubextend.verbs.answer import Answer, Body
from kubextend.verbs.context import Context

__all__ = ["OnJob", "QuickVerb", "Verb"]

_Args = TypeVar("_Args")

OnJob: TypeAlias = Callable[[Future[Any]], object]
"""A function that gets a future, which is done once a thread no longer uses the request."""


class Verb(Protocol):
    """A verb (filter, prioritize, preempt or bind) as the HTTP server calls it."""

    @property
    def name(self) -> VerbName:
        """The name of the verb, which is the last part of the verb's path."""

    @property
    def answers_refusals(self) -> bool:
        """Whether a refused request gets ``instead`` with status 200.

        kube-scheduler ignores any other status of such a verb.
        """

    @property
    def holds_body(self) -> bool:
        """Whether the verb uses the request's body until the answer is ready."""

    def at_once(self, body: Body) -> Answer | None:
        """Answer on the calling thread if another thread would cost time; else return None.

        Raises: WireError: the body cannot be read.
        """

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob) -> Answer:
        """Return the answer to a request before kube-scheduler's timeout, whatever plugins do.

        Args:
            body: the body of the request.
            arrived_s: when the request came, in seconds of ``time.monotonic``.
            on_job: called with a future of each thread's work on the body.

        Raises: WireError: the body cannot be read.
        """

    def instead(self, why: str) -> Answer:
        """Return the answer of a verb that failed, such as an Error of filter.

        Args:
            why: the reason for kube-scheduler.
        """


class QuickVerb(ABC, Generic[_Args]):
    """Any verb but bind: any thread may call the verb, as it waits for nothing but plugins.

    Attributes:
        name: the name of the verb.
        answers_refusals: whether a request that the server refuses gets the answer of the method
            ``instead``, with status 200, and no HTTP error.

    Args:
        context: what all verbs share.
    """

    name: ClassVar[VerbName]
    answers_refusals: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._unplaced = context.memory.unplaced
        self._decisions = context.memory.decisions

    @property
    @abstractmethod
    def on_thread(self) -> bool:
        """Whether a thread answers, because Python plugins may take any time, or the verb waits."""

    @abstractmethod
    def read(self, body: Body) -> _Args:
        """Parse the body of a request of this verb.

        Raises: WireError: the body cannot be read.
        """

    @abstractmethod
    def answer(self, args: _Args) -> Answer:
        """Return the answer to the request that ``read`` has read."""

    @abstractmethod
    def dispensable(self, args: _Args) -> frozenset[str]:
        """Return the names of the plugins that the verb can answer the request without."""

    @abstractmethod
    def instead(self, why: str, args: _Args | None = None) -> Answer:
        """Return the answer of a verb that failed or took too long, such as an Error of filter.

        Args:
            why: the reason for kube-scheduler; not every verb's answer has a field for it.
            args: the request; None if the request has not been read.
        """
