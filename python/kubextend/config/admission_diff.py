"""Compares the admission policies of a configuration with those that a cluster has."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

__all__ = ["differences"]


def differences(
    written: Iterable[Mapping[str, JsonValue]], installed: Iterable[Mapping[str, JsonValue]]
) -> Iterator[str]:
    """Yield a line for each object that is missing, different, or installed and not written.

    Args:
        written: the objects that belong into the cluster.
        installed: the objects with kubextend's label that the cluster has.
    """
    found = {_name(each): each for each in installed}
    for each in written:
        name = _name(each)
        there = found.pop(name, None)
        if there is None:
            yield f"{name} is not installed"
        else:
            for path in _unequal(each.get("spec"), there.get("spec"), "spec"):
                yield f"{name} differs at {path}"
    for name in found:
        yield f"{name} is installed, and the configuration has no such rule"


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
