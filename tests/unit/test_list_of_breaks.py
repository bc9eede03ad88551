"""The list that ``make mutants`` works through follows the code."""

from pathlib import Path

import pytest
from tests.mutants.breaks import Break, misfits, read_lists

A_BREAK = Break("a-break", "code.py", "it adds", "one - two", "one + two", ("tests",))


def test_every_break_fits_the_code() -> None:
    assert list(misfits(read_lists())) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "a-break: `before` occurs 0 times in code.py, not once"),
        ("one - two", None),
        ("one - two, one - two", "a-break: `before` occurs 2 times in code.py, not once"),
    ],
)
def test_a_break_fits_where_its_text_stands_once(
    tmp_path: Path, code: str, says: str | None
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "code.py").write_text(code)
    assert list(misfits([A_BREAK], tmp_path)) == ([says] if says else [])


def test_two_breaks_of_one_id_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "code.py").write_text("one - two")
    assert list(misfits([A_BREAK, A_BREAK], tmp_path)) == ["a-break: 2 breaks have this id"]
