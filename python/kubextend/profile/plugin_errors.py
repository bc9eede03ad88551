"""The boundary between a profile and the code of plugins: it turns failures into PluginError."""

import asyncio
import logging
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubextend import core
from kubextend.errors import PluginError, TruncatedPodError
from kubextend.framework.plugin import Plugin
from kubextend.framework.status import Code, Status
from kubextend.framework.wrong_answer import check_status, wrong_answer
from kubextend.logs import AtMost
from kubextend.profile.plugin_calls import AbandonedError, Run, current_run

__all__ = [
    "AnsweredError",
    "AtNodeError",
    "about",
    "detailed",
    "error_of",
    "guarded",
    "guarded_async",
    "seconds_until",
    "status_of",
]

_DETAILS = logging.getLogger(f"{__name__}.details")
_DETAILS.addFilter(AtMost(10))

_Answer = TypeVar("_Answer")


class AtNodeError(Exception):
    """A plugin raised an error about one node; the cause is the plugin's own error.

    Attributes:
        node: the name of the node.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(node)


class AnsweredError(PluginError):
    """A plugin said, by a Status, that it cannot do its part.

    The plugin works, so its breaker stays as it is: one pod that a plugin cannot judge is no reason
    to leave other pods unjudged.
    """


def guarded(
    plugin: Plugin, point: str, call: Callable[[], _Answer], pod: core.Pod | None = None
) -> _Answer:
    """Return the call's answer; turn whatever the plugin raises, a panic too, into PluginError.

    Args:
        plugin: the plugin that is called.
        point: the extension point.
        call: calls the plugin.
        pod: the pod that the call is about.

    Raises:
        PluginError: the plugin raised, or its breaker is open.
        AbandonedError: nobody waits for the run any more.
    """
    run = current_run()
    if run is not None:
        run.pod = pod
        run.begin_call(plugin.name, point)
    try:
        return call()
    except AnsweredError as error:
        about(error, pod)
        raise
    except (KeyboardInterrupt, AbandonedError):
        raise
    except BaseException as error:  # noqa: BLE001  raised again, with the cause
        raise _failed(run, plugin, point, error, pod) from _cause(error)
    finally:
        if run is not None:
            run.end_call()


async def guarded_async(
    plugin: Plugin,
    point: str,
    call: Callable[[], Awaitable[_Answer]],
    *,
    pod: core.Pod | None = None,
    deadline_s: float | None,
    cleanup: bool = False,
) -> _Answer:
    """Await the call's answer; turn whatever the plugin raises into PluginError.

    A cancellation from outside stays a cancellation. A plugin that raises CancelledError without
    one has failed: something that the plugin awaited was cancelled.

    Args:
        plugin: the plugin that is called.
        point: the extension point.
        call: begins the call.
        pod: the pod that the call is about.
        deadline_s: until when to wait, on the clock of ``time.monotonic``; None: for ever.
        cleanup: call the plugin even where its breaker is open.

    Raises: PluginError: the plugin raised, did not answer in time, or its breaker is open.
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
        # Checked before the cancellation: a late event loop meets this deadline and that of the
        # whole cycle at once, and the plugin is the reason for both.
        if time_out.expired():
            if run is not None:
                run.hung(plugin.name)
            late = PluginError(plugin.name, point, "has not answered in time")
            raise about(late, pod) from error
        if isinstance(error, CancelledError) and _times_cancelled() > cancelled_before:
            raise
        raise _failed(run, plugin, point, error, pod) from _cause(error)
    finally:
        if run is not None:
            run.end_call()


def status_of(plugin: Plugin, point: str, answer: object, pod: core.Pod | None = None) -> Status:
    """Return the Status of a method that answers a Status or None.

    Raises: PluginError: the method answered something else.
    """
    if answer is None:
        return Status.success()
    if isinstance(answer, Status):
        guarded(plugin, point, lambda: check_status(answer), pod)
        return answer
    return guarded(plugin, point, lambda: _raise(wrong_answer(answer, "a Status or None")), pod)


def detailed(plugin: Plugin, point: str, pod: core.Pod, status: Status, about: str) -> None:
    """Log the detail of a status: one status for each call, and ten a second at most.

    Args:
        plugin: the plugin that answered the status.
        point: the extension point.
        pod: the pod that the status is about.
        status: the status.
        about: the node, or how many nodes.
    """
    if status.detail and _DETAILS.isEnabledFor(logging.INFO):
        facts = {"plugin": plugin.name, "extension_point": point, "uid": pod.uid}
        _DETAILS.info(
            "pod %s/%s, %s: %s (%.300s)",
            *(pod.namespace, pod.name, about, status.reason or status.code.name, status.detail),
            extra=facts,
        )


def error_of(
    plugin: Plugin, point: str, status: Status, pod: core.Pod | None = None
) -> PluginError:
    """Return the error for a Status that is no success, no rejection, and not allowed there."""
    kind = AnsweredError if status.code is Code.ERROR else PluginError
    return about(kind(plugin.name, point, status.reason or status.code.name), pod)


def about(error: PluginError, pod: core.Pod | None, node: str = "") -> PluginError:
    """Return the error, after adding the pod and the node that the plugin was asked about."""
    if pod is not None:
        error.pod, error.uid = f"{pod.namespace}/{pod.name}", pod.uid
        error.profile = pod.scheduler_name
    error.node = error.node or node
    return error


def seconds_until(deadline_s: float | None) -> asyncio.Timeout:
    """Return a context that raises TimeoutError at a time of ``time.monotonic``, or never."""
    return asyncio.timeout(None if deadline_s is None else deadline_s - time.monotonic())


def _failed(
    run: Run | None, plugin: Plugin, point: str, error: BaseException, pod: core.Pod | None
) -> PluginError:
    """Return the PluginError to raise where the plugin raised."""
    cause = _cause(error)
    if run is not None and _is_of_a_truncated_pod(cause):
        run.met_truncated_pod(plugin.name, point)
    elif run is not None:
        run.failed(plugin.name, point, "" if pod is None else pod.namespace)
    node = error.node if isinstance(error, AtNodeError | PluginError) else ""
    # The runner raises PluginError for a wrong answer. Another process reports a plugin's failure
    # by PluginError, maybe at an inner extension point.
    if isinstance(cause, PluginError):
        failed = PluginError(plugin.name, cause.extension_point or point, cause.message)
    else:
        failed = PluginError(plugin.name, point, f"{type(cause).__name__}: {cause}")
    return about(failed, pod, node)


def _cause(error: BaseException) -> BaseException:
    """Return the error that the plugin itself raised."""
    cause = error.__cause__ if isinstance(error, AtNodeError) else None
    return error if cause is None else cause


def _is_of_a_truncated_pod(error: BaseException) -> bool:
    """Return whether a plugin raised because of a pod that is too large to be kept whole."""
    return any(isinstance(each, TruncatedPodError) for each in (error, error.__cause__))


def _times_cancelled() -> int:
    """Return how often somebody cancelled this task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _raise(error: TypeError) -> Status:
    raise error
