"""Imports plugin classes by references such as ``package.module:Class``, and checks the classes."""

import importlib
import importlib.util
import inspect
import re
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from pydantic import BaseModel

from kubextend.errors import KubextendError
from kubextend.framework.plugin import METHODS_OF_POINT
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.framework.signatures import missing_half, wrong_methods
from kubextend.framework.spelling import misspelt_methods

__all__ = [
    "PluginUnavailableError",
    "check_plugin",
    "class_at",
    "in_own_code",
]

_REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_EXAMPLE = "such as my_package.my_module:MyPlugin"


class PluginUnavailableError(KubextendError):
    """A plugin that a configuration or package names cannot be imported or used.

    Attributes:
        message: the reason, in one line.
        hint: what would help; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message} ({hint})" if hint else message)


def class_at(reference: str) -> type[Any]:
    """Import a class by its reference, and check that the class is a plugin.

    Args:
        reference: the class, as ``package.module:Class``.

    Raises: PluginUnavailableError: the class does not exist, or is no plugin.
    """
    words = _REFERENCE.fullmatch(reference)
    if words is None:
        message = "expected package.module:Class"
        raise PluginUnavailableError(message, _EXAMPLE)
    module = _module(words["module"])
    found = getattr(module, words["name"], None)
    if found is None:
        _refuse_missing(module, words["name"])
    _check_plugin(reference, found)
    plugin_class: type[Any] = found
    return plugin_class


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            message = f'there is no module "{error.name}"'
            hint = "install its package beside kubextend, or put its folder on PYTHONPATH"
            if name.endswith(".py"):
                hint = f"name the module and not its file: {name.removesuffix('.py')}"
            raise PluginUnavailableError(message, hint) from error
        raise _failed(name, error) from error
    # SystemExit: a script that nobody meant to import must not end the server.
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(module: str, error: BaseException) -> PluginUnavailableError:
    what = " ".join(str(error).split())
    where = in_own_code(module, error)
    return PluginUnavailableError(
        f"importing {module} failed: {type(error).__name__}: {what}{where}"
    )


def in_own_code(module: str, error: BaseException) -> str:
    """Return where in a plugin's own code an error was raised, as in `` (package/plugin.py:7)``.

    The place is the innermost one in the module, or in the package that the module is in.

    Args:
        module: the module of the plugin's class.
        error: what the code raised.

    Returns: a text that begins with a space; "" if the error has no place in that code.
    """
    package = module.rpartition(".")[0] or module
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_globals.get("__name__", "")
        if name == package or name.startswith(f"{package}."):
            file = Path(frame.f_code.co_filename)
            depth = name.count(".") + 1 + (file.stem == "__init__")
            place = f" ({'/'.join(file.parts[-depth:])}:{line})"
    return place


def _refuse_missing(module: ModuleType, name: str) -> NoReturn:
    classes = [
        other
        for other, value in vars(module).items()
        if isinstance(value, type) and getattr(value, "name", None) and _extends(value)
    ]
    near = get_close_matches(name, classes, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += f"plugins there: {', '.join(sorted(classes)) or 'none'}"
    message = f"{module.__name__} has no {name}"
    raise PluginUnavailableError(message, hint)


def _check_plugin(reference: str, found: object) -> None:
    if not inspect.isclass(found):
        message = f"{reference} is no class but {type(found).__name__}"
        raise PluginUnavailableError(message, "name the class; kubextend makes the plugin itself")
    check_plugin(reference, found)


def _check_form(what: str, plugin: Any) -> None:
    """Check that a plugin, or its class, has a name and Args of pydantic.

    Raises: PluginUnavailableError: the plugin has none.
    """
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        message = f"{what} has no name"
        named = plugin if inspect.isclass(plugin) else type(plugin)
        hint = f'give the class a name = "{named.__name__}"'
        raise PluginUnavailableError(message, hint)
    model = getattr(plugin, "Args", None)
    if model is not None and not (inspect.isclass(model) and issubclass(model, BaseModel)):
        message = f"{what}: its Args are no pydantic model"
        raise PluginUnavailableError(message, "class Args(pydantic.BaseModel)")


def check_plugin(what: str, plugin: Any) -> None:
    """Check that a plugin has a form that kubextend knows, and methods that kubextend can call.

    Args:
        what: the beginning of the error message, such as the class's reference.
        plugin: the plugin or its class.

    Raises: PluginUnavailableError: the plugin has no name, or Args that are no pydantic model; it
        extends no extension point; a method nearly has the name of a framework's method, such as
        ``prefilter``; a method lacks another that belongs to it, takes wrong arguments, or is async
        at an extension point that must be synchronous.
    """
    _check_form(what, plugin)
    known = [*(method for each in METHODS_OF_POINT.values() for method in each), "normalize_score"]
    meant = {_plain(method): method for method in known}
    for name in dir(plugin):
        method = meant.get(_plain(name), name)
        # A name such as ``_score`` is one that the author keeps private.
        if method != name and not name.startswith("_") and not hasattr(plugin, method):
            message = f"{what}: {name} is no method that is called"
            raise PluginUnavailableError(message, f"did you mean {method}?")
    if half := missing_half(plugin):
        message = f"{what}: {half}"
        raise PluginUnavailableError(message)
    for wrong in wrong_methods(plugin):
        message = f"{what}: {wrong.what}"
        raise PluginUnavailableError(message, wrong.right)
    if not _extends(plugin):
        known = [method for each in METHODS_OF_POINT.values() for method in each]
        hint = "; ".join(misspelt_methods(plugin)) or f"define one of: {', '.join(known)}"
        message = f"{what} extends nothing"
        raise PluginUnavailableError(message, hint)


def _plain(method: str) -> str:
    return method.replace("_", "").lower().replace("normalise", "normalize")


def _extends(plugin: Any) -> bool:
    return bool(RegisteredPlugin("", plugin).extension_points)
