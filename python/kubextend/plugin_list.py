"""Lists all plugins with their sources, extension points and arguments.

The module imports the plugins that installed packages announce by entry points, and lists a plugin
that cannot be imported with the reason. The module constructs no plugin.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.plugin import METHODS_OF_POINT

__all__ = ["Arg", "ListedPlugin", "listed"]

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a plugin: a field of its Args, or of a model inside of its Args.

    Attributes:
        name: the path of the field in ``pluginConfig[].args``, as ``rules[].score`` for the field
            ``score`` of each object in the list ``rules``.
        type: the JSON type in words, such as "list of string".
        default: the default value as JSON text; None if the field is required.
        description: the description of the field in the plugin's Args; may be empty.
    """

    name: str
    type: str
    default: str | None
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether a configuration must give the argument."""
        return self.default is None


@dataclass(frozen=True, slots=True)
class ListedPlugin:
    """The description of a plugin that a configuration may name.

    Attributes:
        name: the name of the plugin in a configuration.
        source: where the plugin comes from, such as its package; commas separate several sources.
        extension_points: the extension points, in the order in which a pod passes them.
        args: the arguments of the plugin.
        error: why the plugin cannot be used; "" if it can.
    """

    name: str
    source: str
    extension_points: tuple[str, ...] = ()
    args: tuple[Arg, ...] = ()
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the plugin's description as a JSON object."""
        args = [
            asdict(arg) | {"required": arg.required, "default": json.loads(arg.default or "null")}
            for arg in self.args
        ]
        return {
            "name": self.name,
            "source": self.source,
            "extensionPoints": list(self.extension_points),
            "args": args,
            "error": self.error,
        }


def listed(known: KnownPlugins) -> Iterator[ListedPlugin]:
    """Import every plugin of a mapping; yield their descriptions in the order of the mapping."""
    for name in known:
        source = ", ".join(dict.fromkeys(known.sources(name)))
        try:
            plugin = known[name]
        except PluginUnavailableError as error:
            yield ListedPlugin(name, source, error=str(error))
            continue
        points = tuple(point for point in METHODS_OF_POINT if point in plugin.extension_points)
        args = () if plugin.args_model is None else tuple(_args(plugin.args_model))
        yield ListedPlugin(name, source, points, args)


def _args(
    model: type[BaseModel], prefix: str = "", above: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[Arg]:
    for field_name, field in model.model_fields.items():
        name = prefix + (field.alias or field_name)
        yield Arg(name, _type(field.annotation), _default(field), field.description or "")
        for inner, mark in _models(field.annotation):
            if inner not in above:
                yield from _args(inner, f"{name}{mark}.", above | {model, inner})


def _default(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return None
    return json.dumps(to_jsonable_python(value, by_alias=True, fallback=str))


def _type(annotation: object) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(argument) for argument in arguments))
    if origin is Literal:
        return " or ".join(json.dumps(argument) for argument in arguments)
    if origin in (list, tuple, set, frozenset):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if isinstance(annotation, type) and annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    return _schema_type(annotation)


def _schema_type(annotation: object) -> str:
    """Return the type of a field in words, from the JSON schema of its Python type."""
    known: Any = annotation
    schema = TypeAdapter(known).json_schema()
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    found = schema.get("format") or schema.get("type") or "any"
    return str(found)


def _models(annotation: object) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the pydantic models in a field's type, each with a suffix for the field's name.

    The suffix is ``[]`` for a list of the model, ``{}`` for a dict, and "" for the model itself.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
    mark = "[]" if get_origin(annotation) in (list, tuple, set, frozenset) else ""
    mark = "{}" if get_origin(annotation) is dict else mark
    for argument in get_args(annotation):
        for model, inner in _models(argument):
            yield model, mark + inner
