"""Expands a profile's ``plugins`` section, with multiPoint, to an ordered list for each point.

The rules of the expansion and the error messages are those of kube-scheduler.

Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go updatePluginList,
expandMultiPointPlugins, getValidScoreWeights
"""

from collections.abc import Iterator
from typing import NamedTuple

from kubextend.config.issues import Findings, Location, path_of
from kubextend.config.model import EnabledPlugin, Plugin, Plugins
from kubextend.config.plugin_catalog import Catalog
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS, PLUGIN_TYPES
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["check_weights_and_disabled", "complain_of_unknown", "expand"]

_EVERY = "*"
_MULTI_POINT = "multiPoint"
_WEIGHED = ("score", "placementScore")


class _Known(NamedTuple):
    """An entry of a point's ``enabled`` list that names a known plugin.

    Attributes:
        at: the location of the entry's name in the file.
        plugin: the entry.
        info: the registered plugin of that name.
    """

    at: Location
    plugin: Plugin
    info: RegisteredPlugin

    @property
    def name(self) -> str:
        return self.plugin.name


def expand(
    plugins: Plugins, at: Location, catalog: Catalog, findings: Findings
) -> dict[str, tuple[EnabledPlugin, ...]]:
    """Return the plugins that kubextend runs at each extension point, in running order.

    The result maps the point's name to its plugins; points without plugins are absent.

    Args:
        plugins: the ``plugins`` section of one profile.
        at: the location of the section in the file.
        catalog: looks up plugin names.
        findings: gets the issues.
    """
    multi = [*_enabled(plugins, _MULTI_POINT, at, catalog, findings)]
    _refuse_doubles(multi, plugins, findings)
    points: dict[str, tuple[EnabledPlugin, ...]] = {}
    for point in PLUGIN_TYPES:
        known = [*_enabled(plugins, point, at, catalog, findings)]
        specific = [*_fitting(known, point, findings)]
        through = [each for each in multi if _reaches(each, point, plugins)]
        if specific or through:
            points[point] = _ordered(specific, through, scored=point in _WEIGHED)
    return points


def _enabled(
    plugins: Plugins, point: str, at: Location, catalog: Catalog, findings: Findings
) -> Iterator[_Known]:
    """Yield the known plugins of a point's ``enabled`` list; each other name becomes an issue."""
    for index, plugin in enumerate(plugins.at(point).enabled):
        where: Location = (*at, point, "enabled", index)
        info = catalog.find(plugin.name)
        if not plugin.name:
            findings.complain((*where, "name"), "Required value", plugin.name)
        elif info is None:
            complain_of_unknown(plugin.name, (*where, "name"), catalog, findings, point)
        else:
            yield _Known((*where, "name"), plugin, info)


def complain_of_unknown(
    name: str, at: Location, catalog: Catalog, findings: Findings, point: str = _MULTI_POINT
) -> None:
    """Add an issue that a plugin does not exist, or why an existing plugin is unavailable.

    Args:
        name: the name of the plugin in the file.
        at: the location of the name in the file.
        catalog: looks up plugin names.
        findings: gets the issue.
        point: the extension point whose plugins the hint lists; ``multiPoint``: all plugins.
    """
    unavailable = catalog.why_unavailable(name)
    if unavailable is not None:
        findings.complain(at, unavailable.message, name, unavailable.hint)
    else:
        kind = PLUGIN_TYPES.get(point, "plugin")
        hint = catalog.hint(name, point if point in PLUGIN_TYPES else None)
        findings.complain(at, f'{kind} "{name}" does not exist', name, hint)


def check_weights_and_disabled(
    plugins: Plugins, at: Location, catalog: Catalog, findings: Findings
) -> None:
    """Check what kube-scheduler leaves unchecked: weights below 1, and names in ``disabled``."""
    for point in (_MULTI_POINT, *PLUGIN_TYPES):
        for index, plugin in enumerate(plugins.at(point).enabled):
            if "weight" in plugin.model_fields_set and plugin.weight < 1:
                where: Location = (*at, point, "enabled", index, "weight")
                hint = (
                    "kube-scheduler reads 0 as 1; to keep a plugin from running, do not enable it"
                )
                findings.complain(where, "must be at least 1", plugin.weight, hint)
        for index, plugin in enumerate(plugins.at(point).disabled):
            where = (*at, point, "disabled", index, "name")
            _look_at_disabled(plugin.name, where, catalog, findings)


def _look_at_disabled(name: str, at: Location, catalog: Catalog, findings: Findings) -> None:
    if not name:
        findings.complain(at, "Required value", name)
    elif name == _EVERY or catalog.find(name):
        return
    elif name in IN_TREE_PLUGINS:
        findings.note(at, f"{name} is kube-scheduler's own: disabling it here has no effect")
    else:
        complain_of_unknown(name, at, catalog, findings)


def _refuse_doubles(multi: list[_Known], plugins: Plugins, findings: Findings) -> None:
    firsts: dict[str, _Known] = {}
    for each in multi:
        points = [point for point in PLUGIN_TYPES if _registers(each, point, plugins)]
        first = firsts.setdefault(each.name, each)
        if first is not each and points:
            _refuse_double(each, first, points[0], findings)


def _registers(each: _Known, point: str, plugins: Plugins) -> bool:
    """Return whether a plugin runs at a point only because multiPoint enables the plugin."""
    specific = {plugin.name for plugin in plugins.at(point).enabled}
    return _reaches(each, point, plugins) and each.name not in specific


def _fitting(known: list[_Known], point: str, findings: Findings) -> Iterator[_Known]:
    firsts: dict[str, _Known] = {}
    for each in known:
        if point not in each.info.extension_points:
            message = f'plugin "{each.name}" does not extend {PLUGIN_TYPES[point]} plugin'
            points = ", ".join(sorted(each.info.extension_points))
            findings.complain(each.at, message, each.name, f"{each.name} implements: {points}")
        elif each.name in firsts:
            _refuse_double(each, firsts[each.name], point, findings)
        else:
            firsts[each.name] = each
            yield each


def _refuse_double(each: _Known, first: _Known, point: str, findings: Findings) -> None:
    message = f'plugin "{each.name}" already registered as "{PLUGIN_TYPES[point]}"'
    hint = f"{each.name} is enabled twice, first at {path_of(first.at)}: keep one"
    findings.complain(each.at, message, each.name, hint)


def _reaches(each: _Known, point: str, plugins: Plugins) -> bool:
    disabled = {plugin.name for plugin in plugins.at(point).disabled}
    return point in each.info.extension_points and not {_EVERY, each.name} & disabled


def _ordered(
    specific: list[_Known], through: list[_Known], *, scored: bool
) -> tuple[EnabledPlugin, ...]:
    """Merge a point's own plugins and those of multiPoint in kube-scheduler's order.

    First come the plugins that both lists name, in the point's order; then the plugins of
    multiPoint only; then the plugins of the point only. The weight in the point's own entry
    overrides the weight in multiPoint.
    """
    own = {each.name: each for each in specific}
    multi = {each.name: each for each in reversed(through)}
    order = [name for name in own if name in multi]
    order += [each.name for each in through if each.name not in own]
    order += [name for name in own if name not in multi]
    weights = {name: (own.get(name) or multi[name]).plugin.weight or 1 for name in order}
    return tuple(EnabledPlugin(name, weights[name] if scored else 1) for name in weights)
