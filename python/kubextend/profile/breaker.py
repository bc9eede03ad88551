"""Breakers: a plugin that hung, or keeps failing, is not called for a while.

A breaker belongs to a plugin's name, whatever profiles the plugin is in: mostly the same cause
makes the plugin hang in all of them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

__all__ = ["Admission", "Breakers", "PluginHealth"]

_LOGGER = logging.getLogger(__name__)

MOST_FAILING_NAMESPACES: Final = 3
FAILURE_WINDOW_S: Final = 10.0
OPEN_S: Final = 30.0
MOST_STUCK_THREADS: Final = 2


class Admission(Enum):
    """A breaker's answer to a call of its plugin."""

    CALL = auto()
    PROBE = auto()
    """One call, to see whether the plugin has recovered; every other call is refused meanwhile."""
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """The health of one plugin at this moment.

    Attributes:
        open: the plugin is not called, or only to see whether it has recovered.
        stuck_threads: calls of the plugin that were given up and have not returned.
    """

    open: bool
    stuck_threads: int


@dataclass(slots=True)
class _Breaker:
    """The breaker of one plugin.

    Attributes:
        failing: by extension point, the namespaces of pods that the plugin failed for with no
            success since, each with the time of the failure.
        open_until_s: when the plugin may be called again; None: at any time.
    """

    failing: dict[str, dict[str, float]] = field(default_factory=dict)
    open_until_s: float | None = None
    probing: bool = False
    stuck_threads: int = 0


class Breakers:
    """One breaker for each plugin; safe to use from many threads.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._breakers: dict[str, _Breaker] = {}

    def add(self, plugins: Iterable[str]) -> None:
        """Make ``health`` list these plugins from the start, not only after a failure."""
        with self._lock:
            for plugin in plugins:
                self._breakers.setdefault(plugin, _Breaker())

    def admit(self, plugin: str) -> Admission:
        """Return whether the plugin may be called now; the caller reports how a probe ends."""
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
        """Note a failure for a pod; the third namespace in ten seconds opens the breaker.

        A tenant may create any number of pods that a plugin cannot judge, and must stop no other
        tenant. A failed probe therefore opens nothing: the next call is another probe.
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
        """Note a successful call: earlier failures at this point were those of single pods."""
        breaker = self._breakers.get(plugin)
        if breaker is not None and breaker.failing:
            with self._lock:
                breaker.failing.pop(extension_point, None)

    def hung(self, plugin: str) -> None:
        """Open the breaker, because a call of the plugin was given up."""
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            self._open(plugin, breaker, "a call of it hung")

    def recovered(self, plugin: str) -> None:
        """Close the breaker after a successful probe."""
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            if breaker.probing:
                breaker.probing = False
                breaker.open_until_s = None
                _LOGGER.info('plugin "%s" has recovered and is called again', plugin)

    def unprobed(self, plugin: str) -> None:
        """End a probe that told nothing of the plugin; the next call is a new probe."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).probing = False

    def stuck(self, plugin: str) -> None:
        """Count one more thread that is in a call of the plugin which nobody waits for."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).stuck_threads += 1

    def came_back(self, plugin: str) -> None:
        """Count one such thread less, because its call has returned."""
        with self._lock:
            self._breakers.setdefault(plugin, _Breaker()).stuck_threads -= 1

    def health(self) -> dict[str, PluginHealth]:
        """Return the health of every known plugin, by name."""
        with self._lock:
            return {
                plugin: PluginHealth(breaker.open_until_s is not None, breaker.stuck_threads)
                for plugin, breaker in self._breakers.items()
            }

    def why_not_alive(self) -> str:
        """Return which plugins hold too many threads for this process to go on; empty if none."""
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
