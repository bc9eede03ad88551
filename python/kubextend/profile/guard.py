"""The boundary between a profile and what somebody's plugin does."""

import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubextend.errors import PluginError
from kubextend.framework.plugin import Plugin
from kubextend.framework.status import Status

__all__ = ["awaited", "guarded", "guarded_async", "status_of"]

_Answer = TypeVar("_Answer")


def guarded(plugin: Plugin, point: str, call: Callable[[], _Answer]) -> _Answer:
    """What the call answers; whatever a plugin raises, a panic or SystemExit too, is its error.

    Raises: PluginError: it raised.
    """
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failed(plugin, point, error) from error


async def guarded_async(plugin: Plugin, point: str, call: Awaitable[_Answer]) -> _Answer:
    """The same for what is awaited; a cancelled call is cancelled, not failed.

    Raises: PluginError: it raised.
    """
    try:
        return await call
    except (KeyboardInterrupt, CancelledError):
        raise
    except BaseException as error:
        raise _failed(plugin, point, error) from error


async def awaited(answer: Awaitable[_Answer] | _Answer) -> _Answer:
    """The answer of a method that may or may not be ``async``."""
    if inspect.isawaitable(answer):
        return await answer
    return answer


def status_of(plugin: Plugin, point: str, answer: object) -> Status:
    """What a method that answers a Status or nothing said.

    Raises: PluginError: it answered something else.
    """
    if answer is None:
        return Status.success()
    if isinstance(answer, Status):
        return answer
    message = f"answered {type(answer).__name__} where a Status or None is expected"
    raise PluginError(plugin.name, point, message)


def _failed(plugin: Plugin, point: str, error: BaseException) -> PluginError:
    return PluginError(plugin.name, point, f"{type(error).__name__}: {error}")
