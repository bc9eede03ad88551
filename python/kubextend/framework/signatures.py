"""Checks whether the methods of a plugin class take the arguments that the framework gives them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubextend.framework.plugin import METHODS_OF_POINT

__all__ = ["WrongMethod", "wrong_methods"]

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
    """A method of a plugin class that the framework cannot call.

    Attributes:
        what: a sentence that says what is wrong, beginning with the method's name.
        right: the right ``def`` line of the method.
        is_async: True if the method is a coroutine function at an extension point that must be
            synchronous; False if its parameters are wrong.
    """

    what: str
    right: str
    is_async: bool


def wrong_methods(plugin_class: type[Any]) -> Iterator[WrongMethod]:
    """Yield each method of the framework in a plugin class that the framework cannot call."""
    for point, methods in _METHODS.items():
        for name in methods:
            method = getattr(plugin_class, name, None)
            if method is None:
                continue
            arguments = _ARGUMENTS.get(name, _OTHERS_ARGUMENTS)
            right = f"def {name}({', '.join(filter(None, ('self', arguments)))})"
            if not callable(method) or not _takes(arguments, plugin_class, name, method):
                lacks = f"does not take ({arguments})" if arguments else "takes what nobody gives"
                what = f"{name}{_signature(method)} {lacks}"
                yield WrongMethod(what, right, is_async=False)
            if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
                what = f"{name} has a yield, so a call of it runs nothing: take the yield out"
                yield WrongMethod(what, right, is_async=False)
            if point in _SYNCHRONOUS and inspect.iscoroutinefunction(method):
                what = f"{name} is async, which only the binding cycle awaits"
                yield WrongMethod(what, right, is_async=True)


def _takes(arguments: str, owner: type[Any], name: str, method: Callable[..., Any]) -> bool:
    """Return whether the method takes as many positional arguments as ``arguments`` names.

    True for a method without a signature, such as one of an extension module.

    Args:
        arguments: the arguments' names, separated by commas.
        owner: the plugin class.
        name: the name of the method.
        method: the method, as an attribute of the class.
    """
    try:
        signature = inspect.signature(method)
    except ValueError:
        return True
    count = arguments.count(",") + 1 if arguments else 0
    bound = isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)
    try:
        signature.bind(*range(count if bound else count + 1))
    except TypeError:
        return False
    return True


def _signature(method: object) -> str:
    try:
        return str(inspect.signature(method)) if callable(method) else ""
    except ValueError:
        return ""
