"""Builds the configuration and the server of a Wire from the plugins of a test."""

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType, MethodType
from typing import Any, Final
from unittest import mock

from pydantic import BaseModel
from tests.doors.configurations import HEAD
from tests.doors.still_time import Clock, time_of
from tests.doors.wire_plugins import STOPPED, stop_here

from kubextend import app
from kubextend.config import Configuration, parse
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Family, Metrics
from kubextend.profile import PluginLimits
from kubextend.profile.threads import Threads
from kubextend.verbs.build_verbs import build_verbs

TOKENS: Final = Path(__file__).with_name("tokens.txt")
# What a thread of a pool runs; ``job`` is a variable of it while there is work or a result to tell.
_SERVE: Final = Threads._serve.__code__
_ENDS: Final = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
assert "job" in _SERVE.co_varnames


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
        pools: methods of pools that return how busy the pool is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pools: list[MethodType] = []

    def is_idle(self) -> bool:
        """Return whether no thread works for the application but those that the test stops."""
        assert self.pools
        busy = sum(use().busy for use in self.pools)
        return busy <= STOPPED.threads and not any(map(self._works, _frames()))

    def _works(self, stack: Sequence[FrameType]) -> bool:
        """Return whether this is the stack of a thread that has a job, or has yet to tell of it.

        A pool counts a thread as free right before the thread tells the loop of the result.
        """
        if any(frame.f_code is stop_here.__code__ for frame in stack):
            return False
        pools = [use.__self__ for use in self.pools]
        serving = [frame.f_locals for frame in stack if frame.f_code is _SERVE]
        return any("job" in names and names["self"] in pools for names in serving)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 where nothing was counted.

        Raises: KeyError: no metric has this name.
        """
        found = self.registry.get_sample_value(name, labels)
        if found is None and name not in {*self._names()}:
            raise KeyError(name)
        return found or 0.0

    def _names(self) -> Iterator[str]:
        for family in self.registry.collect():
            yield from (family.name + end for end in _ENDS.get(family.type, ("",)))
        # Families of counters are in the registry once one counts.
        own = [vars(module) for name, module in sys.modules.items() if name.startswith("kubextend")]
        families = [each for names in own for each in names.values() if isinstance(each, Family)]
        yield from (f"{family.name}_total" for family in families)

    def scrape(self, families: Any, read: Callable[[], Any], **labels: str) -> None:
        if "pool" in labels:
            assert isinstance(read, MethodType)
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
) -> Configuration:
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
    config: Configuration, ports: ClusterPorts | None, clock: Clock
) -> tuple[app.App, PoolMetrics]:
    """Build the server of a configuration as ``kubextend serve`` does, on a clock of the test."""
    metrics = PoolMetrics()
    limits = PluginLimits(clock, metrics)
    parts = {
        "Metrics": lambda: metrics,
        "build_verbs": partial(build_verbs, limits=limits),
    }
    with time_of(clock), mock.patch.multiple(app, **parts):
        return app.build(config, ports), metrics
