"""Counts how the requests of a verb end."""

from typing import Final, Self

from kubextend.config import VerbName
from kubextend.errors import WireError
from kubextend.metrics import Family, HistogramFamily, Metrics
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs.answer import Answer

__all__ = ["ATTEMPTS", "NODES", "REQUESTS", "counting", "failure"]

REQUESTS: Final = Family(
    "kubextend_verb_requests",
    "Verb calls by how they ended: ok, error (answered with Error), unknown_scheduler (no profile "
    "is for the pod), bad_request, failed.",
    ("verb", "result"),
)
ATTEMPTS: Final = Family(
    "kubextend_attempts",
    "Attempts by what a verb decided. filter: feasible, unschedulable, error; bind: bound, "
    "rejected, error.",
    ("verb", "profile", "result"),
)
NODES: Final = HistogramFamily(
    "kubextend_verb_nodes",
    "Nodes in a verb call.",
    (1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 50_000, 100_000),
    ("verb",),
)


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
        self._metrics.counter(REQUESTS, self._verb, answer.result).inc()
        return answer

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        # An abandoned request was answered and counted without this call.
        if error is not None and not isinstance(error, AbandonedError):
            self._metrics.counter(REQUESTS, self._verb, failure(error)).inc()


def failure(error: BaseException) -> str:
    """Return the result by which metrics count a request whose verb raised an error."""
    return "bad_request" if isinstance(error, WireError) else "failed"
