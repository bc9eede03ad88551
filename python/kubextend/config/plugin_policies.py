"""Checks whether ``failurePolicy`` and ``isolation`` of a pluginConfig entry fit the plugin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kubextend.config.issues import Findings, Location
from kubextend.config.model import EnabledPlugin, PluginConfig
from kubextend.config.plugin_catalog import Catalog
from kubextend.config.scheduler_plugins import PLUGIN_TYPES

__all__ = ["check_policies"]

_NEVER_IGNORED: Final = ("reserve", "permit", "preBind", "bind")
_ISOLATED: Final = ("preFilter", "filter", "postFilter", "preScore", "score")
_IN_A_THREAD: Final = "leave it out: the plugin runs in a thread"
_FIELDS: Final = {"failure_policy": "failurePolicy", "isolation": "isolation"}


def check_policies(
    at: Location,
    config: PluginConfig,
    points: Mapping[str, Sequence[EnabledPlugin]],
    catalog: Catalog,
    findings: Findings,
) -> None:
    """Check that ``failurePolicy`` and ``isolation`` of a pluginConfig entry fit the plugin.

    Args:
        at: the location of the entry in the file.
        config: the entry.
        points: the profile's enabled plugins by extension point.
        catalog: looks up plugins, and knows the kind of the file.
        findings: gets the issues.
    """
    if catalog.of_scheduler:
        for name in sorted(config.model_fields_set & _FIELDS.keys()):
            message = "is known in an ExtenderConfiguration only"
            hint = "kube-scheduler would refuse this file"
            findings.complain((*at, _FIELDS[name]), message, getattr(config, name), hint)
        return
    if config.failure_policy == "Ignore":
        _refuse_ignore(at, config.name, points, findings)
    if config.isolation == "process":
        _refuse_process(at, config.name, points, catalog, findings)


def _refuse_ignore(
    at: Location, name: str, points: Mapping[str, Sequence[EnabledPlugin]], findings: Findings
) -> None:
    bound_at = _enabled_at(_NEVER_IGNORED, name, points)
    if bound_at:
        message = f"must be Fail: {name} is enabled at {', '.join(bound_at)}"
        hint = "a pod would be bound as if the plugin had agreed"
        findings.complain((*at, "failurePolicy"), message, "Ignore", hint)


def _refuse_process(
    at: Location,
    name: str,
    points: Mapping[str, Sequence[EnabledPlugin]],
    catalog: Catalog,
    findings: Findings,
) -> None:
    others = [point for point in PLUGIN_TYPES if point not in _ISOLATED]
    info = catalog.find(name)
    if enabled_at := _enabled_at(others, name, points):
        message = f"cannot be process: {name} is enabled at {', '.join(enabled_at)}"
        hint = f"only {', '.join(map(_type, _ISOLATED))} run in a process of their own"
        findings.complain((*at, "isolation"), message, "process", hint)
    elif info is not None and (why := info.why_not_isolated):
        message = f"cannot be process: {name} {why}"
        findings.complain((*at, "isolation"), message, "process", _IN_A_THREAD)


def _enabled_at(
    which: Iterable[str], name: str, points: Mapping[str, Sequence[EnabledPlugin]]
) -> list[str]:
    """Return those points of ``which`` that enable a plugin, with a capital: ``Reserve``."""
    return [
        _type(point)
        for point in which
        if any(plugin.name == name for plugin in points.get(point, ()))
    ]


def _type(point: str) -> str:
    return PLUGIN_TYPES[point].removesuffix("Plugin")
