"""The description of a plugin that the parent sends to a child process, which makes the plugin."""

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
    """A plugin with its arguments and settings, which can be pickled for a child process.

    Attributes:
        plugin: the registered plugin; the child imports its class by module and name.
        args: the checked arguments; None if the plugin takes none.
        points: the plugin's extension points in the profile, as spelled in a configuration.
        configuration: the configuration for the plugin's Handle, without resolved profiles.
        log: level and format of the child's log lines.
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
        """Make a spec for a plugin, with the log settings of this process."""
        if configuration is not None:
            # Only this process may have the classes of other plugins' arguments.
            configuration = configuration.with_resolved(())
        return cls(plugin, args, frozenset(points), configuration, logs.current())

    def packed(self) -> bytes:
        """Return the spec pickled, for a process that can import the same modules."""
        return pickle.dumps(self)

    @classmethod
    def unpacked(cls, packed: bytes) -> Any:
        """Unpickle a spec; this imports the plugin's module."""
        return pickle.loads(packed)  # noqa: S301  our parent wrote it
