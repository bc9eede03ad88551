"""Calls ``stop`` of plugins; a failure is logged, and no other plugin hears of it.

A method ``stop`` may be ``async``: then it runs on the event loop.
"""

import asyncio
import inspect
import time
from typing import Any, Final

from kubextend.errors import PluginError
from kubextend.framework.wrong_answer import wrong_answer
from kubextend.profile.guarded_calls import guarded, guarded_async
from kubextend.profile.plugin_failures import PluginFailures

__all__ = ["stop_async", "stop_plugin", "stop_sync", "stops_async"]

_POINT: Final = "Stop"
_STOP_S: Final = 10.0


async def stop_plugin(plugin: object, failures: PluginFailures) -> None:
    """Stop a plugin whether or not its ``stop`` is ``async``; log a failure."""
    if stops_async(plugin):
        await stop_async(plugin, failures)
    else:
        await asyncio.to_thread(stop_sync, plugin, failures)


def stops_async(plugin: object) -> bool:
    """Return whether a plugin has a method ``stop`` that is ``async``."""
    return inspect.iscoroutinefunction(getattr(plugin, "stop", None))


async def stop_async(plugin: Any, failures: PluginFailures) -> None:
    """Await a plugin's async method ``stop`` for 10 s at most; log a failure."""
    until_s = time.monotonic() + _STOP_S
    try:
        async with guarded_async(plugin, _POINT, deadline_s=until_s):
            await plugin.stop()
    except PluginError as error:
        failures.note(error, f"stop of plugin {plugin.name} failed")


def stop_sync(plugin: Any, failures: PluginFailures) -> None:
    """Call a plugin's method ``stop``, if the plugin has one; log a failure of the call."""
    stop = getattr(plugin, "stop", None)
    if stop is None:
        return
    try:
        with guarded(plugin, _POINT):
            answer = stop()
            if inspect.isawaitable(answer):
                raise wrong_answer(answer, "None")
    except PluginError as error:
        failures.note(error, f"stop of plugin {plugin.name} failed")
