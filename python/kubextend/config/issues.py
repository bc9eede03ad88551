"""Collects the issues and notes of a configuration, and converts pydantic's errors to issues."""

import difflib
import re
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kubextend.errors import Issue

__all__ = ["Findings", "Location", "issues_of", "path_of", "suggestion"]

Location: TypeAlias = tuple[str | int, ...]

# A name that belongs in more places, such as ``name``, is no hint.
_MOST_HOMES: Final = 2
# By the first word of pydantic's errors about a type, such as ``int_type`` and ``int_parsing``.
_EXPECTED = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "string": "a string",
    "tuple": "a list",
}
_JSON_NAMES = (
    (bool, "true or false"),
    (str, "a string"),
    (int | float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)


class Findings:
    """The issues and notes that were found in one configuration.

    Attributes:
        issues: the errors, because of which the configuration cannot run.
        notes: one sentence for each field that is valid but has no effect, or deserves a warning.
    """

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.notes: list[str] = []

    def complain(self, at: Location, message: str, value: object = None, hint: str = "") -> None:
        """Add an issue about a location in the configuration, with the wrong value and a hint."""
        self.issues.append(Issue(path_of(at), message, value, hint))

    def note(self, at: Location, message: str) -> None:
        """Add a note, which is no error, about a location in the configuration file."""
        self.notes.append(f"{path_of(at)}: {message}")


def path_of(location: Location) -> str:
    """Return a location in a configuration file as text, such as ``profiles[0].plugins.filter``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def suggestion(wrong: str, known: Collection[str], what: str) -> str:
    """Return a hint for a misspelled name: all known names, and "did you mean X?" if X is near.

    Args:
        wrong: the name in the file.
        known: the names that are allowed there.
        what: the plural noun for the names, such as "fields".
    """
    spelled = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(wrong.casefold(), spelled, n=1)
    listed = f"known {what}: {', '.join(sorted(known)) or 'none'}"
    return f"did you mean {spelled[near[0]]}? {listed}" if near else listed


def issues_of(error: ValidationError, model: type[BaseModel], under: Location = ()) -> list[Issue]:
    """Convert a pydantic ValidationError to issues, one for each wrong value.

    Args:
        error: the error of ``model_validate_json``.
        model: the pydantic model that was validated.
        under: the location of the validated object in the file.
    """
    return [_issue(details, model, under) for details in error.errors(include_url=False)]


def _issue(details: ErrorDetails, model: type[BaseModel], under: Location) -> Issue:
    location = details["loc"]
    path = path_of(under + location)
    if details["type"] == "extra_forbidden":
        wrong = str(location[-1])
        homes = [] if under else [*_homes(model, wrong)]
        hint = f"{wrong} belongs {' or '.join(homes)}"
        if not 0 < len(homes) <= _MOST_HOMES:
            known = _field_names(_model_at(model, location[:-1]))
            hint = suggestion(wrong, known, "fields")
        return Issue(path, f'unknown field "{wrong}"', details["input"], hint)
    if details["type"] == "missing":
        return Issue(path, "Required value")
    hint = ""
    if details["type"] in {"model_type", "model_attributes_type"}:
        hint = _form_of(_model_at(model, location), details["input"])
        if details["input"] is True and _is_switch(_model_at(model, location[:-1]), location[-1]):
            hint = f"write {{}} for the defaults; {hint}"
    elif details["type"] in {"list_type", "tuple_type"}:
        found = details["input"]
        hint = f"write [{found}]" if isinstance(found, str) else "begin each entry with -"
    return Issue(path, _sentence(details), details["input"], hint)


def _form_of(model: type[BaseModel] | None, found: object) -> str:
    """Return a hint for a value that should be an object: the object that is meant, or fields."""
    fields = sorted(_field_names(model))
    if isinstance(found, str) and "name" in fields:
        return f"write {{name: {found}}}"
    return f"known fields: {', '.join(fields)}" if fields else ""


def _is_switch(model: type[BaseModel] | None, field: int | str) -> bool:
    """Return whether an object at a field, even an empty one, switches something on."""
    fields = model.model_fields.items() if model else ()
    return any(field == (info.alias or name) and info.default is None for name, info in fields)


def _sentence(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    expected = _EXPECTED.get(kind.partition("_")[0])
    if expected and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"expected {expected}, found {_json_name(details['input'])}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    if kind == "string_too_short":
        return "must not be empty"
    return re.sub(r"^(?:Value error|Assertion failed), ", "", details["msg"])


def _json_name(value: object) -> str:
    return next((name for kind, name in _JSON_NAMES if isinstance(value, kind)), "nothing")


def _field_names(model: type[BaseModel] | None) -> list[str]:
    fields = model.model_fields.items() if model else ()
    return [info.alias or name for name, info in fields]


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Return the pydantic class of the object at a location below ``model``, or None."""
    found: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int) or found is None:
            continue
        fields = {info.alias or name: info for name, info in found.model_fields.items()}
        found = next(_models_in(fields[part].annotation), None) if part in fields else None
    return found


def _homes(model: type[BaseModel], wrong: str, at: str = "") -> Iterator[str]:
    """Yield where in a document a field of this name belongs, such as ``in profiles[]``."""
    for name, info in model.model_fields.items():
        field = info.alias or name
        if field == wrong:
            yield f"in {at}" if at else "at the top of the file"
        listed = "[]" if get_origin(info.annotation) is tuple else ""
        for below in _models_in(info.annotation):
            yield from _homes(below, wrong, f"{at}.{field}{listed}".removeprefix("."))


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
