"""Checks whether a plugin has the methods that belong together, and their right arguments."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubextend.framework.plugin import METHODS_OF_POINT

__all__ = ["WrongMethod", "missing_half", "wrong_methods"]

_ARGUMENTS: Final[Mapping[str, str]] = {
    "pre_enqueue": "pod",
    "less": "a, b",
    "filter": "state, pod, node",
    "post_filter": "state, pod, rejections",
    "score": "state, pod, node",
    "normalize_score": "state, pod, scores",
    "reserve": "state, pod, node_name",
    "unreserve": "state, pod, node_name",
    "permit": "state, pod, node_name",
    "pre_bind": "state, pod, node_name",
    "bind": "state, pod, node_name",
    "post_bind": "state, pod, node_name",
    "start": "",
    "stop": "",
}
_OTHERS_ARGUMENTS: Final = "state, pod, nodes"
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    **METHODS_OF_POINT,
    "score": (*METHODS_OF_POINT["score"], "normalize_score"),
    "start and stop": ("start", "stop"),
}
_SYNCHRONOUS: Final = (
    *("preEnqueue", "queueSort"),
    *("preFilter", "filter", "postFilter", "preScore", "score"),
)


class WrongMethod(NamedTuple):
    """A method of a plugin that the framework cannot call.

    Attributes:
        what: a sentence that says what is wrong, beginning with the method's name.
        right: the right ``def`` line of the method.
    """

    what: str
    right: str


def missing_half(plugin: Any) -> str:
    """Return a sentence about a method that is of no use without another; "" if there is none.

    Args:
        plugin: a plugin or its class.
    """

    def has(*names: str) -> bool:
        return any(inspect.getattr_static(plugin, name, None) is not None for name in names)

    if has("reserve") != has("unreserve"):
        return "one of reserve and unreserve is missing: write both, if need be with an empty body"
    if has("normalize_score") and not has(*METHODS_OF_POINT["score"]):
        return "normalize_score without score is never called: write score or score_nodes too"
    return ""


def wrong_methods(plugin: Any) -> Iterator[WrongMethod]:
    """Yield each method of the framework in a plugin that the framework cannot call.

    Args:
        plugin: a plugin or its class.
    """
    for point, methods in _METHODS.items():
        for name in methods:
            static = inspect.getattr_static(plugin, name, None)
            # A property may do anything.
            method = static if isinstance(static, property) else getattr(plugin, name, None)
            if method is None:
                continue
            arguments = _ARGUMENTS.get(name, _OTHERS_ARGUMENTS)
            right = f"def {name}({', '.join(filter(None, ('self', arguments)))})"
            bound = not isinstance(plugin, type) or isinstance(static, staticmethod | classmethod)
            count = len(arguments.split()) + (not bound)
            signature = _signature(method)
            if not callable(method) or (signature and not _takes(signature, count)):
                lacks = f"does not take ({arguments})" if arguments else "takes what nobody gives"
                what = f"{name}{signature or ''} {lacks}"
                yield WrongMethod(what, right)
            if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
                what = f"{name} has a yield, so a call of it runs nothing: take the yield out"
                yield WrongMethod(what, right)
            if point in _SYNCHRONOUS and inspect.iscoroutinefunction(method):
                what = f"{name} is async, which only the binding cycle awaits"
                yield WrongMethod(what, right)


def _signature(method: object) -> inspect.Signature | None:
    """Return the signature of a method; None: it has none, such as one of an extension module."""
    try:
        return inspect.signature(method) if callable(method) else None
    except ValueError:
        return None


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Return whether a method takes this number of positional arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
