"""Reads one YAML document as a JSON object; refuses, with the line, a key that is set twice."""

import json
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
    """PyYAML's safe loader, which refuses a key that is set twice or is no text.

    As in kube-scheduler's reader, an unquoted date or = is text, and so is an unquoted 12:30,
    which PyYAML takes for the sexagesimal number 750.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own declaration
        first: [each for each in resolvers if each[0] not in {_TAG + "timestamp", _TAG + "value"}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

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

    def number(self, node: yaml.ScalarNode) -> int | float | str:
        """Return the number of a node, or its text if it is a time of day."""
        if ":" in node.value:
            return str(node.value)
        whole = node.tag == _TAG + "int"
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


_Loader.add_constructor(_TAG + "int", _Loader.number)
_Loader.add_constructor(_TAG + "float", _Loader.number)


def _refuse(at: Any, why: str) -> NoReturn:
    raise ComposerError(None, None, why, at.start_mark)


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
    except (yaml.YAMLError, ValueError, TypeError, KeyError) as error:
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
