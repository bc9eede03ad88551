"""Plugins with work in the background: ``start`` is called until it succeeds, ``stop`` once.

A plugin without ``start`` is ready as soon as it is made.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubextend.framework.plugin import Plugin

__all__ = ["PluginStarts"]

_LOGGER = logging.getLogger(__name__)
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class _Waiting:
    """A plugin that has not started, when to try it, and how long to wait after that."""

    plugin: Plugin
    due_s: float
    pause_s: float = _FIRST_PAUSE_S


class PluginStarts:
    """Which plugins have not started yet; safe to read from many threads.

    Args:
        plugins: all that there are.
        on_failure: given the name of a plugin whose ``start`` raised.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        plugins: Iterable[Plugin],
        on_failure: Callable[[str], object] = lambda _name: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugins = list(plugins)
        self._on_failure = on_failure
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = {
            id(plugin): _Waiting(plugin, clock())
            for plugin in self._plugins
            if getattr(plugin, "start", None) is not None
        }

    def names(self) -> frozenset[str]:
        """The names of the plugins that have not started."""
        return frozenset(waiting.plugin.name for waiting in list(self._waiting.values()))

    def try_due(self) -> None:
        """Start each plugin whose turn it is; one that fails is tried again after 1 s to 60 s."""
        with self._lock:
            for waiting in list(self._waiting.values()):
                if waiting.due_s <= self._clock():
                    self._try(waiting)

    def stop(self) -> None:
        """No plugin works in the background any more."""
        with self._lock:
            self._waiting.clear()
            for plugin in self._plugins:
                _stop(plugin)

    def _try(self, waiting: _Waiting) -> None:
        plugin = waiting.plugin
        try:
            plugin.start()  # type: ignore[attr-defined]
        except Exception:
            waiting.due_s = self._clock() + waiting.pause_s
            _LOGGER.exception(
                "plugin %s has not started, it is tried again in %g s", plugin.name, waiting.pause_s
            )
            waiting.pause_s = min(2 * waiting.pause_s, _LONGEST_PAUSE_S)
            self._on_failure(plugin.name)
        else:
            del self._waiting[id(plugin)]


def _stop(plugin: Plugin) -> None:
    stop = getattr(plugin, "stop", None)
    if stop is None:
        return
    try:
        stop()
    except Exception:
        _LOGGER.exception("plugin %s has not stopped", plugin.name)
