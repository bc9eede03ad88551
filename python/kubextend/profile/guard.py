"""The boundary between a profile and what somebody's plugin does."""

import asyncio
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubextend.errors import PluginError
from kubextend.framework.plugin import Plugin
from kubextend.framework.status import Code, Status
from kubextend.profile.run import AbandonedError, Run, current_run

__all__ = [
    "AnsweredError",
    "check_reason",
    "error_of",
    "guarded",
    "guarded_async",
    "seconds_until",
    "status_of",
]

_Answer = TypeVar("_Answer")


class AnsweredError(PluginError):
    """The plugin itself said, by a Status, that it cannot do its part.

    It works, so its breaker stays as it is: one pod that it cannot judge is no reason to leave the
    others unjudged.
    """


def guarded(plugin: Plugin, point: str, call: Callable[[], _Answer]) -> _Answer:
    """What the call answers; whatever a plugin raises, a panic or SystemExit too, is its error.

    Raises:
        PluginError: it raised, or its breaker is open.
        AbandonedError: nobody waits for the run any more.
    """
    run = current_run()
    if run is None:
        return _called(None, plugin, point, call)
    run.begin_call(plugin.name, point)
    try:
        return _called(run, plugin, point, call)
    finally:
        run.end_call()


async def guarded_async(
    plugin: Plugin,
    point: str,
    call: Callable[[], Awaitable[_Answer]],
    *,
    deadline_s: float | None,
    cleanup: bool = False,
) -> _Answer:
    """The same for what is awaited; a call that is cancelled from outside is cancelled, not failed.

    A plugin that raises CancelledError with nobody cancelling it has failed like any other: what
    it awaited was cancelled.

    Args:
        plugin: whose call it is.
        point: where.
        call: begins it.
        deadline_s: until when it is waited for, on the clock of ``time.monotonic``; None: for ever.
        cleanup: it is called even where its breaker is open.

    Raises: PluginError: it raised, did not answer in time, or its breaker is open.
    """
    run = current_run()
    if run is not None:
        run.begin_call(plugin.name, point, cleanup=cleanup)
    cancelled_before = _times_cancelled()
    try:
        async with seconds_until(deadline_s) as time_out:
            return await call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Before the question who cancelled: an event loop that is late meets this deadline and
        # that of the whole cycle at once, and the plugin is the reason for both.
        if time_out.expired():
            if run is not None:
                run.hung(plugin.name)
            raise PluginError(plugin.name, point, "has not answered in time") from error
        if isinstance(error, CancelledError) and _times_cancelled() > cancelled_before:
            raise
        raise _failed(run, plugin, point, error) from error
    finally:
        if run is not None:
            run.end_call()


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
    return guarded(plugin, point, lambda: _raise(message))


def error_of(plugin: Plugin, point: str, status: Status) -> PluginError:
    """The error that a Status is which is no success, no rejection, and nothing allowed there."""
    kind = AnsweredError if status.code is Code.ERROR else PluginError
    return kind(plugin.name, point, status.reason or status.code.name)


def seconds_until(deadline_s: float | None) -> asyncio.Timeout:
    """Raises TimeoutError at a time of ``time.monotonic``, or never."""
    return asyncio.timeout(None if deadline_s is None else deadline_s - time.monotonic())


def check_reason(status: Status) -> None:
    """Raises what the writer of the answer would raise, while the plugin is still known."""
    if not isinstance(status.reason, str):
        message = f"a reason that is no text but {type(status.reason).__name__}"
        raise TypeError(message)
    status.reason.encode()


def _called(run: Run | None, plugin: Plugin, point: str, call: Callable[[], _Answer]) -> _Answer:
    try:
        return call()
    except (KeyboardInterrupt, AnsweredError, AbandonedError):
        raise
    except PluginError as error:
        # What the runner says of its answer.
        if run is not None:
            run.failed(plugin.name)
        raise PluginError(plugin.name, point, error.message) from error
    except BaseException as error:
        raise _failed(run, plugin, point, error) from error


def _failed(run: Run | None, plugin: Plugin, point: str, error: BaseException) -> PluginError:
    if run is not None:
        run.failed(plugin.name)
    return PluginError(plugin.name, point, f"{type(error).__name__}: {error}")


def _times_cancelled() -> int:
    """How often somebody asked for the end of this task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _raise(message: str) -> Status:
    raise TypeError(message)
