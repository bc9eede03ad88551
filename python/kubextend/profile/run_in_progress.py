"""Records which plugins are called for a request of kube-scheduler, for other threads to read.

A ``Run`` is the record of a request, of a part of a request, or of a plugin's ``start``.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, Token, copy_context
from typing import TYPE_CHECKING, NamedTuple

from kubextend.errors import PluginError
from kubextend.profile.breaker import Breakers
from kubextend.profile.plugin_call_metrics import PluginCallMetrics

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["AbandonedError", "PluginCall", "Run", "UncalledError", "current_run"]


class AbandonedError(BaseException):
    """Raised to end a thread's work on a request for which no caller waits any more.

    A caller stops waiting if, for example, the request takes longer than its time limit.
    """


class UncalledError(PluginError):
    """A plugin was not called, because its breaker is open."""

    def __init__(self, plugin: str, extension_point: str) -> None:
        super().__init__(plugin, extension_point, "not called: it hung")


class PluginCall(NamedTuple):
    """A plugin and the extension point at which it is called.

    Attributes:
        plugin: the name of the plugin.
        extension_point: the framework's name of the point, such as ``Filter``.
    """

    plugin: str
    extension_point: str


class Run:
    """Records which plugin a request calls now and how long each call took; asks the breakers.

    One thread or task does the work of the run. Any other thread may read the run and abandon it.

    Args:
        breakers: say whether a plugin may be called.
        clock: returns the present time in monotonic seconds.
        metrics: gets the time and the rejections of each plugin at the end of the run; None: the
            run is counted nowhere.

    Attributes:
        pod: the pod that the latest call is about.
        spent_s: how many seconds the calls of each plugin took so far, in the order of the first
            calls; grows while the run goes on.
    """

    __slots__ = (
        "_abandoned",
        "_began_s",
        "_breakers",
        "_clock",
        "_current",
        "_failed",
        "_metrics",
        "_rejected",
        "_token",
        "pod",
        "spent_s",
    )

    def __init__(
        self,
        breakers: Breakers,
        clock: Callable[[], float] = time.monotonic,
        metrics: PluginCallMetrics | None = None,
    ) -> None:
        self.pod: core.Pod | None = None
        self._breakers = breakers
        self._clock = clock
        self._metrics = metrics
        self._began_s = clock()
        self.spent_s: dict[PluginCall, float] = {}
        # A pod that waits in Permit keeps its run; this empty set takes no memory.
        self._failed: frozenset[PluginCall] = frozenset()
        self._rejected: list[tuple[str, str, str]] | None = None
        self._current: tuple[PluginCall, float] | None = None
        self._abandoned = False
        self._token: Token[Run | None]

    def context(self) -> Context:
        """Return a copy of the present context, with this as the current run."""
        context = copy_context()
        context.run(_RUN.set, self)
        return context

    def __enter__(self) -> None:
        """Make this the current run of this thread or task."""
        self._token = _RUN.set(self)

    def __exit__(self, *_: object) -> None:
        """End the run, and count its calls."""
        _RUN.reset(self._token)
        self.end()

    def end(self) -> None:
        """Count the calls of the run, unless ``abandon`` has counted them."""
        if not self._abandoned:
            self._count(self.spent_s)

    def begin_call(self, plugin: str, extension_point: str, *, cleanup: bool = False) -> None:
        """Record that a plugin is about to be called, if the plugin's breaker allows that.

        Args:
            plugin: the name of the plugin.
            extension_point: the framework's name of the point, such as ``Filter``.
            cleanup: True for a call that gives up reservations: an open breaker does not stop such
                a call.

        Raises: UncalledError: the plugin's breaker is open.
        """
        if not cleanup and self._breakers.is_open(plugin):
            raise UncalledError(plugin, extension_point)
        self._current = (PluginCall(plugin, extension_point), self._clock())

    def end_call(self) -> None:
        """Record that the current plugin call has returned, and how long the call took.

        Raises: AbandonedError: the run was abandoned meanwhile.
        """
        if self._current is not None:
            call, began_s = self._current
            self.spent_s[call] = self.spent_s.get(call, 0.0) + self._clock() - began_s
            self._current = None
        self.check()

    def failed(self, plugin: str, extension_point: str) -> None:
        """Record for the metrics that the plugin raised or returned a wrong value.

        Args:
            plugin: the name of the plugin.
            extension_point: the framework's name of the point, such as ``Filter``.
        """
        self._failed |= {PluginCall(plugin, extension_point)}

    def rejected(self, plugin: str, extension_point: str, reason: str) -> None:
        """Record that a plugin rejected the pod, or nodes for the pod.

        However many nodes a plugin rejects for one reason, the metric counts the run once.
        """
        if self._rejected is None:
            self._rejected = []
        self._rejected.append((plugin, extension_point, reason))

    def hung(self, plugin: str, extension_point: str) -> None:
        """Open the breaker of a plugin whose current call did not return in time."""
        self.failed(plugin, extension_point)
        self._breakers.hung(plugin)

    def check(self) -> None:
        """Raise AbandonedError if this run was abandoned."""
        if self._abandoned:
            raise AbandonedError

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for the work of this run any more."""
        return self._abandoned

    @property
    def elapsed_s(self) -> float:
        """The seconds since the run began."""
        return self._clock() - self._began_s

    @property
    def current(self) -> PluginCall | None:
        """The plugin call that runs now; None if no plugin is called now."""
        current = self._current
        return None if current is None else current[0]

    def slowest(self) -> PluginCall | None:
        """Return the plugin call that took at least half of the run's time; None if none did.

        The time of a call that is under way counts as well.
        """
        now = self._clock()
        spent_s = self._spent_until(now)
        call = max(spent_s, key=spent_s.__getitem__, default=None)
        if call is None or spent_s[call] * 2 < now - self._began_s:
            return None
        return call

    def abandon(self) -> PluginCall | None:
        """Abandon the run, so that its thread ends its work at the end of the current plugin call.

        Returns: the plugin call in which the thread is stuck; None if no plugin is called now.
        """
        self._abandoned = True
        if (stuck := self.current) is not None:
            self._failed |= {stuck}
        self._count(self._spent_until(self._clock()))
        return stuck

    def _spent_until(self, now_s: float) -> dict[PluginCall, float]:
        """Return the seconds of each plugin's calls, with those of the call that is under way."""
        spent_s = dict(self.spent_s)
        if (current := self._current) is not None:
            call, began_s = current
            spent_s[call] = spent_s.get(call, 0.0) + now_s - began_s
        return spent_s

    def _count(self, spent_s: Mapping[PluginCall, float]) -> None:
        """Add the time of each plugin and of each extension point, and the rejections, to metrics.

        Args:
            spent_s: the seconds of each plugin's calls.
        """
        if self._metrics is None or not spent_s:
            return
        failed = self._failed
        failed_points = {call.extension_point for call in failed} if failed else failed
        points: dict[str, float] = {}
        for call, seconds in spent_s.items():
            plugin, point = call
            status = "Error" if call in failed else "Success"
            self._metrics.plugin(plugin, point, status).observe(seconds)
            points[point] = points.get(point, 0.0) + seconds
        # The pod has a profile, since a plugin was called for it.
        profile = "" if self.pod is None else self.pod.scheduler_name
        for point, seconds in points.items():
            status = "Error" if point in failed_points else "Success"
            self._metrics.point(point, status, profile).observe(seconds)
        if self._rejected is not None:
            for rejection in set(self._rejected):
                self._metrics.rejected(*rejection)


_RUN: ContextVar[Run | None] = ContextVar("kubextend_run", default=None)


def current_run() -> Run | None:
    """Return the current run of this thread or task; None outside of any run."""
    return _RUN.get()
