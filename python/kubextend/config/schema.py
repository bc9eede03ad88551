"""The JSON Schema of an ExtenderConfiguration, for editors and for the reference in the docs.

The schema accepts every file that ``load`` accepts. ``load`` refuses more: a schema cannot check
fields together, whether plugins exist, or whether files are readable.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from kubextend.config import model
from kubextend.config.duration import Duration
from kubextend.config.model import File
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["SCHEMA_ID", "json_schema"]

SCHEMA_ID: Final = "https://kubextend.dev/schemas/v1alpha1/extenderconfiguration.json"

_Schema: TypeAlias = dict[str, Any]

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

# JSON types that pydantic converts to the key's type in a model that is not strict.
_LAX: Final[Mapping[str, list[str]]] = {
    "boolean": ["boolean", "integer", "number", "string"],
    "integer": ["integer", "number", "string"],
    "number": ["number", "string"],
}
_OWN: Final = {"description", "title", "default"}
# The model gives these fields defaults, so that ``load`` can name every missing one at once.
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "File": ("apiVersion", "kind", "profiles"),
    "ManagedResource": ("name",),
    "Plugin": ("name",),
    "PluginConfig": ("name",),
}


def json_schema(plugins: Mapping[str, RegisteredPlugin]) -> _Schema:
    """Return the JSON Schema of an ExtenderConfiguration, draft 2020-12, as a JSON object.

    Args:
        plugins: the plugins by name whose arguments the schema describes.
    """
    generated = File.model_json_schema()
    sections: dict[str, _Schema] = generated.pop("$defs")
    definitions = {name: _object(name, each) for name, each in sections.items()}
    arguments = [
        _arguments(name, plugin.args_model, definitions)
        for name, plugin in plugins.items()
        if plugin.args_model is not None
    ]
    definitions["PluginConfig"] |= {"allOf": arguments}
    whole = {"title": model.KIND, **_object("File", generated), "$defs": definitions}
    return {"$schema": _DRAFT, "$id": SCHEMA_ID, **whole}


def _arguments(name: str, args_model: type[BaseModel], definitions: dict[str, _Schema]) -> _Schema:
    """Return the schema that applies to the pluginConfig entry of one plugin.

    The function adds the schemas of models inside of the arguments to ``definitions``.
    """
    generated = args_model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    inner: dict[str, _Schema] = generated.pop("$defs", {})
    definitions.update({f"{name}.{key}": _lax(each) for key, each in inner.items()})
    arguments = {**_lax(generated), "type": ["object", "null"]}
    return {
        "if": {"properties": {"name": {"const": name}}},
        "then": {"properties": {"args": arguments}},
    }


def _lax(schema: Any) -> Any:
    """Return a JSON Schema extended to accept what pydantic converts, such as "5" for 5."""
    if isinstance(schema, list):
        return [_lax(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # A field may be called type or title as well: its value is an object.
    lax = {
        key: _lax(each) for key, each in schema.items() if key != "title" or isinstance(each, dict)
    }
    kind = lax.get("type")
    return lax | {"type": _LAX[kind]} if isinstance(kind, str) and kind in _LAX else lax


def _object(name: str, generated: _Schema) -> _Schema:
    """Return the JSON Schema of a model of the configuration, from the one that pydantic generated.

    The result has descriptions, lacks the titles of pydantic, and lets optional fields be null.
    """
    if "properties" not in generated:
        return generated
    section: type[BaseModel] = getattr(model, name)
    required = _REQUIRED.get(name, ())
    infos = {info.alias or name: info for name, info in section.model_fields.items()}
    properties: dict[str, _Schema] = {}
    for field, given in generated["properties"].items():
        value = {key: given[key] for key in given if key not in _OWN}
        text = infos[field].description or inspect.getdoc(infos[field].annotation)
        described = {"description": " ".join(str(text).split())}
        least = {"string": "minLength", "array": "minItems"}.get(value.get("type", ""), "")
        if field not in required:
            value = _optional(value) | _default(given)
        elif "const" not in value:
            value |= {least: 1}
        properties[field] = described | value
    return {
        "description": inspect.getdoc(section),
        "type": "object",
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
        "properties": properties,
    }


def _default(generated: _Schema) -> _Schema:
    """Return ``{"default": value}`` for a field's schema; empty for an object or no default."""
    default = generated.get("default", {})
    if isinstance(default, dict):
        return {"default": str(Duration(**default))} if "nanoseconds" in default else {}
    return {"default": default}


def _optional(value: _Schema) -> _Schema:
    """Return the JSON Schema of a field that may be absent, extended to accept null."""
    if "anyOf" in value:
        return value
    if isinstance(value.get("type"), str) and "enum" not in value:
        return value | {"type": [value["type"], "null"]}
    return {"anyOf": [value, {"type": "null"}]}
