"""Finds methods of a plugin whose names are probably mistyped names of the framework's methods."""

import difflib
import inspect
from collections.abc import Iterator
from typing import Any, Final

from kubextend.framework.plugin import METHODS_OF_POINT

__all__ = ["misspelt_methods"]

# How alike two names are, from 0 to 1, if one is a mistyped form of the other: fitler, filter.
_ALIKE: Final = 0.8
_OTHER_METHODS: Final = ("normalize_score", "start", "stop", "unblock", "admission")


def misspelt_methods(plugin: Any) -> Iterator[str]:
    """Yield a sentence for each method of a plugin that is probably a mistyped one.

    Args:
        plugin: a plugin or its class.
    """
    known = {name for names in METHODS_OF_POINT.values() for name in names}
    missing = [name for name in (*sorted(known), *_OTHER_METHODS) if not hasattr(plugin, name)]
    letters = {"".join(sorted(name)): name for name in known}
    owner = plugin if isinstance(plugin, type) else type(plugin)
    ours = {*known, *_OTHER_METHODS}
    for name in dir(owner):
        if name.startswith("_") or name in ours or not inspect.isroutine(getattr(owner, name)):
            continue
        close = difflib.get_close_matches(name.lower(), missing, 1, _ALIKE)
        # Beside the right method, a helper may have a similar name, but hardly the same letters.
        twisted = letters.get("".join(sorted(name)))
        if close:
            yield f"kubextend never calls {name}: rename it to {close[0]}, or to something else"
        elif twisted is not None:
            yield f"kubextend calls {twisted} and never {name}: take one out, or rename it"
