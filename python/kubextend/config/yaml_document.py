"""Reads one YAML document as a JSON object, as kube-scheduler reads its own configuration.

The reader is stricter than a YAML library: it refuses, with the line, a key that is given twice, a
key that is no text, and a tag.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from pydantic import JsonValue
from yaml.composer import ComposerError

from kubextend.errors import ConfigError, Issue

__all__ = ["read_document", "read_file"]

_STDIN: Final = "-"

_MAX_BYTES = 1 << 20
_TAG = "tag:yaml.org,2002:"
_NO_TABS = "YAML indents with spaces, and not with tabs"


class _Loader(yaml.SafeLoader):
    """Parses YAML as PyYAML's safe loader, but unquoted values as kube-scheduler's reader does.

    An unquoted date is text. An unquoted 12:30 is text too, and not the sexagesimal number 750.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's own declaration

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node without a tag."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            _refuse(event, f"the tag {event.tag} has no meaning here; write the value alone")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping whose keys are different texts."""
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _TAG + "merge":
                continue
            if key.tag != _TAG + "str":
                _refuse(key, "a key must be text; put it in quotes")
            if key.value in lines:
                _refuse(key, f"key {key.value!a} is already set in line {lines[key.value]}")
            lines[key.value] = key.start_mark.line + 1
        return node


def _refuse(at: Any, why: str) -> NoReturn:
    raise ComposerError(None, None, why, at.start_mark)


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

    Raises: ConfigError: the document is no valid YAML object; the error has the line.
    """
    if len(data) > _MAX_BYTES:
        raise ConfigError([Issue(source, f"has more than {_MAX_BYTES} bytes")])
    try:
        tree = _Loader(data.decode("utf-8-sig")).get_single_data()
        # 1e999 and half a character, "\\ud800", are no JSON.
        json.dumps(tree, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ConfigError([Issue(source, f"byte {error.start}: not UTF-8")]) from error
    except yaml.MarkedYAMLError as error:
        hint = _NO_TABS if "'\\t'" in (error.problem or "") else ""
        raise ConfigError([Issue(source, _yaml_sentence(error), hint=hint)]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError([Issue(source, " ".join(str(error).split()))]) from error
    except RecursionError as error:
        raise ConfigError([Issue(source, "nested too deeply")]) from error
    if not isinstance(tree, dict):
        message = "empty" if tree is None else "expected an object"
        hint = "write apiVersion, kind and profiles"
        raise ConfigError([Issue(source, message, tree, hint)])
    return tree


def _yaml_sentence(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    began = error.context_mark
    if mark and began and began.line < mark.line and "block" in (error.context or ""):
        # The parser stops where a block cannot go on; a wrong indent may be where it begins.
        what += f", in the block that begins in line {began.line + 1}"
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what
