"""Builds the configuration and the server of a Wire from the plugins of a test."""

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

from pydantic import BaseModel
from tests.doors.configurations import HEAD
from tests.doors.still_time import Clock, time_of
from tests.doors.wire_plugins import STOPPED, stop_here

from kubextend import app
from kubextend.config import ExtenderConfiguration, parse
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits
from kubextend.verbs.build_verbs import memory_of

TOKENS: Final = Path(__file__).with_name("tokens.txt")


@dataclass(frozen=True)
class Options:
    weights: Mapping[str, int]
    args: Mapping[str, Mapping[str, Any]]
    ignored: frozenset[str]

    def profile(self, scheduler_name: str, plugins: Sequence[Any]) -> dict[str, Any]:
        names = [each.name for each in plugins]
        enabled = [{"name": name, "weight": self.weights.get(name, 1)} for name in names]
        configs = [
            {"name": name, "args": dict(self.args.get(name, {}))}
            | ({"failurePolicy": "Ignore"} if name in self.ignored else {})
            for name in names
        ]
        return {
            "schedulerName": scheduler_name,
            "plugins": {"multiPoint": {"enabled": enabled}},
            "pluginConfig": configs,
        }


class PoolMetrics(Metrics):
    """The metrics of a server, which know how busy each pool of threads is.

    Attributes:
        pools: functions that return how busy a pool is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pools: list[Callable[[], Any]] = []

    def is_idle(self) -> bool:
        """Return whether no thread works for the application but those that the test stops."""
        busy = sum(use().busy for use in self.pools)
        return busy <= STOPPED.threads and not any(map(self._works, _frames()))

    def _works(self, stack: Sequence[FrameType]) -> bool:
        """Return whether this is the stack of a thread that has a job, or has yet to tell of it.

        A pool counts a thread as free right before the thread tells the loop of the result.
        """
        if any(frame.f_code is stop_here.__code__ for frame in stack):
            return False
        pools = [getattr(use, "__self__", None) for use in self.pools]
        serving = [frame.f_locals for frame in stack if frame.f_code.co_name == "_serve"]
        return any("job" in names and names.get("self") in pools for names in serving)

    def scrape(self, families: Any, read: Callable[[], Any], **labels: str) -> None:
        if "pool" in labels:
            self.pools.append(read)
        super().scrape(families, read, **labels)


def _frames() -> Iterator[list[FrameType]]:
    for innermost in [*sys._current_frames().values()]:
        yield [frame for frame, _ in traceback.walk_stack(innermost)]


class _Given(RegisteredPlugin):
    """A plugin that the test has made: ``plugin_class`` is the instance."""

    @property
    def args_model(self) -> None:
        return None

    def make(self, args: BaseModel | None, handle: Handle) -> Any:
        return self.plugin_class


def configuration(
    profiles: Mapping[str, Sequence[Any]],
    options: Options,
    settings: Mapping[str, Any],
    *,
    cluster: bool,
) -> ExtenderConfiguration:
    all_of_them = [plugin for plugins in profiles.values() for plugin in plugins]
    known = {
        each.name: (RegisteredPlugin if isinstance(each, type) else _Given)(each.name, each)
        for each in all_of_them
    }
    tree = {
        **HEAD,
        **({"cluster": {}} if cluster else {}),
        "server": {key: {"tokenFile": str(TOKENS)} for key in ("waitingPods", "decisions")},
        "profiles": [options.profile(name, plugins) for name, plugins in profiles.items()],
    }
    return parse(tree, known=KnownPlugins.of(known, "the test"), overrides=settings)


def build(
    config: ExtenderConfiguration, ports: ClusterPorts | None, clock: Clock
) -> tuple[app.App, PoolMetrics]:
    """Build the server of a configuration as ``kubextend serve`` does, on a clock of the test."""
    metrics = PoolMetrics()
    limits = PluginLimits(clock, metrics)
    parts = {
        "Metrics": lambda: metrics,
        "memory_of": partial(memory_of, limits=limits, clock=clock),
    }
    with time_of(clock), mock.patch.multiple(app, **parts):
        return app.build(config, ports), metrics
