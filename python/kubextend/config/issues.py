"""Collects the issues and notes of a configuration, and says pydantic's errors in own words."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from kubextend.errors import ConfigError, Issue

__all__ = ["Findings", "issues_of", "suggestion"]

_Location: TypeAlias = tuple[str | int, ...]

# A name that belongs in more places, such as ``name``, is no hint.
_MOST_HOMES: Final = 2
# By the first word of pydantic's errors about a type, such as ``int_type`` and ``int_parsing``.
_EXPECTED: Final = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "string": "a string",
    "tuple": "a list",
}
_JSON_NAMES: Final = (
    (bool, "true or false"),
    (str, "a string"),
    (int | float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)
_SENTENCES: Final = {
    "missing": "Required value",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
}


class Findings:
    """The issues and notes that were found in one configuration.

    Attributes:
        issues: the errors, because of which the configuration cannot run.
        notes: one sentence for each field that is valid but has no effect, or deserves a warning.
    """

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.notes: list[str] = []

    def complain(self, path: str, message: str, value: object = None, hint: str = "") -> None:
        """Add an issue about a path in the configuration, with the wrong value and a hint."""
        self.issues.append(Issue(path, message, value, hint))

    def note(self, path: str, message: str) -> None:
        """Add a note, which is no error, about a path in the configuration."""
        self.notes.append(f"{path}: {message}")

    def refuse_any(self, tree: Mapping[str, JsonValue]) -> None:
        """Check that there is no issue.

        Raises: ConfigError: there is one; the error has all, in the order of the tree's sections.
        """
        sections = {name: place for place, name in enumerate(tree)}

        def section(issue: Issue) -> int:
            return sections.get(re.split(r"[.\[]", issue.path, maxsplit=1)[0], len(sections))

        if self.issues:
            raise ConfigError(sorted(self.issues, key=section))


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


def issues_of(error: ValidationError, model: type[BaseModel], under: str = "") -> list[Issue]:
    """Convert a pydantic ValidationError to issues, one for each wrong value.

    Args:
        error: the error of ``model_validate_json``.
        model: the pydantic model that was validated.
        under: the path of the validated object in the file.
    """
    return [_issue(details, model, under) for details in error.errors(include_url=False)]


def _issue(details: ErrorDetails, model: type[BaseModel], under: str) -> Issue:
    kind, location, found = details["type"], details["loc"], details["input"]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    path = f"{under}{''.join(parts)}".removeprefix(".")
    if kind == "missing":
        found = None
    hint = ""
    if kind == "extra_forbidden":
        hint = _place(model, location, at_the_top=not under)
    elif kind in {"model_type", "model_attributes_type"}:
        hint = _form(_model_at(model, location), found)
        if found is True and _is_switch(_model_at(model, location[:-1]), location[-1]):
            hint = f"write {{}} for the defaults; {hint}"
    elif kind in {"list_type", "tuple_type"}:
        hint = f"write [{found}]" if isinstance(found, str) else "begin each entry with -"
    return Issue(path, _sentence(details), found, hint)


def _sentence(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return f'unknown field "{details["loc"][-1]}"'
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**context)
    expected = _EXPECTED.get(kind.partition("_")[0])
    if expected and kind.endswith(("_type", "_parsing", "_from_float")):
        names = (name for kind, name in _JSON_NAMES if isinstance(details["input"], kind))
        return f"expected {expected}, found {next(names, 'nothing')}"
    return re.sub(r"^(?:Value error|Assertion failed), ", "", details["msg"])


def _place(model: type[BaseModel], location: _Location, *, at_the_top: bool) -> str:
    """Return a hint for an unknown field: where it belongs, or which fields are known there."""
    wrong = str(location[-1])
    homes = [*_homes(model, wrong)] if at_the_top else []
    if 0 < len(homes) <= _MOST_HOMES:
        return f"{wrong} belongs {' or '.join(homes)}"
    return suggestion(wrong, _field_names(_model_at(model, location[:-1])), "fields")


def _form(model: type[BaseModel] | None, found: object) -> str:
    """Return a hint for a value that should be an object: the object that is meant, or fields."""
    fields = sorted(_field_names(model))
    if isinstance(found, str) and "name" in fields:
        return f"write {{name: {found}}}"
    return f"known fields: {', '.join(fields)}" if fields else ""


def _is_switch(model: type[BaseModel] | None, field: int | str) -> bool:
    """Return whether an object at a field, even an empty one, switches something on."""
    fields = model.model_fields.items() if model else ()
    return any(field == (info.alias or name) and info.default is None for name, info in fields)


def _field_names(model: type[BaseModel] | None) -> list[str]:
    fields = model.model_fields.items() if model else ()
    return [info.alias or name for name, info in fields]


def _model_at(model: type[BaseModel], location: _Location) -> type[BaseModel] | None:
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
