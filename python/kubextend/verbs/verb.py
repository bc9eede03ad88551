"""A verb: reads the body of a request, answers it, and says what else may stand for its answer."""

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
        """Whether the body is in use until the answer is there."""

    def at_once(self, body: Body) -> Answer | None:
        """Answer on this thread if that takes no longer than a hop to another; else return None.

        Raises: WireError: the body cannot be read.
        """

    async def answer(self, body: Body, arrived_s: float, on_job: OnJob) -> Answer:
        """Answer before kube-scheduler gives up, whatever plugins do.

        Args:
            body: the body of the request.
            arrived_s: when the request came, on the clock of ``time.monotonic``.
            on_job: told of each thread's work on the body.

        Raises: WireError: the body cannot be read.
        """

    def instead(self, why: str) -> Answer:
        """Return what stands for an answer where there is none."""


class QuickVerb(Protocol[_Args]):
    """A verb that waits for nobody but its plugins, and may be called on any thread.

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
        """Answer the request."""

    def dispensable(self, args: _Args) -> frozenset[str]:
        """Return the names of the plugins that the verb can answer the request without."""

    def instead(self, why: str, args: _Args | None = None) -> Answer:
        """Return what stands for an answer where there is none.

        Args:
            why: what kube-scheduler is told.
            args: the request; None where it has not been read.
        """
