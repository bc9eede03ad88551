"""The plugins that a file may name: ours, and kube-scheduler's own, which are left to it."""

from collections.abc import Mapping

from kubextend.config.issues import suggestion
from kubextend.config.model import PluginInfo
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins

__all__ = ["Catalog"]


class Catalog:
    """Answers what a plugin's name stands for in one file."""

    def __init__(
        self,
        known: Mapping[str, PluginInfo],
        *,
        of_scheduler: bool,
        missing: frozenset[str] = frozenset(),
    ) -> None:
        """Knows the plugins there are.

        Args:
            known: every plugin of ours by name.
            of_scheduler: the file is a KubeSchedulerConfiguration: what it says of in-tree plugins
                is kube-scheduler's business, and a plugin of ours may not take over such a name.
            missing: names of plugins whose absence has been complained of.
        """
        self._known = known
        self._missing = missing
        self._unavailable: dict[str, PluginUnavailableError] = {}
        self.of_scheduler = of_scheduler

    def is_left(self, name: str) -> bool:
        """Whether kube-scheduler runs this one itself."""
        return self.of_scheduler and name in IN_TREE_PLUGINS

    def find(self, name: str) -> PluginInfo | None:
        """What is known of a plugin that is ours to run, None if there is none to be had."""
        if self.is_left(name) or name in self._unavailable:
            return None
        try:
            return self._known.get(name)
        except PluginUnavailableError as error:
            self._unavailable[name] = error
            return None

    def is_missing(self, name: str) -> bool:
        """Whether a plugin cannot be found only because of what was complained of elsewhere."""
        return name in self._missing

    def why_unavailable(self, name: str) -> PluginUnavailableError | None:
        """Why a plugin that exists cannot be had; None if it does not exist."""
        self.find(name)
        return self._unavailable.get(name)

    def is_ours(self, name: str) -> bool:
        """Whether a plugin of ours has this name."""
        return self.find(name) is not None

    def hint(self, name: str, point: str | None = None) -> str:
        """What may have been meant by a name that no plugin has, at a point or at any."""
        if name in IN_TREE_PLUGINS:
            return f"{name} is kube-scheduler's own and runs there; leave it out here"
        fitting = [other for other in self._known if point is None or self._extends(other, point)]
        hint = suggestion(name, fitting, f"{point} plugins" if point else "plugins")
        if hint.startswith("did you mean"):
            return hint
        other = "" if self.of_scheduler else ", or name its class in outOfTree"
        return f"{hint}; a plugin of your own: install its package beside kubextend{other}"

    def _extends(self, name: str, point: str) -> bool:
        """As far as is known: a hint is no reason to import anything."""
        if isinstance(self._known, KnownPlugins):
            return self._known.may_extend(name, point)
        return point in self._known[name].extension_points
