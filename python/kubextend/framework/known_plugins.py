"""Every plugin that a configuration may name, and where each comes from.

What a package announces is imported when a configuration names it, and not before: a package that
is broken or merely installed concerns nobody else. A name that two classes claim is neither's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kubextend.framework.imports import PluginUnavailableError, check_methods, class_at
from kubextend.framework.registry import RegisteredPlugin

__all__ = ["Announcement", "KnownPlugins"]


@dataclass(frozen=True, slots=True)
class Announcement:
    """A plugin class that an installed package offers under a name.

    Attributes:
        name: as a configuration has it.
        reference: ``package.module:Class``.
        source: who announces it, for messages.
    """

    name: str
    reference: str
    source: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """One class that has a name, or will have it once it is imported."""

    source: str
    make: Callable[[], RegisteredPlugin]
    at_hand: RegisteredPlugin | None = None


class KnownPlugins(Mapping[str, RegisteredPlugin]):
    """Plugins by name; immutable, each ``with_`` method answers a larger one.

    Looking a name up imports what was only announced, and raises PluginUnavailableError where that
    fails or where different classes have the name. The same class found twice is one plugin.
    """

    def __init__(self, claims: Mapping[str, tuple[_Claim, ...]] | None = None) -> None:
        self._claims = dict(claims or {})

    @classmethod
    def of(cls, known: Mapping[str, Any], source: str) -> Self:
        """The same plugins, all from one source; those that are known with theirs stay as they are.

        Args:
            known: RegisteredPlugin, or what looks like one, by name.
            source: where they come from, for messages.
        """
        if isinstance(known, cls):
            return known
        return cls({name: (_at_hand(info, source),) for name, info in known.items()})

    def with_classes(self, plugins: Mapping[str, type[Any]], source: str) -> Self:
        """And these classes.

        Raises: PluginUnavailableError: a key is not the class's name, or a name is taken.
        """
        larger = self
        for name, plugin_class in plugins.items():
            own = getattr(plugin_class, "name", None)
            if own != name:
                message = f'{source}: the class under "{name}" has the name {own!r}'
                raise PluginUnavailableError(message, "both must be the same")
            check_methods(f"{source}: {plugin_class.__qualname__}", plugin_class)
            larger = larger._claimed(name, _at_hand(RegisteredPlugin(name, plugin_class), source))
            larger.get(name)  # refuses a name that is taken
        return larger

    def with_announced(self, announcements: Iterable[Announcement]) -> Self:
        """And what packages announce; nothing of it is imported yet, and nothing refused."""
        larger = self
        for announced in announcements:
            larger = larger._claimed(announced.name, _announced(announced))
        return larger

    def with_reference(self, reference: str, source: str) -> Self:
        """And the class at ``package.module:Class``, which is imported now.

        Raises: PluginUnavailableError: there is none, or its name is taken.
        """
        plugin_class = class_at(reference)
        return self.with_classes({plugin_class.name: plugin_class}, source)

    def sources(self, name: str) -> tuple[str, ...]:
        """Where a plugin comes from; several where it was found more than once."""
        return tuple(claim.source for claim in self._claims[name])

    def may_extend(self, name: str, point: str) -> bool:
        """Whether a plugin extends a point, as far as is known without an import."""
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
