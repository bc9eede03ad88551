"""The plugins that a file may name: ours, and kube-scheduler's own, which stay with it."""

from kubextend.config.issues import suggestion
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["Catalog"]


class Catalog:
    """Looks up the names of plugins for one file."""

    def __init__(
        self,
        known: KnownPlugins,
        *,
        of_scheduler: bool,
        missing: frozenset[str] = frozenset(),
    ) -> None:
        """Keep the known plugins.

        Args:
            known: every plugin of ours by name.
            of_scheduler: the file is a KubeSchedulerConfiguration: its in-tree plugins belong to
                kube-scheduler, and a plugin of ours may not take over such a name.
            missing: names of plugins that are missing for a reason that is reported already.
        """
        self._known = known
        self._missing = missing
        self._unavailable: dict[str, PluginUnavailableError] = {}
        self.of_scheduler = of_scheduler

    def is_left(self, name: str) -> bool:
        """Return whether kube-scheduler runs the plugin itself."""
        return self.of_scheduler and name in IN_TREE_PLUGINS

    def find(self, name: str) -> RegisteredPlugin | None:
        """Return a plugin that kubextend runs; None if there is none, or it is unavailable."""
        if self.is_left(name) or name in self._unavailable:
            return None
        try:
            return self._known.get(name)
        except PluginUnavailableError as error:
            self._unavailable[name] = error
            return None

    def is_missing(self, name: str) -> bool:
        """Return whether a plugin is missing only because of an error reported elsewhere."""
        return name in self._missing

    def why_unavailable(self, name: str) -> PluginUnavailableError | None:
        """Return why an existing plugin is unavailable; None if it does not exist."""
        self.find(name)
        return self._unavailable.get(name)

    def is_ours(self, name: str) -> bool:
        """Return whether a plugin of ours has this name."""
        return self.find(name) is not None

    def hint(self, name: str, point: str | None = None) -> str:
        """Return a hint at the name that may have been meant, for one point or for any."""
        known = self._known
        if name in IN_TREE_PLUGINS:
            return f"{name} is kube-scheduler's own and runs there; leave it out here"
        # A hint must not import anything.
        fitting = [each for each in known if point is None or known.may_extend(each, point)]
        hint = suggestion(name, fitting, f"{point} plugins" if point else "plugins")
        if hint.startswith("did you mean"):
            return hint
        other = "" if self.of_scheduler else ", or name its class in outOfTree"
        return f"{hint}; a plugin of your own: install its package beside kubextend{other}"
