"""Finds plugins: kubextend's, the caller's, and those that installed packages announce.

A package announces plugins by entry points in the group ``kubextend.plugins``. This module does not
import the plugins that entry points name.
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
    """Return the plugins of kubextend, of installed packages, and of the caller, by name.

    No source takes precedence: if two different classes have one name, the use of the name is an
    error.

    Args:
        given: name -> plugin class of the caller; or an earlier result of this function, which is
            returned unchanged.

    Raises: PluginUnavailableError: a given class is no plugin, or another class has its name.
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
) -> config.Configuration:
    """Find all plugins, and load and check a configuration file that may name them.

    Args:
        path: the path of the file; ``-`` for standard input, None for the default configuration.
        given: name -> plugin class of the caller.
        overrides: values that override those of the file, by path, as ``{"server.port": 9000}``.
        runs_here: whether the files that the configuration names must be readable on this machine.

    Raises: ConfigError: the configuration cannot run; the error has all issues of the file.
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
