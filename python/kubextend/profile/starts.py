"""Calls ``start`` of plugins that work in the background, and repeats starts that fail.

A method ``start`` may be ``async``: then it runs on the event loop.

The pause between two starts of a plugin doubles, from 5 s to 30 s. Before kubextend calls a plugin,
it checks here whether the plugin has started.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kubextend.errors import PluginError
from kubextend.framework.wrong_answer import wrong_answer
from kubextend.profile.guarded_calls import guarded, guarded_async
from kubextend.profile.run_in_progress import UncalledError
from kubextend.profile.time_limited_calls import PluginLimits

__all__ = ["PluginStarts"]

_POINT: Final = "Start"
_DEADLINE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(slots=True, eq=False)
class _Start:
    """The start of one plugin.

    Attributes:
        plugin: the plugin.
        why: why the plugin has not started, as a phrase after the plugin's name.
        has_run: whether the method ``start`` has succeeded, so that nobody calls it again.
        succeeded: whether the plugin has started, and whoever waits for that was told.
    """

    plugin: Any
    why: str = "has not started yet"
    has_run: bool = False
    succeeded: bool = False

    def __str__(self) -> str:
        return f'plugin "{self.plugin.name}" {self.why}'


class PluginStarts:
    """Starts all plugins that have a method ``start``, concurrently.

    Args:
        plugins: the plugins of all profiles.
        limits: the threads on which plugins are started.
        on_failure: called for every start that failed, with the error and its consequence.
        deadline_s: seconds after which a start counts as failed.
        sleep: waits the given seconds between two starts of a plugin.
        on_started: called after each start that succeeded; if it raises, the start has failed.
    """

    def __init__(
        self,
        plugins: Iterable[Any],
        limits: PluginLimits,
        on_failure: Callable[[PluginError, str], object],
        *,
        deadline_s: float = _DEADLINE_S,
        sleep: Callable[[float], Any] = asyncio.sleep,
        on_started: Callable[[], object] = lambda: None,
    ) -> None:
        self._limits = limits
        self._on_failure = on_failure
        self._deadline_s = deadline_s
        self._sleep = sleep
        self._on_started = on_started
        self._starts = [_Start(plugin) for plugin in plugins if getattr(plugin, "start", None)]

    def names(self) -> frozenset[str]:
        """Return the names of the plugins that have not started."""
        return frozenset(start.plugin.name for start in self._missing())

    def why_not(self) -> str:
        """Return one text that says which plugins have not started, and why; "" once all have."""
        return "; ".join(map(str, self._missing()))

    async def run(self) -> None:
        """Start every plugin, repeat failed starts, and return once all plugins have started."""
        async with asyncio.TaskGroup() as group:
            for start in self._starts:
                group.create_task(self._until_started(start))

    async def _until_started(self, start: _Start) -> None:
        pause_s = _FIRST_PAUSE_S
        while error := await self._failure_of(start):
            start.succeeded = False
            if not isinstance(error, UncalledError):
                start.why = f"does not start: {error.message}"
            self._on_failure(error, "kubextend is not ready")
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _missing(self) -> list[_Start]:
        return [start for start in self._starts if not start.succeeded]

    async def _failure_of(self, start: _Start) -> PluginError | None:
        """Start a plugin and tell of its start; return why that failed, or None."""
        try:
            if not start.has_run:
                await self._start_plugin(start.plugin)
                start.has_run = True
            # Whoever is told begins the handlers of the plugins that have started.
            start.succeeded = True
            self._on_started()
        except PluginError as error:
            return error
        except TimeoutError:
            return PluginError(start.plugin.name, _POINT, "no thread was free for it")
        except Exception as error:  # noqa: BLE001  the system may refuse a new thread
            return PluginError.of(start.plugin.name, _POINT, error)
        return None

    async def _start_plugin(self, plugin: Any) -> None:
        if inspect.iscoroutinefunction(plugin.start):
            until_s = time.monotonic() + self._deadline_s
            async with guarded_async(plugin, _POINT, deadline_s=until_s):
                await plugin.start()
        else:
            await self._limits.within_async(self._deadline_s, partial(_call_start, plugin))


def _call_start(plugin: Any) -> None:
    """Call a plugin's method ``start`` that is no coroutine function.

    Raises: PluginError: ``start`` raised, or returned a coroutine, which nobody awaits.
    """
    with guarded(plugin, _POINT):
        answer = plugin.start()
        if inspect.isawaitable(answer):
            raise wrong_answer(answer, "None")
