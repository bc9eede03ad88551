"""The lint of prose sees what a reader stumbles on, and nothing else."""

import pytest
from tests.prose import LONGEST_LINE, leaning_docstrings, long_lines

LONG = "x " * 80


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (f"short\n{LONG}\n", [2]),
        ("x" * LONGEST_LINE, []),
        ("x" * (LONGEST_LINE + 1), [1]),
        (f"| {LONG} |", []),
        (f"![{LONG}](picture.svg)", []),
        (f"- item\n\n  ```sh\n  {LONG}\n  ```\n{LONG}", [6]),
    ],
)
def test_a_line_of_text_may_have_120_characters(page: str, lines: list[int]) -> None:
    found = [*long_lines(page, "page.md")]
    assert [place.line for place in found] == lines
    assert all(str(place).startswith(f"page.md:{place.line}: over 120 char") for place in found)


LEANS, NO_VERB = ["leans on a neighbour"], ["has no verb"]


@pytest.mark.parametrize(
    ("docstring", "faults"),
    [
        ("The same for pods.", LEANS),
        ("It has no room.", LEANS),
        ("So much more has come.", LEANS),
        ("Who holds the Lease.", LEANS),
        ("Of its name, in lower case.", LEANS),
        ("All of them, the first first.", LEANS),
        ("The body of a successful answer.", NO_VERB),
        ("Every entry in queue order.", NO_VERB),
        ("Bytes that are held now; a body is none.", []),
        ("Return every entry in queue order.", []),
        ("Whether the pod may pass.", []),
        ("Italic text is kept.", []),
    ],
)
def test_the_first_line_of_a_docstring_stands_alone(docstring: str, faults: list[str]) -> None:
    function = f'def function():\n    """{docstring}"""\n'
    assert [place.fault for place in leaning_docstrings(function, "heap.py")] == faults
    # A class needs no verb.
    found = leaning_docstrings(function.replace("def function()", "class Heap"), "heap.py")
    assert [place.fault for place in found] == (LEANS if faults == LEANS else [])
