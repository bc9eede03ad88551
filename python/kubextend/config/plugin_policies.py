"""Checks whether ``failurePolicy`` of a pluginConfig entry fits the plugin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kubextend.config.issues import Findings, Location
from kubextend.config.model import EnabledPlugin, PluginConfig
from kubextend.config.scheduler_plugins import PLUGIN_TYPES

__all__ = ["check_policies"]

_NEVER_IGNORED: Final = ("reserve", "permit", "preBind", "bind")


def check_policies(
    at: Location,
    config: PluginConfig,
    points: Mapping[str, Sequence[EnabledPlugin]],
    findings: Findings,
) -> None:
    """Check that ``failurePolicy`` of a pluginConfig entry fits the plugin.

    Args:
        at: the location of the entry in the file.
        config: the entry.
        points: the profile's enabled plugins by extension point.
        findings: gets the issues.
    """
    bound_at = _enabled_at(_NEVER_IGNORED, config.name, points)
    if config.failure_policy == "Ignore" and bound_at:
        message = f"must be Fail: {config.name} is enabled at {', '.join(bound_at)}"
        hint = "a pod would be bound as if the plugin had agreed"
        findings.complain((*at, "failurePolicy"), message, "Ignore", hint)


def _enabled_at(
    which: Iterable[str], name: str, points: Mapping[str, Sequence[EnabledPlugin]]
) -> list[str]:
    """Return those points of ``which`` that enable a plugin, with a capital: ``Reserve``."""
    return [
        PLUGIN_TYPES[point].removesuffix("Plugin")
        for point in which
        if any(plugin.name == name for plugin in points.get(point, ()))
    ]
