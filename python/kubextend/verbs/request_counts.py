"""Counts how the requests of a verb end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from kubextend.config import VerbName
from kubextend.errors import WireError
from kubextend.metrics import Metrics
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs.answer import Answer

__all__ = ["counting"]

Counted: TypeAlias = Callable[[Answer], Answer]
"""Counts an answer by its result, and returns the answer."""


@contextmanager
def counting(metrics: Metrics, verb: VerbName) -> Iterator[Counted]:
    """Yield a function that counts one request's answer; count a failure if the block raises."""

    def counted(answer: Answer) -> Answer:
        metrics.requests(verb, answer.result).inc()
        return answer

    try:
        yield counted
    except AbandonedError:
        # The abandoned request was answered and counted without this call.
        raise
    except BaseException as error:
        result = "bad_request" if isinstance(error, WireError) else "failed"
        metrics.requests(verb, result).inc()
        raise
