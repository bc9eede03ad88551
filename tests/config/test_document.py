"""A YAML document becomes JSON, nearly as kube-scheduler's reader (sigs.k8s.io/yaml) reads it."""

import pytest

from kubextend.config import read_document
from kubextend.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: -0x1F", -31),
        ("a: 017", 15),
        ("a: 1.0e+3", 1000.0),
        ("a: .5", 0.5),
        ("a: yes", True),
        ("a: Off", False),
        ("a: ~", None),
        ("a:", None),
        ("a: 12:30", "12:30"),
        ("a: 12:30.5", "12:30.5"),
        ("a: 2026-11-21", "2026-11-21"),
        ("a: =", "="),
        ('a: "1"', "1"),
        ('{"a": {"b": [true, null]}}', {"b": [True, None]}),
        ("---\na: 1\n", 1),
        ("\ufeffa: 1", 1),
    ],
)
def test_a_value_is_read_as_json(text: str, value: object) -> None:
    assert read_document(text.encode(), "f.yaml") == {"a": value}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (
            "base: &base {a: 1, b: 2}\none: *base\ntwo: {b: 3, <<: *base}\n",
            {"base": {"a": 1, "b": 2}, "one": {"a": 1, "b": 2}, "two": {"a": 1, "b": 3}},
        ),
        # A merged key that is set again is not given twice.
        (
            "z: &z {k: 1}\nx: {deep: {deeper: &a {<<: *z, k: 2}}}\ny: {<<: *a}\n",
            {"z": {"k": 1}, "x": {"deep": {"deeper": {"k": 2}}}, "y": {"k": 2}},
        ),
    ],
)
def test_aliases_and_merges_are_written_out(text: str, tree: object) -> None:
    assert read_document(text.encode(), "f.yaml") == tree


EMPTY = "empty (write apiVersion, kind and profiles)"
NO_TEXT = "a key must be text; put it in quotes"


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("", EMPTY),
        ("# only a comment", EMPTY),
        ("a:\n\tb: 1", "line 2, column 1: ... (YAML indents with spaces, and not with tabs)"),
        ("- a", "expected an object (write apiVersion, kind and profiles)"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: key 'a' is already set in line 1"),
        ("a: {b: 1, b: 2}", "line 1, column 11: key 'b' is already set in line 1"),
        (
            "base: &base {k: 1}\na: {deep: &d {<<: *base, k: 2, l: 3, k: 4}}\nb: *d",
            "line 2, column 38: key 'k' is already set in line 2",
        ),
        ("1: a", f"line 1, column 1: {NO_TEXT}"),
        ("on: a", f"line 1, column 1: {NO_TEXT}"),
        ("? [a]\n: b", f"line 1, column 3: {NO_TEXT}"),
        ("a: !!python/object/apply:os.system [x]", "line 1, column 4: could not determine a const"),
        ("a: !!binary aGk=", "Object of type bytes is not JSON serializable"),
        ("a: !!bool x", "'x'"),
        ("a: .inf", "Out of range float values are not JSON compliant"),
        ('a: "\\ud800"', "'utf-8' codec can't encode character '\\ud800' in position 7"),
        ("a: {<<: 1}", "line 1, column 9: while constructing a mapping expected a mapping or list"),
        (
            "a:\n  - b: 1\n   c: 2\n",
            "line 3, column 4: while parsing a block ..., in the block that begins in line 2",
        ),
        ("a: [1", "line 1, column 6: while parsing a flow sequence expected ',' or ']'"),
        ("a: 1\n---\nb: 2", "line 2, column 1: expected a single document in the stream but found"),
        ("a: *b", "line 1, column 4: found undefined alias 'b'"),
        ("a: &a [*a]", "Circular reference detected"),
        ("a: " + "[" * 5000, "nested too deeply"),
        (b"a: \xff", "byte 3: not UTF-8"),
        (b"#" * 1_048_577, "has more than 1048576 bytes"),
    ],
)
def test_a_document_that_json_cannot_say_is_refused_with_its_line(
    text: str | bytes, issue: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_document(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    (shown,) = map(str, caught.value.issues)
    start, _, end = issue.partition("...")
    assert shown.startswith(f"f.yaml: {start}")
    assert end in shown
