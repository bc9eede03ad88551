"""Reads one YAML document as a JSON object, as kube-scheduler reads its own configuration.

The reader is stricter than a YAML library: the reader refuses, with the line, a key that is given
twice, a key that is no text, a tag without a JSON type, and aliases that expand to too many values.
"""

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import yaml
from pydantic import JsonValue

from kubextend.errors import ConfigError, Issue

__all__ = ["read_document", "read_file"]

_STDIN: Final = "-"

_MAX_BYTES = 1 << 20
# The most values of a document with all aliases expanded: ten nested tenfold aliases exceed it.
_MAX_NODES = 100_000
_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = "nested too deeply"
_NO_TABS = "YAML indents with spaces, and not with tabs"

_Scalars: TypeAlias = dict[str, Callable[[str], JsonValue]]


class _Loader(yaml.SafeLoader):
    """Parses YAML as PyYAML's safe loader, but unquoted values as kube-scheduler's reader does.

    An unquoted date is text. An unquoted 12:30 is text too, and not the sexagesimal number 750.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's own declaration


def _plain(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + tag, re.compile(pattern), list(first))


_plain("bool", r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$",
       "yYnNtTfFoO")  # fmt: skip
_plain("int", r"^[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+)$", "-+0123456789")
_plain("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")
_Loader.add_implicit_resolver(_TAG + "merge", re.compile(r"^<<$"), ["<"])
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), [*"~nN", ""])


def read_file(path: str | Path) -> tuple[bytes, str]:
    """Read a configuration file, and return its bytes and its name for messages.

    At most 1 MiB and one byte are read, so that ``read_document`` refuses a longer file.

    Args:
        path: the path of the file; ``-`` for standard input.

    Raises: ConfigError: the file cannot be read.
    """
    try:
        if str(path) == _STDIN:
            return sys.stdin.buffer.read(_MAX_BYTES + 1), "standard input"
        with Path(path).open("rb") as file:
            return file.read(_MAX_BYTES + 1), str(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError([Issue(str(path), f"cannot be read: {reason}")]) from error


def read_document(data: bytes, source: str) -> dict[str, JsonValue]:
    """Parse one YAML document, and return it as a JSON object.

    Args:
        data: the bytes of the file: YAML or JSON in UTF-8, up to 1 MiB.
        source: the name of the file, for messages.

    Raises: ConfigError: the document is no valid YAML object; the error has each issue with its
        line.
    """
    root = _compose(data, source)
    if _expanded_size(root, source) > _MAX_NODES:
        message = f"aliases expand to more than {_MAX_NODES} values"
        raise ConfigError([Issue(source, message, None, "write the values out")])
    reading = _Reading()
    tree = reading.value(root)
    if reading.issues:
        raise ConfigError([Issue(source, issue) for issue in dict.fromkeys(reading.issues)])
    if not isinstance(tree, dict):
        message = "expected an object with apiVersion and kind at the top"
        raise ConfigError([Issue(source, message, tree)])
    return tree


def _compose(data: bytes, source: str) -> yaml.Node:
    if len(data) > _MAX_BYTES:
        raise ConfigError([Issue(source, f"has more than {_MAX_BYTES} bytes")])
    try:
        root = yaml.compose(data.decode("utf-8-sig"), _Loader)
    except UnicodeDecodeError as error:
        raise ConfigError([Issue(source, f"byte {error.start}: not UTF-8")]) from error
    except yaml.MarkedYAMLError as error:
        hint = _NO_TABS if "'\\t'" in (error.problem or "") else ""
        raise ConfigError([Issue(source, _yaml_sentence(error), hint=hint)]) from error
    except yaml.YAMLError as error:
        raise ConfigError([Issue(source, " ".join(str(error).split()))]) from error
    except RecursionError as error:
        raise ConfigError([Issue(source, _TOO_DEEP)]) from error
    if root is None:
        hint = "write apiVersion, kind and profiles"
        raise ConfigError([Issue(source, "empty", hint=hint)])
    return root


def _yaml_sentence(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    began = error.context_mark
    if mark and began and began.line < mark.line and "block" in (error.context or ""):
        # The parser stops where a block cannot go on; a wrong indent may be where it begins.
        what += f", in the block that begins in line {began.line + 1}"
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what


def _expanded_size(root: yaml.Node, source: str) -> int:
    """Count the values of a YAML document, with the values of an alias at each use of the alias.

    Raises: ConfigError: an alias is inside its own anchor, or the values are nested too deeply.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in above:
            line = node.start_mark.line + 1
            raise ConfigError([Issue(source, f"line {line}: an alias inside its own anchor")])
        above.add(id(node))
        sizes[id(node)] = total = 1 + sum(size(part) for part in _parts(node))
        above.discard(id(node))
        return total

    try:
        return size(root)
    except RecursionError as error:
        raise ConfigError([Issue(source, _TOO_DEEP)]) from error


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


