"""Errors for values that a plugin's method returned and that the framework does not allow."""

import inspect
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from kubextend.framework.status import Code, Status

__all__ = ["check_status", "close_all", "wrong_answer"]

_LONGEST_SHOWN: Final = 80


def wrong_answer(answer: object, expected: str) -> TypeError:
    """Return the TypeError for a value that a plugin's method must not return.

    Args:
        answer: the returned value; a coroutine is closed, so that Python does not warn of it.
        expected: the allowed values in words, such as "a Status".
    """
    if inspect.iscoroutine(answer):
        answer.close()
        may = "start, stop, reserve, unreserve, permit, preBind, bind and postBind"
        message = f"answered a coroutine where {expected} is expected; only {may} may be async"
        return TypeError(message)
    shown = type(answer).__name__
    if isinstance(answer, bool | int | float | str | bytes):
        shown = f"{shown} {answer!r:.{_LONGEST_SHOWN}}"
    hint = ""
    if inspect.isgenerator(answer):
        hint = "; return the values in a list instead of a yield for each"
    elif isinstance(answer, timedelta):
        hint = "; write total_seconds()"
    elif type(answer).__module__ == "numpy":
        hint = "; round a float of NumPy yourself: int(score), or scores.astype(int)"
    elif isinstance(answer, float):
        hint = "; round it yourself: int(score)"
    return TypeError(f"answered {shown} where {expected} is expected{hint}")


def close_all(answers: Iterable[object]) -> None:
    """Close every coroutine among values that plugins returned, so that Python does not warn."""
    for answer in answers:
        if inspect.iscoroutine(answer):
            answer.close()


def check_status(status: Status) -> None:
    """Check that the code and the reason of a plugin's status have the right types.

    Without this check, a wrong status would fail only when kubextend writes the HTTP response,
    where the plugin is unknown.

    Raises:
        TypeError: the code is no ``Code``, or the reason is no str.
        UnicodeEncodeError: the reason has a lone surrogate, which UTF-8 cannot encode.
    """
    if not isinstance(status.code, Code):
        message = f"a code that is no Code but {type(status.code).__name__}"
        raise TypeError(message)
    if not isinstance(status.reason, str):
        message = f"a reason that is no text but {type(status.reason).__name__}"
        raise TypeError(message)
    status.reason.encode()
