"""The plugins that a file may name: ours, and kube-scheduler's own, which are left to it."""

from collections.abc import Mapping

from kubextend.config.issues import suggestion
from kubextend.config.model import PluginInfo
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS

__all__ = ["Catalog"]


class Catalog:
    """Answers what a plugin's name stands for in one file."""

    def __init__(self, known: Mapping[str, PluginInfo], *, of_scheduler: bool) -> None:
        """Knows the plugins there are.

        Args:
            known: every plugin of ours by name.
            of_scheduler: the file is a KubeSchedulerConfiguration: what it says of in-tree plugins
                is kube-scheduler's business, and a plugin of ours may not take over such a name.
        """
        self._known = known
        self.of_scheduler = of_scheduler

    def is_left(self, name: str) -> bool:
        """Whether kube-scheduler runs this one itself."""
        return self.of_scheduler and name in IN_TREE_PLUGINS

    def find(self, name: str) -> PluginInfo | None:
        """What is known of a plugin that is ours to run, None if there is none."""
        return None if self.is_left(name) else self._known.get(name)

    def is_ours(self, name: str) -> bool:
        """Whether a plugin of ours has this name."""
        return self.find(name) is not None

    def hint(self, name: str, point: str | None = None) -> str:
        """What may have been meant by a name that no plugin has, at a point or at any."""
        if name in IN_TREE_PLUGINS:
            return f"{name} is kube-scheduler's own and runs there; leave it out here"
        fitting = [
            other
            for other, info in self._known.items()
            if point is None or point in info.extension_points
        ]
        return suggestion(name, fitting, f"{point} plugins" if point else "plugins")
