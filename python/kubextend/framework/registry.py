"""Which plugins there are, and how each is made."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from kubextend.framework.plugin import Plugin

__all__ = ["RegisteredPlugin", "Registry"]

_POINT_OF_METHOD: Mapping[str, str] = MappingProxyType(
    {"filter_nodes": "filter", "score_nodes": "score"}
)


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin that a configuration may name.

    Attributes:
        name: as the configuration has it.
        plugin_class: called with its Args, or with nothing where it takes none.
    """

    name: str
    # Any: a plugin may define any of the extension points, and its constructor is its own.
    plugin_class: type[Any]

    @property
    def extension_points(self) -> frozenset[str]:
        """The points whose methods it defines, as a configuration spells them."""
        defined = self.plugin_class
        points = _POINT_OF_METHOD.items()
        return frozenset(point for method, point in points if hasattr(defined, method))

    @property
    def args_model(self) -> type[BaseModel] | None:
        """The model of its ``pluginConfig`` entry; None where it takes none."""
        return getattr(self.plugin_class, "Args", None)

    def make(self, args: BaseModel | None) -> Plugin:
        """The plugin with these arguments, or with its defaults."""
        plugin: Plugin
        if self.args_model is None:
            plugin = self.plugin_class()
        else:
            plugin = self.plugin_class(args if args is not None else self.args_model())
        return plugin


class Registry(Mapping[str, RegisteredPlugin]):
    """Plugins by name.

    Raises: ValueError: two plugins of one name.
    """

    def __init__(self, plugin_classes: Iterable[type[Plugin]]) -> None:
        self._plugins: dict[str, RegisteredPlugin] = {}
        for plugin_class in plugin_classes:
            name = plugin_class.name
            if name in self._plugins:
                message = f"a plugin named {name} is registered already"
                raise ValueError(message)
            self._plugins[name] = RegisteredPlugin(name, plugin_class)

    def __getitem__(self, name: str) -> RegisteredPlugin:
        """The plugin of this name."""
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        """Their names, in the order of registration."""
        return iter(self._plugins)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._plugins)
