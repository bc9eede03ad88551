"""Counts how the requests of a verb end."""

from typing import Self

from kubextend.config import VerbName
from kubextend.errors import WireError
from kubextend.metrics import Metrics
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs.answer import Answer

__all__ = ["counting"]


class counting:  # noqa: N801  read as a verb: with counting(metrics, verb) as counted
    """A context that counts one request: by its answer, or as a failure if the block raises.

    Args:
        metrics: the metrics.
        verb: the verb of the request.
    """

    __slots__ = ("_metrics", "_verb")

    def __init__(self, metrics: Metrics, verb: VerbName) -> None:
        self._metrics = metrics
        self._verb = verb

    def __enter__(self) -> Self:
        return self

    def __call__(self, answer: Answer) -> Answer:
        """Count an answer by its result, and return the answer."""
        self._metrics.requests(self._verb, answer.result).inc()
        return answer

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        # An abandoned request was answered and counted without this call.
        if error is not None and not isinstance(error, AbandonedError):
            result = "bad_request" if isinstance(error, WireError) else "failed"
            self._metrics.requests(self._verb, result).inc()
