"""A spec: what a child must know to make its plugin."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel

from kubextend import logs
from kubextend.config import ExtenderConfiguration
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["ChildSpec"]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A plugin with its arguments, in a form that another process understands.

    Attributes:
        plugin: the registered plugin; the child finds its class by the name in its module.
        args: the checked arguments.
        points: the plugin's extension points in the profile, as a configuration spells them.
        configuration: the configuration for the plugin's Handle, without the arguments of others.
        log: level and format of the log.
    """

    plugin: RegisteredPlugin
    args: BaseModel | None
    points: frozenset[str]
    configuration: ExtenderConfiguration | None
    log: tuple[logs.Level, logs.Format]

    @classmethod
    def of(
        cls,
        plugin: RegisteredPlugin,
        args: BaseModel | None,
        points: Iterable[str],
        configuration: ExtenderConfiguration | None,
    ) -> Self:
        """Make a spec with the log settings of this process."""
        if configuration is not None:
            # Only this process may have the classes of other plugins' arguments.
            configuration = configuration.with_resolved(())
        return cls(plugin, args, frozenset(points), configuration, logs.current())

    def packed(self) -> bytes:
        """Pickle the spec for a process that finds the same modules."""
        return pickle.dumps(self)

    @classmethod
    def unpacked(cls, packed: bytes) -> Any:
        """Unpickle a spec, which imports the plugin's module."""
        return pickle.loads(packed)  # noqa: S301  our parent wrote it
