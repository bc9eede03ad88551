"""Expands a profile's ``plugins`` section, with multiPoint, to an ordered list for each point.

The rules of the expansion and the error messages are those of kube-scheduler.

Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go updatePluginList,
expandMultiPointPlugins, getValidScoreWeights
"""

from collections.abc import Iterator
from typing import NamedTuple

from kubextend.config.configuration import EnabledPlugin
from kubextend.config.issues import Findings, suggestion
from kubextend.config.model import Plugin, Plugins, PluginSet
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS, PLUGIN_TYPES
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["Catalog", "expand"]


class Catalog:
    """Looks up plugin names, and says why a name cannot be used.

    Args:
        known: every plugin that the file may name.
    """

    def __init__(self, known: KnownPlugins) -> None:
        self._known = known
        self._unavailable: dict[str, PluginUnavailableError] = {}

    def find(self, name: str) -> RegisteredPlugin | None:
        """Return the plugin of a name, imported if necessary; None if there is no such plugin."""
        try:
            return None if name in self._unavailable else self._known.get(name)
        except PluginUnavailableError as error:
            self._unavailable[name] = error
            return None

    def complain(self, name: str, at: str, findings: Findings, point: str = "multiPoint") -> None:
        """Add an issue about a path that names no plugin that ``find`` finds.

        Args:
            name: the name.
            at: the path of the name in the file.
            findings: gets the issue.
            point: the extension point whose plugins the hint lists; ``multiPoint``: all plugins.
        """
        message = f'{PLUGIN_TYPES.get(point, "plugin")} "{name}" does not exist'
        hint = f"{name} is kube-scheduler's own and runs there; leave it out here"
        if not name:
            message, hint = "Required value", ""
        elif unavailable := self._unavailable.get(name):
            message, hint = unavailable.message, unavailable.hint
        elif name not in IN_TREE_PLUGINS:
            hint = self._hint(name, point)
        findings.complain(at, message, name, hint)

    def _hint(self, name: str, point: str) -> str:
        anywhere = point not in PLUGIN_TYPES
        # A hint must not import anything.
        fitting = [each for each in self._known if anywhere or self._known.may_extend(each, point)]
        hint = suggestion(name, fitting, "plugins" if anywhere else f"{point} plugins")
        own = "install its package beside kubextend, or name its class in outOfTree"
        near = hint.startswith("did you mean")
        return hint if near else f"{hint}; a plugin of your own: {own}"


class _Known(NamedTuple):
    """An entry of a point's ``enabled`` list that names a known plugin.

    Attributes:
        at: the path of the entry's name in the file.
        plugin: the entry.
        points: the extension points of the plugin.
    """

    at: str
    plugin: Plugin
    points: frozenset[str]

    @property
    def name(self) -> str:
        return self.plugin.name

    def reaches(self, point: str, given: PluginSet) -> bool:
        """Return whether multiPoint, if it has this entry, enables the plugin at a point."""
        disabled = {plugin.name for plugin in given.disabled}
        return point in self.points and not {"*", self.name} & disabled


def expand(
    plugins: Plugins, at: str, catalog: Catalog, findings: Findings
) -> dict[str, tuple[EnabledPlugin, ...]]:
    """Return the plugins that run at each extension point, in running order.

    The result maps the point's name to its plugins; points without plugins are absent.

    Args:
        plugins: the ``plugins`` section of one profile.
        at: the path of the section in the file.
        catalog: looks up plugin names.
        findings: gets the issues.
    """
    given = plugins.by_point()
    multi = [*_enabled(given, "multiPoint", at, catalog, findings)]
    firsts: dict[str, _Known] = {}
    for each in multi:
        first = firsts.setdefault(each.name, each)
        if first is not each:
            point = next(point for point in PLUGIN_TYPES if point in each.points)
            _refuse_double(each, first, point, findings)
    expanded: dict[str, tuple[EnabledPlugin, ...]] = {}
    for point in PLUGIN_TYPES:
        known = _enabled(given, point, at, catalog, findings)
        specific = [*_fitting(known, point, findings)]
        through = [each for each in multi if each.reaches(point, given[point])]
        if specific or through:
            expanded[point] = _ordered(specific, through, scored=point == "score")
    return expanded


def _enabled(
    given: dict[str, PluginSet], point: str, at: str, catalog: Catalog, findings: Findings
) -> Iterator[_Known]:
    """Yield the known plugins of a point's ``enabled`` list; each other name becomes an issue."""
    for index, plugin in enumerate(given[point].enabled):
        where = f"{at}.{point}.enabled[{index}].name"
        info = catalog.find(plugin.name)
        if info is None:
            catalog.complain(plugin.name, where, findings, point)
        else:
            yield _Known(where, plugin, info.extension_points)


def _fitting(known: Iterator[_Known], point: str, findings: Findings) -> Iterator[_Known]:
    firsts: dict[str, _Known] = {}
    for each in known:
        if point not in each.points:
            message = f'plugin "{each.name}" does not extend {PLUGIN_TYPES[point]} plugin'
            hint = f"{each.name} implements: {', '.join(sorted(each.points))}"
            findings.complain(each.at, message, each.name, hint)
        elif each.name in firsts:
            _refuse_double(each, firsts[each.name], point, findings)
        else:
            firsts[each.name] = each
            yield each


def _refuse_double(each: _Known, first: _Known, point: str, findings: Findings) -> None:
    message = f'plugin "{each.name}" already registered as "{PLUGIN_TYPES[point]}"'
    hint = f"{each.name} is enabled twice, first at {first.at}: keep one"
    findings.complain(each.at, message, each.name, hint)


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
