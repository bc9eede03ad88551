"""Breakers: keep a plugin that hung from being called for 30 s.

There is one breaker for each plugin's name, whatever profiles the plugin is in, because a plugin
usually hangs for the same reason in all profiles. A plugin that raises is called for the next pod
all the same: one tenant's pods must not take a plugin from the pods of others.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kubextend.metrics import ScrapedGauge

__all__ = ["Breakers", "PluginHealth"]

_LOGGER = logging.getLogger(__name__)

OPEN_S: Final = 30.0
MOST_STUCK_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """The health of one plugin at this moment.

    Attributes:
        open: whether the breaker is open: the plugin is not called.
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
        open_until_s: the time until which the plugin is not called.
        stuck_threads: how many calls of the plugin were given up and have not returned.
    """

    open_until_s: float = float("-inf")
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

    def is_open(self, plugin: str) -> bool:
        """Return whether a plugin must not be called now: it hung, or two calls of it hang."""
        # Read without the lock: this call may miss what another thread finds out at the same time.
        breaker = self._breakers.get(plugin)
        return breaker is not None and self._keeps_out(breaker)

    def hung(self, plugin: str) -> None:
        """Open a plugin's breaker for 30 s, because a call of the plugin did not return in time."""
        with self._lock:
            breaker = self._breakers.setdefault(plugin, _Breaker())
            breaker.open_until_s = self._clock() + OPEN_S
        _LOGGER.error('plugin "%s" is not called for %g s: a call of it hung', plugin, OPEN_S)

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
                plugin: PluginHealth(self._keeps_out(breaker), breaker.stuck_threads)
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

    def _keeps_out(self, breaker: _Breaker) -> bool:
        stuck = breaker.stuck_threads >= MOST_STUCK_THREADS
        return stuck or self._clock() < breaker.open_until_s
