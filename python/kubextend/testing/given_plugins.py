"""Makes the configuration of a test: of plugins that the test gives, or the test's own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, JsonValue

from kubextend import config
from kubextend.config.model import API_VERSION, KIND
from kubextend.framework.handle import Handle
from kubextend.framework.imports import check_plugin
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.plugin import Plugin
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["PluginLike", "configuration_of"]

PluginLike: TypeAlias = Any
"""A plugin, or a plugin class, which kubextend makes with its Args and a Handle."""


def configuration_of(
    plugins: Sequence[PluginLike],
    args: Mapping[str, Mapping[str, Any]] | None = None,
    weights: Mapping[str, int] | None = None,
) -> config.Configuration:
    """Return a configuration with one profile, which has the plugins at all their points.

    Args:
        plugins: the plugins in their order; or one configuration, which is returned unchanged.
        args: Args by plugin name, for plugins that are given as classes.
        weights: weights of scores by plugin name; 1 where none is given.

    Raises:
        ConfigError: the configuration of these plugins and Args has errors.
        PluginUnavailableError: ``kubextend check`` would refuse the class of a plugin.
        ValueError: a configuration is given together with something else.
    """
    if any(isinstance(each, config.Configuration) for each in plugins):
        if len(plugins) > 1 or args or weights:
            message = "a configuration has its own plugins, args and weights: give it alone"
            raise ValueError(message)
        given: config.Configuration = plugins[0]
        return given
    for plugin in plugins:
        what = plugin.__qualname__ if isinstance(plugin, type) else type(plugin).__qualname__
        check_plugin(what, plugin)
    known = {plugin.name: _registered(plugin) for plugin in plugins}
    enabled: list[JsonValue] = [
        {"name": name, "weight": (weights or {}).get(name, 1)} for name in known
    ]
    # Through JSON, as from a file: a tuple becomes a list.
    values: dict[str, JsonValue] = json.loads(json.dumps(args or {}, default=dict))
    profile: JsonValue = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": enabled}},
        "pluginConfig": [{"name": name, "args": each} for name, each in values.items()],
    }
    tree: dict[str, JsonValue] = {"cluster": {}, "profiles": [profile]}
    of_type: dict[str, JsonValue] = {"apiVersion": API_VERSION, "kind": KIND}
    return config.parse(of_type | tree, known=KnownPlugins.of(known, "the test"))


@dataclass(frozen=True, slots=True)
class _MadePlugin(RegisteredPlugin):
    """A plugin that the test has made: ``plugin_class`` is the instance."""

    @property
    def args_model(self) -> type[BaseModel] | None:
        """None, because a plugin that is made takes no arguments any more."""
        return None

    def make(self, args: BaseModel | None, handle: Handle) -> Plugin:
        """Return the plugin as the test has made it."""
        del args, handle
        return cast("Plugin", self.plugin_class)


def _registered(plugin: PluginLike) -> RegisteredPlugin:
    known = RegisteredPlugin if isinstance(plugin, type) else _MadePlugin
    return known(plugin.name, plugin)
