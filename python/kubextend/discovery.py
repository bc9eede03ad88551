"""Which plugins there are in this Python: ours, those of installed packages, those that are given.

The one place that asks installed packages. Runs no plugin.
"""

from collections.abc import Iterator, Mapping, Sequence
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


def known_plugins(
    given: Mapping[str, Any] | None = None, out_of_tree: Sequence[str] = ()
) -> KnownPlugins:
    """The plugins of kubextend, of installed packages, of the caller and of a configuration.

    None counts before another: a name that two different classes have is refused where it is used.

    Args:
        given: plugin classes by name; or what this function answered before, which is kept.
        out_of_tree: ``package.module:Class``, as ``outOfTree`` of a configuration has it.

    Raises: PluginUnavailableError: something that was given cannot be had, or its name is taken.
    """
    if isinstance(given, KnownPlugins):
        known = given
    else:
        known = KnownPlugins.of(IN_TREE, "kubextend").with_announced(_announced())
        classes = {
            name: getattr(plugin, "plugin_class", plugin) for name, plugin in (given or {}).items()
        }
        known = known.with_classes(classes, _GIVEN)
    for reference in out_of_tree:
        known = known.with_reference(reference, f"outOfTree {reference}")
    return known


def load(
    path: str | Path | None,
    given: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, JsonValue] | None = None,
    runs_here: bool = True,
) -> tuple[config.ExtenderConfiguration, KnownPlugins]:
    """The configuration in a file, as ``config.load`` reads it, and every plugin it may name.

    Raises: ConfigError: with every issue of the file.
    """
    known = known_plugins(given)
    loaded = config.load(path, known=known, overrides=overrides, runs_here=runs_here)
    return loaded, known_plugins(known, loaded.out_of_tree)


def _announced() -> Iterator[Announcement]:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        yield Announcement(
            entry_point.name, f"{entry_point.module}:{entry_point.attr}", _source(entry_point)
        )


def _source(entry_point: EntryPoint) -> str:
    package = entry_point.dist
    return f"package {package.name} {package.version}" if package else "an installed package"
