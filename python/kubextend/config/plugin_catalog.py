"""Looks up the plugin names of a configuration file among kubextend's and kube-scheduler's."""

from kubextend.config.issues import suggestion
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["Catalog"]


class Catalog:
    """Looks up the plugin names of one configuration file, and says why a name cannot be used.

    Args:
        known: every plugin that the file may name.
    """

    def __init__(self, known: KnownPlugins) -> None:
        self._known = known
        self._unavailable: dict[str, PluginUnavailableError] = {}

    def find(self, name: str) -> RegisteredPlugin | None:
        """Return the plugin that kubextend can run under a name; None if there is no such plugin.

        The method imports the plugin's class if only an entry point of a package names the class so
        far.
        """
        if name in self._unavailable:
            return None
        try:
            return self._known.get(name)
        except PluginUnavailableError as error:
            self._unavailable[name] = error
            return None

    def why_unavailable(self, name: str) -> PluginUnavailableError | None:
        """Return the error because of which a plugin cannot be used.

        The result is None if the plugin can be used, or does not exist.
        """
        self.find(name)
        return self._unavailable.get(name)

    def hint(self, name: str, point: str | None = None) -> str:
        """Return a hint for a plugin name that does not exist.

        Args:
            name: the unknown name.
            point: lists only plugins of this extension point; None lists all plugins.
        """
        known = self._known
        if name in IN_TREE_PLUGINS:
            return f"{name} is kube-scheduler's own and runs there; leave it out here"
        # A hint must not import anything.
        fitting = [each for each in known if point is None or known.may_extend(each, point)]
        hint = suggestion(name, fitting, f"{point} plugins" if point else "plugins")
        if hint.startswith("did you mean"):
            return hint
        own = "install its package beside kubextend, or name its class in outOfTree"
        return f"{hint}; a plugin of your own: {own}"
