"""The plugins that a configuration may name; imports a plugin when it is first used.

An installed package announces its plugin classes by entry points. kubextend imports an announced
class only when a configuration names the plugin, so that a broken package disturbs only its users.
If two different classes have one name, only a configuration that uses the name has an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kubextend.framework.imports import PluginUnavailableError, check_plugin, class_at
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["Announcement", "KnownPlugins"]


@dataclass(frozen=True, slots=True)
class Announcement:
    """A plugin class, not imported yet, that an installed package announces by an entry point.

    Attributes:
        name: the plugin's name in a configuration.
        reference: the class, as ``package.module:Class``.
        source: the package that announces the plugin, for messages.
    """

    name: str
    reference: str
    source: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """A plugin class that one source provides under a plugin's name; may not be imported yet.

    Attributes:
        source: where the class comes from, for messages.
        make: returns the registered plugin; imports the class if necessary.
        at_hand: the registered plugin; None if its class is not imported yet.
    """

    source: str
    make: Callable[[], RegisteredPlugin]
    at_hand: RegisteredPlugin | None = None


class KnownPlugins(Mapping[str, RegisteredPlugin]):
    """An immutable mapping: name of a plugin -> registered plugin.

    Each ``with_`` method returns a larger mapping. A lookup imports the plugin's class if nothing
    has imported the class yet, and raises PluginUnavailableError if the import fails or if
    different classes have the name. One class that comes from two sources is one plugin.
    """

    def __init__(self, claims: Mapping[str, tuple[_Claim, ...]] | None = None) -> None:
        self._claims = dict(claims or {})

    @classmethod
    def of(cls, known: Mapping[str, Any], source: str) -> Self:
        """Convert a mapping of plugins to a KnownPlugins; return a KnownPlugins unchanged.

        Args:
            known: name -> RegisteredPlugin, or an object with the same attributes.
            source: where the plugins come from, for messages.
        """
        if isinstance(known, cls):
            return known
        return cls({name: (_at_hand(info, source),) for name, info in known.items()})

    def with_classes(self, plugins: Mapping[str, type[Any]], source: str) -> Self:
        """Return a larger mapping that also has the given plugin classes.

        Args:
            plugins: name -> class; the class's attribute ``name`` must equal the key.
            source: where the classes come from, for messages.

        Raises: PluginUnavailableError: a key is not the class's name, another class has the name,
        or the class is no plugin.
        """
        larger = self
        for name, plugin_class in plugins.items():
            own = getattr(plugin_class, "name", None)
            if own != name:
                message = f'{source}: the class under "{name}" has the name {own!r}'
                raise PluginUnavailableError(message, "both must be the same")
            check_plugin(f"{source}: {plugin_class.__qualname__}", plugin_class)
            larger = larger._claimed(name, _at_hand(RegisteredPlugin(name, plugin_class), source))
            larger.get(name)  # refuses a name that is taken
        return larger

    def with_announced(self, announcements: Iterable[Announcement]) -> Self:
        """Return a larger mapping that also has announced plugins, without importing any class."""
        larger = self
        for announced in announcements:
            larger = larger._claimed(announced.name, _announced(announced))
        return larger

    def with_reference(self, reference: str, source: str) -> Self:
        """Import a plugin class, and return a larger mapping that also has this plugin.

        Args:
            reference: the class, as ``package.module:Class``.
            source: where the reference comes from, for messages.

        Raises: PluginUnavailableError: the class does not exist, is no plugin, or has the name of
        another plugin.
        """
        plugin_class = class_at(reference)
        return self.with_classes({plugin_class.name: plugin_class}, source)

    def sources(self, name: str) -> tuple[str, ...]:
        """Return where the classes of this plugin name come from, such as an installed package."""
        return tuple(claim.source for claim in self._claims[name])

    def may_extend(self, name: str, point: str) -> bool:
        """Return whether a plugin extends an extension point; True if it is not imported yet."""
        at_hand = [claim.at_hand for claim in self._claims[name]]
        return any(plugin is None or point in plugin.extension_points for plugin in at_hand)

    def __getitem__(self, name: str) -> RegisteredPlugin:
        claims = self._claims[name]
        first, *others = [claim.make() for claim in claims]
        if all(_same(first, other) for other in others):
            return first
        sources = ", ".join(dict.fromkeys(claim.source for claim in claims))
        message = f'different plugins are named "{name}": {sources}'
        raise PluginUnavailableError(message, "rename one, or take its package away")

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, name: object) -> bool:
        return name in self._claims

    def _claimed(self, name: str, claim: _Claim) -> Self:
        return type(self)({**self._claims, name: (*self._claims.get(name, ()), claim)})


def _at_hand(plugin: RegisteredPlugin, source: str) -> _Claim:
    return _Claim(source, lambda: plugin, plugin)


def _announced(announced: Announcement) -> _Claim:
    def make() -> RegisteredPlugin:
        try:
            plugin_class = class_at(announced.reference)
        except PluginUnavailableError as error:
            message = f"{announced.source}: {error.message}"
            raise PluginUnavailableError(message, error.hint) from error
        if plugin_class.name != announced.name:
            message = (
                f'{announced.source} announces "{announced.name}", but the name of '
                f'{announced.reference} is "{plugin_class.name}"'
            )
            raise PluginUnavailableError(message, "both must be the same")
        return RegisteredPlugin(announced.name, plugin_class)

    return _Claim(announced.source, make)


def _same(one: RegisteredPlugin, other: RegisteredPlugin) -> bool:
    return one is other or one.plugin_class is other.plugin_class
