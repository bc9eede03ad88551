"""The lint of prose sees what a reader stumbles on, and nothing else."""

import pytest
from tests.prose import LONGEST_LINE, leaning_docstrings, long_lines

LONG = "x " * 80


def faults(source: str) -> list[str]:
    return [place.fault for place in leaning_docstrings(source, "heap.py")]


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (LONG, [1]),
        (f"short\n{LONG}\n", [2]),
        ("x" * LONGEST_LINE, []),
        ("x" * (LONGEST_LINE + 1), [1]),
        (f"| {LONG} |", []),
        (f"![{LONG}](picture.svg)", []),
        (f"```sh\n{LONG}\n```\n", []),
        (f"- item\n\n  ```sh\n  {LONG}\n  ```\n{LONG}", [6]),
    ],
)
def test_a_line_of_text_may_have_120_characters(page: str, lines: list[int]) -> None:
    assert [place.line for place in long_lines(page, "page.md")] == lines


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        ("The same for pods.", "leans on a neighbour"),
        ("It has no room.", "leans on a neighbour"),
        ("So much more has come.", "leans on a neighbour"),
        ("Who holds the Lease.", "leans on a neighbour"),
        ("Of its name, in lower case.", "leans on a neighbour"),
        ("All of them, the first first.", "leans on a neighbour"),
        ("The body of a successful answer.", "has no verb"),
        ("Bytes that are held now; a body is none.", None),
        ("Every entry in queue order.", "has no verb"),
        ("Return every entry in queue order.", None),
        ("Whether the pod may pass.", None),
        ("Italic text is kept.", None),
        ("The gate is off.", None),
        ("", None),
    ],
)
def test_the_first_line_of_a_functions_docstring_stands_alone(
    docstring: str, fault: str | None
) -> None:
    source = f'def function():\n    """{docstring}"""\n'
    assert faults(source) == ([fault] if fault else [])


def test_a_class_and_a_property_need_no_verb_but_a_name() -> None:
    noun = '"""The heap of pods."""'
    leaning = '"""It is a heap."""'
    source = f"class Heap:\n    {noun}\n    @property\n    def top(self):\n        {noun}\n"
    assert faults(source) == []
    assert faults(source.replace(noun, leaning)) == ["leans on a neighbour"] * 2


def test_a_place_is_told_as_a_compiler_would() -> None:
    assert [str(place) for place in long_lines(f"short\n{LONG}", "page.md")] == [
        f"page.md:2: over 120 characters: {LONG[:60]}"
    ]
