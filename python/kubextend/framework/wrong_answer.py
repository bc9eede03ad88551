"""Errors for a plugin's answer that the framework does not allow."""

import inspect
from collections.abc import Iterable
from typing import Final

from kubextend.framework.status import Code, Status

__all__ = ["check_status", "close_all", "wrong_answer"]

_LONGEST_SHOWN: Final = 80


def wrong_answer(answer: object, expected: str) -> TypeError:
    """Return the error for a wrong answer of a plugin; a coroutine is closed."""
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "; only reserve, unreserve, permit, preBind, bind and postBind may be async"
        return TypeError(f"answered a coroutine where {expected} is expected{hint}")
    shown = type(answer).__name__
    if isinstance(answer, bool | int | float | str | bytes):
        shown = f"{shown} {answer!r:.{_LONGEST_SHOWN}}"
    return TypeError(f"answered {shown} where {expected} is expected")


def close_all(answers: Iterable[object]) -> None:
    """Close every coroutine among the answers; Python would warn of one that nobody awaits."""
    for answer in answers:
        if inspect.iscoroutine(answer):
            answer.close()


def check_status(status: Status) -> None:
    """Raise, while the plugin is known, what the status would raise later when it is written."""
    if not isinstance(status.code, Code):
        message = f"a code that is no Code but {type(status.code).__name__}"
        raise TypeError(message)
    if not isinstance(status.reason, str):
        message = f"a reason that is no text but {type(status.reason).__name__}"
        raise TypeError(message)
    status.reason.encode()
