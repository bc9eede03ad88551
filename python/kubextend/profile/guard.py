"""The boundary between a profile and what somebody's plugin does."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubextend.errors import PluginError
from kubextend.framework.plugin import Plugin
from kubextend.framework.status import Status

__all__ = ["check_reason", "guarded", "guarded_async", "status_of"]

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


def status_of(plugin: Plugin, point: str, answer: object) -> Status:
    """What a method that answers a Status or nothing said.

    Raises: PluginError: it answered something else.
    """
    if answer is None:
        return Status.success()
    if isinstance(answer, Status):
        guarded(plugin, point, lambda: check_reason(answer))
        return answer
    message = f"answered {type(answer).__name__} where a Status or None is expected"
    raise PluginError(plugin.name, point, message)


def check_reason(status: Status) -> None:
    """Raises what the writer of the answer would raise, while the plugin is still known."""
    if not isinstance(status.reason, str):
        message = f"a reason that is no text but {type(status.reason).__name__}"
        raise TypeError(message)
    status.reason.encode()


def _failed(plugin: Plugin, point: str, error: BaseException) -> PluginError:
    return PluginError(plugin.name, point, f"{type(error).__name__}: {error}")
