"""Compares the admission policies of a configuration with those that a cluster has."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from pydantic import JsonValue

__all__ = ["Difference", "Found", "differences"]


class Found(Enum):
    """How an object of a cluster differs from the written one; the value says so in words."""

    MISSING = "is not installed"
    CHANGED = "differs at"
    UNKNOWN = "is installed, and the configuration has no such rule"


class Difference(NamedTuple):
    """An object that the cluster has in another way than it was written.

    Attributes:
        name: kind and name of the object, as kubectl takes them: ``Kind/name``.
        found: how the object differs.
        path: the field that differs; empty if the object as a whole does.
    """

    name: str
    found: Found
    path: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.found.value} {self.path}".rstrip()


def differences(
    written: Iterable[Mapping[str, JsonValue]], installed: Iterable[Mapping[str, JsonValue]]
) -> Iterator[Difference]:
    """Yield each object that is missing, different, or installed and not written.

    Args:
        written: the objects that belong into the cluster.
        installed: the objects with kubextend's label that the cluster has.
    """
    found = {_name(each): each for each in installed}
    for each in written:
        name = _name(each)
        there = found.pop(name, None)
        if there is None:
            yield Difference(name, Found.MISSING)
        else:
            for path in _unequal(each.get("spec"), there.get("spec"), "spec"):
                yield Difference(name, Found.CHANGED, path)
    for name in found:
        yield Difference(name, Found.UNKNOWN)


def _name(manifest: Mapping[str, JsonValue]) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{manifest.get('kind')}/{name}"


def _unequal(one: JsonValue, other: JsonValue, path: str) -> Iterator[str]:
    """Yield the path of each field in which two JSON objects differ; lists count as one value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _unequal(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other:
        yield path
