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

MOST_FAILING_PODS: Final = 3
MOST_KNOWN_PODS: Final = 100
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
        failing: by extension point, the UIDs of pods that the plugin failed for with no success
            since, each with the time of the failure.
        opened_for: UIDs of the pods that the plugin failed for when the breaker opened.
        open_until_s: when the plugin may be called again; None: at any time.
    """

    failing: dict[str, dict[str, float]] = field(default_factory=dict)
    opened_for: set[str] = field(default_factory=set)
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

    def failed(self, plugin: str, extension_point: str, uid: str) -> None:
        """Note a failure; the breaker opens for a failed probe, or for three pods in ten seconds.

        kube-scheduler retries one pod that a plugin cannot judge again and again, and that pod must
        not stop the others.
        """
        now = self._clock()
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            pods = breaker.failing.setdefault(extension_point, {})
            pods[uid] = now
            for old in [uid for uid, at_s in pods.items() if now - at_s > FAILURE_WINDOW_S]:
                del pods[old]
            if breaker.probing and uid in breaker.opened_for:
                breaker.probing = False
            elif breaker.probing or len(pods) >= MOST_FAILING_PODS:
                self._open(plugin, breaker, "it keeps failing", set(pods))

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
            self._open(plugin, breaker, "a call of it hung", set())

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

    def _open(self, plugin: str, breaker: _Breaker, why: str, pods: set[str]) -> None:
        known = len(breaker.opened_for) < MOST_KNOWN_PODS and breaker.probing
        breaker.opened_for = pods | (breaker.opened_for if known else set())
        breaker.probing = False
        breaker.failing.clear()
        breaker.open_until_s = self._clock() + OPEN_S
        _LOGGER.error('plugin "%s" is not called for %g s: %s', plugin, OPEN_S, why)
