"""The protocols of a verb: how the server calls a verb, and what a verb implements."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from kubextend.config import VerbName
from kubextend.verbs.answer import Answer, Body

__all__ = ["OnJob", "QuickVerb", "Verb"]

_Args = TypeVar("_Args")

OnJob: TypeAlias = Callable[[Future[Any]], object]
"""Called with a future that is done once a thread no longer uses the request's memory."""


class Verb(Protocol):
    """A verb as the server calls it."""

    @property
    def name(self) -> VerbName:
        """The last part of the verb's path."""

    @property
    def holds_body(self) -> bool:
        """Whether the verb uses the request's body until the answer is there."""

    def at_once(self, body: Body) -> Answer | None:
        """Answer on the calling thread if another thread would cost more time; else return None.

        Raises: WireError: the body cannot be read.
        """

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob) -> Answer:
        """Return the answer before kube-scheduler's timeout, however long plugins take.

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


class QuickVerb(Protocol[_Args]):
    """A verb that waits for nothing but its plugins, and may be called on any thread.

    Attributes:
        name: the name of the verb.
    """

    name: ClassVar[VerbName]

    @property
    def in_python(self) -> bool:
        """Whether plugins run Python code in this verb, which may take any time."""

    def read(self, body: Body) -> _Args:
        """Read the body of a request.

        Raises: WireError: the body cannot be read.
        """

    def answer(self, args: _Args) -> Answer:
        """Return the answer to the request that ``read`` has read."""

    def dispensable(self, args: _Args) -> frozenset[str]:
        """Return the names of the plugins that the verb can answer the request without."""

    def instead(self, why: str, args: _Args | None = None) -> Answer:
        """Return the answer of a verb that failed or took too long, such as an Error of filter.

        Args:
            why: the reason for kube-scheduler; not every verb's answer has a field for it.
            args: the request; None where it has not been read.
        """