class _Reading:
    """Converts PyYAML's nodes to JSON values, and collects the issues of the document.

    Attributes:
        issues: one sentence for each issue, with its line.
    """

    def __init__(self) -> None:
        self.issues: list[str] = []

    def value(self, node: yaml.Node) -> JsonValue:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            self._need_tag(node, "seq")
            return [self.value(item) for item in node.value]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, JsonValue]:
        self._need_tag(node, "map")
        merged: dict[str, JsonValue] = {}
        own: dict[str, JsonValue] = {}
        lines: dict[str | None, int] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                merged = self._merged(value) | merged
                continue
            name = self._key(key)
            if name in lines:
                self._refuse(key, f"key {_shown(key)} is already set in line {lines[name]}")
            elif name is not None:
                lines[name] = key.start_mark.line + 1
                own[name] = self.value(value)
        return merged | own

    def _key(self, node: yaml.Node) -> str | None:
        if node.tag != _TAG + "str":
            self._refuse(node, f"a key must be text, found {_shown(node)}; put it in quotes")
            return None
        name = self._scalar(node)
        return name if isinstance(name, str) else None

    def _merged(self, node: yaml.Node) -> dict[str, JsonValue]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, JsonValue] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self._refuse(source, "<< takes an object or a list of objects")
                continue
            merged = self._mapping(source) | merged
        return merged

    def _scalar(self, node: yaml.Node) -> JsonValue:
        read = _SCALARS.get(node.tag)
        if read is None:
            self._refuse(node, f"{node.tag} has no meaning here")
            return None
        try:
            return read(node.value)
        except ValueError:
            kind = node.tag.removeprefix(_TAG)
            self._refuse(node, f"cannot read {_shown(node)} as {kind}")
            return None

    def _need_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._refuse(node, f"{node.tag} has no meaning here")

    def _refuse(self, node: yaml.Node, what: str) -> None:
        self.issues.append(f"line {node.start_mark.line + 1}: {what}")


def _shown(node: yaml.Node) -> str:
    return ascii(node.value[:40]) if isinstance(node, yaml.ScalarNode) else "a list or an object"


def _text(text: str) -> str:
    text.encode()  # "\\ud800" is half a character, which no JSON reader takes
    return text


def _integer(text: str) -> int:
    digits = text.lower().replace("0o", "0").lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if digits.startswith(("0x", "0b")):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if digits.startswith("0") else 10)


def _number(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    raise ValueError(text)


def _nothing(text: str) -> None:
    if text not in {"", "~", "null", "Null", "NULL"}:
        raise ValueError(text)


def _truth(text: str) -> bool:
    if text.lower() in {"yes", "true", "on"}:
        return True
    if text.lower() in {"no", "false", "off"}:
        return False
    raise ValueError(text)


_SCALARS: _Scalars = {
    _TAG + "str": _text,
    _TAG + "null": _nothing,
    _TAG + "bool": _truth,
    _TAG + "int": _integer,
    _TAG + "float": _number,
}
