"""A run: one verb call, and its plugin calls as other threads see them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kubextend.errors import PluginError
from kubextend.profile.breaker import Admission, Breakers

if TYPE_CHECKING:
    from kubextend import core

__all__ = ["AbandonedError", "PluginCall", "Run", "UncalledError", "current_run"]

_T = TypeVar("_T")


class AbandonedError(BaseException):
    """Nobody waits for this run any more: its thread unwinds, and its result is dropped."""


class UncalledError(PluginError):
    """A plugin that is not called, because its breaker is open."""

    def __init__(self, plugin: str, extension_point: str) -> None:
        super().__init__(plugin, extension_point, "not called: it hung, or kept failing")


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A plugin at an extension point."""

    plugin: str
    extension_point: str


class Run:
    """Which plugin is called now, how long each one took, and which may be called at all.

    One thread runs; any other thread may look at the run, and abandon it.

    Args:
        breakers: asked once for each plugin, and told how its calls end.
        clock: monotonic seconds.

    Attributes:
        pod: the pod that the latest call is about.
    """

    def __init__(self, breakers: Breakers, clock: Callable[[], float] = time.monotonic) -> None:
        self.pod: core.Pod | None = None
        self._breakers = breakers
        self._clock = clock
        self._began_s = clock()
        self._admissions: dict[str, Admission] = {}
        self._spent_s: dict[PluginCall, float] = {}
        self._failed: set[PluginCall] = set()
        self._current: tuple[PluginCall, float] | None = None
        self._end_call: Callable[[], object] | None = None
        self._abandoned = False
        self._token: Token[Run | None]

    def enter(self, work: Callable[[], _T]) -> _T:
        """Run the work as part of this run, and return its result.

        Raises: AbandonedError: nobody waits for the run any more.
        """
        with self:
            result = work()
            self.check()
        return result

    def __enter__(self) -> None:
        """Make this the run of all plugin calls of this thread or task."""
        self._token = _RUN.set(self)

    def __exit__(self, *_: object) -> None:
        """End the run: its plugins that did not fail count as working."""
        _RUN.reset(self._token)
        self.went_well()
        self._admissions.clear()

    def went_well(self) -> None:
        """Report plugins that have not failed as working, and half-open ones as recovered."""
        if self._abandoned:
            return
        for call in self._spent_s.keys() - self._failed:
            self._breakers.succeeded(call.plugin, call.extension_point)
        for plugin, admission in self._admissions.items():
            if admission is Admission.PROBE:
                self._breakers.recovered(plugin)
                self._admissions[plugin] = Admission.CALL

    def begin_call(self, plugin: str, extension_point: str, *, cleanup: bool = False) -> None:
        """Note that the plugin is about to be called.

        Args:
            plugin: the name of the plugin.
            extension_point: the extension point.
            cleanup: the call gives up reservations, so an open breaker does not stop it.

        Raises: UncalledError: the plugin's breaker is open.
        """
        admission = self._admissions.get(plugin)
        if admission is None:
            admission = self._admissions[plugin] = self._breakers.admit(plugin)
        if admission is Admission.REFUSED and not cleanup:
            raise UncalledError(plugin, extension_point)
        self._current = (PluginCall(plugin, extension_point), self._clock())

    def end_call(self) -> None:
        """Note that the plugin's call has returned.

        Raises: AbandonedError: the call returned too late.
        """
        if self._current is not None:
            call, began_s = self._current
            self._spent_s[call] = self._spent_s.get(call, 0.0) + self._clock() - began_s
            self._current = None
        self.check()

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """Let ``end`` end the current call once the run is abandoned.

        Args:
            end: called on any thread, and must not block.

        Raises: AbandonedError: the run is abandoned already.
        """
        self._end_call = end
        try:
            self.check()
            yield
        finally:
            self._end_call = None

    def failed(self, plugin: str, extension_point: str, namespace: str) -> None:
        """Note that the plugin raised, or returned a wrong value, for a pod of this namespace."""
        if self._abandoned:
            return
        self._admissions.pop(plugin, None)
        self._failed.add(PluginCall(plugin, extension_point))
        self._breakers.failed(plugin, extension_point, namespace)

    def met_truncated_pod(self, plugin: str, extension_point: str) -> None:
        """Leave the breaker as it is: the plugin asked for a part of a pod that is not kept."""
        if self._abandoned:
            return
        self._failed.add(PluginCall(plugin, extension_point))
        if self._admissions.pop(plugin, None) is Admission.PROBE:
            self._breakers.unprobed(plugin)

    def hung(self, plugin: str) -> None:
        """Open the breaker of a plugin that did not answer in time."""
        self._admissions.pop(plugin, None)
        self._breakers.hung(plugin)

    def check(self) -> None:
        """Raise AbandonedError where nobody waits for this run any more."""
        if self._abandoned:
            raise AbandonedError

    @property
    def current(self) -> PluginCall | None:
        """The plugin call that runs now."""
        current = self._current
        return None if current is None else current[0]

    def slowest(self) -> PluginCall | None:
        """Return the call that took more than half of the time so far; None where none did."""
        now = self._clock()
        spent_s = dict(self._spent_s)
        if (current := self._current) is not None:
            call, began_s = current
            spent_s[call] = spent_s.get(call, 0.0) + now - began_s
        call = max(spent_s, key=spent_s.__getitem__, default=None)  # type: ignore[assignment]
        if call is None or spent_s[call] * 2 < now - self._began_s:
            return None
        return call

    def abandon(self) -> PluginCall | None:
        """Tell the thread to unwind when it can, and return the call that it is stuck in.

        Returns: None where no plugin is called now, or where ``ended_by`` ends the call.
        """
        self._abandoned = True
        for plugin, admission in list(self._admissions.items()):
            if admission is Admission.PROBE:
                self._breakers.unprobed(plugin)
        self._admissions.clear()
        current = self.current
        if (end_call := self._end_call) is not None:
            end_call()
            return None
        return current


_RUN: ContextVar[Run | None] = ContextVar("kubextend_run", default=None)


def current_run() -> Run | None:
    """Return the run that the caller is part of; None outside of any run."""
    return _RUN.get()
