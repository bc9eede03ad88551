"""What is said of a plugin's answer that is none of those that may come."""

import inspect
from collections.abc import Iterable
from typing import Final

from kubextend.framework.status import Code, Status

__all__ = ["check_status", "close_all", "wrong_answer"]

_LONGEST_SHOWN: Final = 80


def wrong_answer(answer: object, expected: str) -> TypeError:
    """What to raise where a plugin answered something else; a coroutine is closed."""
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "; only reserve, unreserve, permit, preBind, bind and postBind may be async"
        return TypeError(f"answered a coroutine where {expected} is expected{hint}")
    shown = type(answer).__name__
    if isinstance(answer, bool | int | float | str | bytes):
        shown = f"{shown} {answer!r:.{_LONGEST_SHOWN}}"
    return TypeError(f"answered {shown} where {expected} is expected")


def close_all(answers: Iterable[object]) -> None:
    """No coroutine among the answers is left behind, which Python would complain of."""
    for answer in answers:
        if inspect.iscoroutine(answer):
            answer.close()


def check_status(status: Status) -> None:
    """Raises what a reader or the writer of the status would raise, while the plugin is known."""
    if not isinstance(status.code, Code):
        message = f"a code that is no Code but {type(status.code).__name__}"
        raise TypeError(message)
    if not isinstance(status.reason, str):
        message = f"a reason that is no text but {type(status.reason).__name__}"
        raise TypeError(message)
    status.reason.encode()
