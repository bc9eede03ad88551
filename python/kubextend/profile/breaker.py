"""Breakers: keep a plugin that hung or keeps failing from being called for 30 s.

There is one breaker for each plugin's name, whatever profiles the plugin is in, because a plugin
usually hangs for the same reason in all profiles.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kubextend.metrics import ScrapedGauge

__all__ = ["Admission", "Breakers", "PluginHealth"]

_LOGGER = logging.getLogger(__name__)

MOST_FAILING_NAMESPACES: Final = 3
FAILURE_WINDOW_S: Final = 10.0
OPEN_S: Final = 30.0
MOST_STUCK_THREADS: Final = 2


class Admission(Enum):
    """Whether a plugin's breaker lets a call of the plugin through."""

    CALL = auto()
    """The plugin may be called."""
    PROBE = auto()
    """The plugin may be called once, to see whether it has recovered; further calls are refused
    until the result of this call is reported."""
    REFUSED = auto()
    """The plugin must not be called: its breaker is open."""


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """The health of one plugin at this moment.

    Attributes:
        open: whether the breaker is open: the plugin is not called, or called once as a probe.
        stuck_threads: how many calls of the plugin were given up and have not returned.
    """

    open: bool
    stuck_threads: int


HEALTH: Final[tuple[ScrapedGauge[dict[str, PluginHealth]], ...]] = (
    ScrapedGauge(
        "kubextend_plugin_breaker_open",
        "1 while the breaker is open.",
        lambda health: {plugin: each.open for plugin, each in health.items()},
        ("plugin",),
    ),
    ScrapedGauge(
        "kubextend_plugin_stuck_threads",
        "Calls given up that have not returned.",
        lambda health: {plugin: each.stuck_threads for plugin, each in health.items()},
        ("plugin",),
    ),
)


@dataclass(slots=True)
class _Breaker:
    """The state of one plugin's breaker.

    Attributes:
        failing: extension point -> namespace of a pod -> time of the last failure for a pod of the
            namespace; a success at the point removes all of the point's namespaces.
        open_until_s: the time from which a probe is let through; None: the breaker is closed.
        probing: whether a probe is under way.
        stuck_threads: how many calls of the plugin were given up and have not returned.
    """

    failing: dict[str, dict[str, float]] = field(default_factory=dict)
    open_until_s: float | None = None
    probing: bool = False
    stuck_threads: int = 0


class Breakers:
    """The breakers of all plugins, by the plugins' names. Any number of threads may use it.

    Args:
        clock: returns the present time in monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._breakers: dict[str, _Breaker] = {}

    def add(self, plugins: Iterable[str]) -> None:
        """Add closed breakers for these plugins, so that ``health`` lists them from the start."""
        with self._lock:
            for plugin in plugins:
                self._breakers.setdefault(plugin, _Breaker())

    def admit(self, plugin: str) -> Admission:
        """Return whether a plugin may be called now.

        After PROBE the caller reports the result by ``recovered``, ``failed``, ``hung`` or
        ``unprobed``.
        """
        breaker = self._breakers.get(plugin)
        # Read without the lock: this call may miss what another thread finds out at the same time.
        if breaker is None or (breaker.open_until_s is None and not breaker.stuck_threads):
            return Admission.CALL
        with self._lock:
            if breaker.stuck_threads >= MOST_STUCK_THREADS:
                return Admission.REFUSED
            if breaker.open_until_s is None:
                return Admission.CALL
            if breaker.probing or self._clock() < breaker.open_until_s:
                return Admission.REFUSED
            breaker.probing = True
            return Admission.PROBE

    def failed(self, plugin: str, extension_point: str, namespace: str) -> None:
        """Count a call that failed for a pod; open the breaker at the third namespace in 10 s.

        One tenant may create any number of pods that make a plugin fail, and must not stop the
        plugin for other tenants. For the same reason a failed probe does not open the breaker for
        another 30 s: the next call is a new probe.

        Args:
            plugin: the name of the plugin.
            extension_point: the extension point of the call.
            namespace: the namespace of the pod; "" if the call was about no pod.
        """
        now = self._clock()
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            failing = breaker.failing.setdefault(extension_point, {})
            failing[namespace] = now
            for old in [each for each, at_s in failing.items() if now - at_s > FAILURE_WINDOW_S]:
                del failing[old]
            breaker.probing = False
            if len(failing) >= MOST_FAILING_NAMESPACES:
                self._open(plugin, breaker, "it keeps failing")

    def succeeded(self, plugin: str, extension_point: str) -> None:
        """Record a call that succeeded; forget the plugin's earlier failures at this point."""
        breaker = self._breakers.get(plugin)
        if breaker is not None and breaker.failing:
            with self._lock:
                breaker.failing.pop(extension_point, None)

    def hung(self, plugin: str) -> None:
        """Open a plugin's breaker for 30 s, because a call of the plugin did not return in time."""
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            self._open(plugin, breaker, "a call of it hung")

    def recovered(self, plugin: str) -> None:
        """Close a plugin's breaker after a successful probe; do nothing without a probe."""
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            if breaker.probing:
                breaker.probing = False
                breaker.open_until_s = None
                _LOGGER.info('plugin "%s" has recovered and is called again', plugin)

    def unprobed(self, plugin: str) -> None:
        """End a probe of a plugin without a result; the next call of the plugin is a new probe."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).probing = False

    def stuck(self, plugin: str) -> None:
        """Count one more thread that hangs in an abandoned call of the plugin."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).stuck_threads += 1

    def came_back(self, plugin: str) -> None:
        """Count one thread less that hangs in a call of the plugin, because the call returned."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).stuck_threads -= 1

    def health(self) -> dict[str, PluginHealth]:
        """Return the health of every plugin with a breaker, by the plugin's name."""
        with self._lock:
            return {
                plugin: PluginHealth(breaker.open_until_s is not None, breaker.stuck_threads)
                for plugin, breaker in self._breakers.items()
            }

    def why_not_alive(self) -> str:
        """Return as text which plugins have two or more stuck threads; "" if none has.

        While the text is not empty, kubextend's liveness probe fails, so that the kubelet restarts
        the container.
        """
        stuck = [
            f'{health.stuck_threads} threads are stuck in plugin "{plugin}"'
            for plugin, health in self.health().items()
            if health.stuck_threads >= MOST_STUCK_THREADS
        ]
        return "; ".join(stuck)

    def _open(self, plugin: str, breaker: _Breaker, why: str) -> None:
        breaker.probing = False
        breaker.failing.clear()
        breaker.open_until_s = self._clock() + OPEN_S
        _LOGGER.error('plugin "%s" is not called for %g s: %s', plugin, OPEN_S, why)
