"""A YAML document becomes the JSON that kube-scheduler's reader (sigs.k8s.io/yaml) makes of it."""

import pytest

from kubextend.config import read_document
from kubextend.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", 1),
        ("a: -0x1F", -31),
        ("a: 0o17", 15),
        ("a: 017", 15),
        ("a: 1e3", 1000.0),
        ("a: .5", 0.5),
        ("a: yes", True),
        ("a: Off", False),
        ("a: ~", None),
        ("a:", None),
        ("a: 12:30", "12:30"),
        ("a: 2026-11-21", "2026-11-21"),
        ("a: =", "="),
        ('a: "1"', "1"),
        ("a: [1, {b: c}]", [1, {"b": "c"}]),
        ('{"a": {"b": [true, null]}}', {"b": [True, None]}),
        ("---\na: 1\n", 1),
        ("\ufeffa: 1", 1),
    ],
)
def test_a_value_is_read_as_json(text: str, value: object) -> None:
    assert read_document(text.encode(), "f.yaml") == {"a": value}


def test_aliases_and_merges_are_written_out() -> None:
    text = "base: &base {a: 1, b: 2}\none: *base\ntwo: {b: 3, <<: *base}\n"
    assert read_document(text.encode(), "f.yaml") == {
        "base": {"a": 1, "b": 2},
        "one": {"a": 1, "b": 2},
        "two": {"a": 1, "b": 3},
    }


def test_a_merged_key_that_is_set_again_is_not_given_twice() -> None:
    text = "z: &z {k: 1}\nx: {deep: {deeper: &a {<<: *z, k: 2}}}\ny: {<<: *a}\n"
    assert read_document(text.encode(), "f.yaml") == {
        "z": {"k": 1},
        "x": {"deep": {"deeper": {"k": 2}}},
        "y": {"k": 2},
    }


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        ("", ["f.yaml: empty (write apiVersion, kind and profiles)"]),
        ("# only a comment", ["f.yaml: empty (write apiVersion, kind and profiles)"]),
        (
            "a:\n\tb: 1",
            [
                (
                    "f.yaml: line 2, column 1: while scanning for the next token found character "
                    "'\\t' that cannot start any token (YAML indents with spaces, and not with "
                    "tabs)"
                )
            ],
        ),
        ("- a", ["f.yaml: expected an object (write apiVersion, kind and profiles)"]),
        ("a: 1\nb: 2\na: 3", ["f.yaml: line 3, column 1: key 'a' is already set in line 1"]),
        ("a: {b: 1, b: 2}", ["f.yaml: line 1, column 11: key 'b' is already set in line 1"]),
        (
            "base: &base {k: 1}\na: {deep: &d {<<: *base, k: 2, l: 3, k: 4}}\nb: *d",
            ["f.yaml: line 2, column 38: key 'k' is already set in line 2"],
        ),
        ("1: a", ["f.yaml: line 1, column 1: a key must be text; put it in quotes"]),
        ("on: a", ["f.yaml: line 1, column 1: a key must be text; put it in quotes"]),
        ("? [a]\n: b", ["f.yaml: line 1, column 3: a key must be text; put it in quotes"]),
        *(
            (
                f"a: !!{tag}",
                [
                    (
                        f"f.yaml: line 1, column 4: the tag tag:yaml.org,2002:{tag.split()[0]} "
                        "has no meaning here; write the value alone"
                    )
                ],
            )
            for tag in ("python/object/apply:os.system [x]", "binary aGk=", "int x", "bool x")
        ),
        ("a: 1e999", ["f.yaml: Out of range float values are not JSON compliant"]),
        (
            'a: "\\ud800"',
            [
                (
                    "f.yaml: 'utf-8' codec can't encode character '\\ud800' in position 7: "
                    "surrogates not allowed"
                )
            ],
        ),
        (
            "a: {<<: 1}",
            [
                (
                    "f.yaml: line 1, column 9: while constructing a mapping expected a mapping or "
                    "list of mappings for merging, but found scalar"
                )
            ],
        ),
        (
            "a:\n  - b: 1\n   c: 2\n",
            [
                (
                    "f.yaml: line 3, column 4: while parsing a block collection expected <block "
                    "end>, but found '<block mapping start>', in the block that begins in line 2"
                )
            ],
        ),
        ("a: [1", ["f.yaml: line 1, column 6: while parsing a flow sequence expected ',' or ']'"]),
        (
            "a: 1\n---\nb: 2",
            [
                (
                    "f.yaml: line 2, column 1: expected a single document in the stream "
                    "but found another document"
                )
            ],
        ),
        ("a: *b", ["f.yaml: line 1, column 4: found undefined alias 'b'"]),
        ("a: &a [*a]", ["f.yaml: Circular reference detected"]),
        ("a: " + "[" * 5000, ["f.yaml: nested too deeply"]),
    ],
)
def test_a_document_that_json_cannot_say_is_refused_with_its_line(
    text: str, issues: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_document(text.encode(), "f.yaml")
    shown = [str(issue).split(", but got")[0] for issue in caught.value.issues]
    assert shown == issues


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^f\.yaml: byte 3: not UTF-8$"):
        read_document(b"a: \xff", "f.yaml")


def test_a_file_beyond_a_mebibyte_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^f\.yaml: has more than 1048576 bytes$"):
        read_document(b"#" * 1_048_577, "f.yaml")
