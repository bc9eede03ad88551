"""RegisteredPlugin: a plugin class under its name, with what the class extends and needs."""

import inspect
import sys
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kubextend.framework.handle import Handle
from kubextend.framework.plugin import METHODS_OF_POINT, Plugin, runs_in_core

__all__ = ["RegisteredPlugin"]


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin class under its name in a configuration.

    Attributes:
        name: the plugin's name in a configuration.
        plugin_class: the class. Its constructor takes an instance of its ``Args``, if the class has
            ``Args``, and ``handle``, if the constructor has a parameter of that name.
    """

    name: str
    # Any: a plugin may define any of the extension points, and its constructor is its own.
    plugin_class: type[Any]

    @property
    def extension_points(self) -> frozenset[str]:
        """The extension points that the plugin extends, as spelled in a configuration."""
        points = METHODS_OF_POINT.items()
        return frozenset(
            point
            for point, methods in points
            if any(hasattr(self.plugin_class, method) for method in methods)
        )

    @property
    def args_model(self) -> type[BaseModel] | None:
        """The pydantic model of the plugin's arguments; None if the plugin takes no arguments."""
        return getattr(self.plugin_class, "Args", None)

    @property
    def needs_pods(self) -> bool:
        """Whether the plugin's class has ``needs_pods = True``: it reads the pods on nodes."""
        return bool(getattr(self.plugin_class, "needs_pods", False))

    @property
    def why_not_isolated(self) -> str:
        """Why the plugin cannot run in a process of its own; empty if it can.

        The text is the end of a sentence that begins with the plugin's name.
        """
        if self.needs_pods:
            return "looks at the pods on nodes, which are not told to other processes"
        methods = [method for each in METHODS_OF_POINT.values() for method in each]
        if runs_in_core(self.plugin_class, *methods, "normalize_score"):
            return "runs in the core, which does not hang"
        classes = (self.plugin_class, self.args_model or self.plugin_class)
        for cannot_be_found in (each for each in classes if not _found_by_name(each)):
            return (
                f"cannot be imported there: {cannot_be_found.__qualname__} of "
                f"{cannot_be_found.__module__} is not at the top of a module"
            )
        return ""

    def make(self, args: BaseModel | None, handle: Handle) -> Plugin:
        """Construct the plugin from its arguments, with a Handle of its own if it takes one.

        Args:
            args: an instance of ``args_model``; None means the defaults.
            handle: the Handle from which the plugin's own Handle is made.
        """
        positional: list[BaseModel] = []
        if self.args_model is not None:
            positional.append(args if args is not None else self.args_model())
        mine = {"handle": handle.of(self.name, needs_pods=self.needs_pods)}
        named = mine if self._takes_handle else {}
        plugin: Plugin = self.plugin_class(*positional, **named)
        return plugin

    @property
    def _takes_handle(self) -> bool:
        return "handle" in inspect.signature(self.plugin_class).parameters


def _found_by_name(found: type[Any]) -> bool:
    """Return whether another process can import the class by its module and qualified name.

    False for a class in ``__main__`` or inside of a function.
    """
    if found.__module__ == "__main__":
        return False
    named: object = sys.modules.get(found.__module__)
    for name in found.__qualname__.split("."):
        named = getattr(named, name, None)
    return named is found
