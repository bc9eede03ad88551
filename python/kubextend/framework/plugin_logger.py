"""The logger of one plugin instance, whose lines name the plugin and the profile."""

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from kubextend.framework.informer import Owner

__all__ = ["PluginLogger"]

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class PluginLogger(_Adapter):
    """Writes log lines with the fields ``plugin`` and ``profile``; any thread may use it.

    The logger's name is ``kubextend.plugin.`` and the name of the plugin.

    Args:
        owner: the plugin.
    """

    def __init__(self, owner: Owner) -> None:
        fields = {"plugin": owner.plugin, "profile": owner.profile}
        known = {name: value for name, value in fields.items() if value}
        super().__init__(logging.getLogger(f"kubextend.plugin.{owner.plugin}"), known)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields ``plugin`` and ``profile`` to those that the caller gives as ``extra``."""
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}
