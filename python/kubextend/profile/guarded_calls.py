"""Calls plugins' code, and turns whatever a plugin raises into a PluginError."""

import asyncio
import logging
import time
from asyncio import CancelledError
from types import TracebackType
from typing import Final

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import Plugin
from kubextend.framework.status import Code, Status
from kubextend.framework.wrong_answer import check_status, wrong_answer
from kubextend.logs import AtMost
from kubextend.profile.run_in_progress import AbandonedError, Run, current_run

__all__ = [
    "AtNodeError",
    "about",
    "error_of",
    "guarded",
    "guarded_async",
    "seconds_until",
    "status_of",
    "take_note",
    "times_cancelled",
]

_DETAILS = logging.getLogger(f"{__name__}.details")
_DETAILS.addFilter(AtMost(10))

# What points allow; all others allow success or a rejection.
_MAY: Final = {
    "PreFilter": "success, a rejection or Skip",
    "PreScore": "success or Skip",
    "Permit": "success, a rejection or Wait",
    "Bind": "success, a rejection or Skip",
}


class AtNodeError(Exception):
    """A plugin raised an error while it handled one node; ``__cause__`` is the plugin's error.

    Attributes:
        node: the name of the node.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(node)


class guarded:  # noqa: N801  read as a verb: with guarded(plugin, "Filter", pod)
    """A context in which to call a plugin; turns whatever the plugin raises into PluginError.

    A panic of Rust code is turned into PluginError as well. A context adds no frame to the plugin's
    call.

    Args:
        plugin: the plugin that is called.
        point: the extension point, such as ``Filter``.
        pod: the pod that the call is about.

    Raises:
        PluginError: the plugin raised, or its breaker is open.
        AbandonedError: the current run was abandoned, so that no caller waits for the result.
    """

    __slots__ = ("_plugin", "_pod", "_point", "_run")

    def __init__(self, plugin: Plugin, point: str, pod: core.Pod | None = None) -> None:
        self._plugin = plugin
        self._point = point
        self._pod = pod
        self._run = current_run()

    def __enter__(self) -> None:
        if self._run is not None:
            self._run.pod = self._pod
            self._run.begin_call(self._plugin.name, self._point)

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            if error is None or isinstance(error, KeyboardInterrupt | AbandonedError):
                return
            raise _failed(self._run, self._plugin, self._point, error, self._pod) from _cause(error)
        finally:
            if self._run is not None:
                self._run.end_call()


class guarded_async:  # noqa: N801  read as a verb: async with guarded_async(plugin, "Permit", pod)
    """A context in which to await a plugin; turns whatever the plugin raises into PluginError.

    A CancelledError passes unchanged if this task is cancelled. A CancelledError without a
    cancellation of this task is the plugin's failure.

    Args:
        plugin: the plugin that is called.
        point: the extension point, such as ``PreBind``.
        pod: the pod that the call is about.
        deadline_s: the time on the clock of ``time.monotonic`` until which to wait; None: for ever.
        cleanup: True calls the plugin even if its breaker is open.

    Raises: PluginError: the plugin raised, did not return in time, or its breaker is open.
    """

    __slots__ = ("_before", "_cleanup", "_plugin", "_pod", "_point", "_run", "_time_out")

    def __init__(
        self,
        plugin: Plugin,
        point: str,
        pod: core.Pod | None = None,
        *,
        deadline_s: float | None,
        cleanup: bool = False,
    ) -> None:
        self._plugin, self._point, self._pod, self._cleanup = plugin, point, pod, cleanup
        self._run = current_run()
        self._time_out = seconds_until(deadline_s)

    async def __aenter__(self) -> None:
        if self._run is not None:
            self._run.begin_call(self._plugin.name, self._point, cleanup=self._cleanup)
        self._before = times_cancelled()
        await self._time_out.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run, plugin, point = self._run, self._plugin, self._point
        try:
            await self._time_out.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            error = late
        try:
            if error is None:
                return
            # Checked before the cancellation: a late event loop meets this deadline and that of
            # the whole cycle at once, and the plugin is the reason for both.
            if self._time_out.expired():
                if run is not None:
                    run.hung(plugin.name, point)
                hung = PluginError(plugin.name, point, "has not answered in time")
                raise about(hung, self._pod) from error
            if isinstance(error, CancelledError) and times_cancelled() > self._before:
                return
            raise _failed(run, plugin, point, error, self._pod) from _cause(error)
        finally:
            # An error that is raised here refers to this frame.
            del error
            if run is not None:
                run.end_call()


def status_of(plugin: Plugin, point: str, answer: object, pod: core.Pod | None = None) -> Status:
    """Check the result of a plugin's method that must be a Status or None; return the Status.

    The result None becomes a Status with the code SUCCESS.

    Raises: PluginError: the result is neither a Status nor None, or is an invalid Status.
    """
    if answer is None:
        return Status.success()
    with guarded(plugin, point, pod):
        if not isinstance(answer, Status):
            raise wrong_answer(answer, "a Status or None")
        check_status(answer)
    return answer


def take_note(
    plugin: Plugin, point: str, pod: core.Pod, status: Status, about: str | core.Mask
) -> None:
    """Count a plugin's status if it is a rejection; log its ``detail``, ten lines a second at most.

    Args:
        plugin: the plugin that returned the status.
        point: the extension point, such as ``Filter``.
        pod: the pod that the status is about.
        status: the status.
        about: the nodes that the status is about, or words for them, such as "all nodes".
    """
    if status.is_rejected and (run := current_run()) is not None:
        run.rejected(plugin.name, point, status.reason or status.code.name)
    if status.detail and _DETAILS.isEnabledFor(logging.INFO):
        facts = {"plugin": plugin.name, "extension_point": point, "uid": pod.uid}
        nodes = about if isinstance(about, str) else f"{about.count()} nodes"
        _DETAILS.info(
            "pod %s/%s, %s: %s (%.300s)",
            *(pod.namespace, pod.name, nodes, status.reason or status.code.name, status.detail),
            extra=facts,
        )


def error_of(
    plugin: Plugin, point: str, status: Status, pod: core.Pod | None = None
) -> PluginError:
    """Return the error for a Status with a code that the extension point does not allow."""
    message = status.reason or status.code.name
    if status.code is not Code.ERROR:
        given = f"a Status {status.code.name}" + (f" ({status.reason})" if status.reason else "")
        may = _MAY.get(point, "success or a rejection")
        message = f"answered {given} where {may} is expected"
    return about(PluginError(plugin.name, point, message), pod)


def about(error: PluginError, pod: core.Pod | None, node: str = "") -> PluginError:
    """Set the pod and the node that a plugin's error is about, and return the error.

    Args:
        error: the error.
        pod: the pod; None leaves the error's pod as it is.
        node: the name of the node; has no effect if the error has a node already.
    """
    if pod is not None:
        error.pod, error.uid = f"{pod.namespace}/{pod.name}", pod.uid
        error.profile = pod.scheduler_name
    error.node = error.node or node
    return error


def seconds_until(deadline_s: float | None) -> asyncio.Timeout:
    """Return an async context whose body is ended by TimeoutError at a deadline.

    Args:
        deadline_s: the time on the clock of ``time.monotonic``; None: never.
    """
    return asyncio.timeout(None if deadline_s is None else deadline_s - time.monotonic())


def _failed(
    run: Run | None, plugin: Plugin, point: str, error: BaseException, pod: core.Pod | None
) -> PluginError:
    """Report a plugin's failure to the current run, and return the PluginError to raise."""
    cause = _cause(error)
    if run is not None:
        run.failed(plugin.name, point)
    node = error.node if isinstance(error, AtNodeError | PluginError) else ""
    # The runner raises PluginError for a wrong answer.
    if isinstance(cause, PluginError):
        failed = PluginError(plugin.name, cause.extension_point or point, cause.message)
    else:
        failed = PluginError.of(plugin.name, point, cause)
    return about(failed, pod, node)


def _cause(error: BaseException) -> BaseException:
    """Return the error that the plugin itself raised: the cause of an AtNodeError."""
    cause = error.__cause__ if isinstance(error, AtNodeError) else None
    return error if cause is None else cause


def times_cancelled() -> int:
    """Return how often ``cancel`` of the current task was called; 0 outside of a task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
