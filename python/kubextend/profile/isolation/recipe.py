"""What a child must know to make its plugin."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel

from kubextend import logs
from kubextend.config import ExtenderConfiguration
from kubextend.framework.registry import RegisteredPlugin

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A plugin with its arguments, as one process tells another.

    Attributes:
        plugin: its class is found by its name in its module.
        args: checked.
        points: where the profile has it, as a configuration spells them.
        configuration: for the plugin's Handle, without what other plugins' arguments came to.
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
        """With the log of this process."""
        if configuration is not None:
            # Arguments of other plugins may be of classes that only this process has.
            configuration = configuration.with_resolved(())
        return cls(plugin, args, frozenset(points), configuration, logs.current())

    def packed(self) -> bytes:
        """For a process that finds the same modules; pickle is for what we start ourselves."""
        return pickle.dumps(self)

    @classmethod
    def unpacked(cls, packed: bytes) -> Any:
        """The recipe again; the plugin's module is imported by that."""
        return pickle.loads(packed)  # noqa: S301  our parent wrote it
