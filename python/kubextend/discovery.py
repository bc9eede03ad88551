"""Finds the plugins of this Python: ours, those of installed packages, those of the caller.

No other module asks installed packages. This module runs no plugin.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from kubextend import config
from kubextend.framework.known_plugins import Announcement, KnownPlugins
from kubextend.plugins import IN_TREE

__all__ = ["ENTRY_POINT_GROUP", "known_plugins", "load"]

ENTRY_POINT_GROUP: Final = "kubextend.plugins"

_GIVEN = "given to kubextend by its caller"


def known_plugins(given: Mapping[str, Any] | None = None) -> KnownPlugins:
    """Return the plugins of kubextend, of installed packages, and of the caller.

    No source goes before another: a name that two classes have is refused where it is used.

    Args:
        given: plugin classes by name; or an earlier result of this function, which is kept.

    Raises: PluginUnavailableError: a given plugin is unavailable, or its name is taken.
    """
    if isinstance(given, KnownPlugins):
        return given
    known = KnownPlugins.of(IN_TREE, "kubextend").with_announced(_announced())
    classes = {
        name: getattr(plugin, "plugin_class", plugin) for name, plugin in (given or {}).items()
    }
    return known.with_classes(classes, _GIVEN)


def load(
    path: str | Path | None,
    given: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, JsonValue] | None = None,
    runs_here: bool = True,
) -> config.ExtenderConfiguration:
    """Load a configuration as ``config.load`` does, with every plugin that it may name.

    Raises: ConfigError: the configuration cannot run; has every issue of the file.
    """
    known = known_plugins(given)
    return config.load(path, known=known, overrides=overrides, runs_here=runs_here)


def _announced() -> Iterator[Announcement]:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        yield Announcement(
            entry_point.name, f"{entry_point.module}:{entry_point.attr}", _source(entry_point)
        )


def _source(entry_point: EntryPoint) -> str:
    package = entry_point.dist
    return f"package {package.name} {package.version}" if package else "an installed package"
