"""The table of faults names tests that exist, and its report says what came of them."""

import re

import pytest
from tests.trials.__main__ import TRIALS
from tests.trials.reliability import Outcome, Row, markdown, meets, rows, verdict
from tests.trials.served import ROOT

TABLE = rows()


def test_no_fault_is_in_the_table_twice() -> None:
    ids = [row.id for row in TABLE]
    assert len(ids) == len(set(ids))
    assert len(ids) > 40


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_a_row_names_tests_that_there_are(row: Row) -> None:
    assert row.tests or row.rust or row.command
    for test in row.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in ROOT.joinpath(file).read_text() or not name
    for test in row.rust:
        file, _, name = test.partition("::")
        assert f"fn {name}" in ROOT.joinpath("rust/core/tests", f"{file}.rs").read_text()
    if row.command[:1] == ("trial",):
        assert row.command[1] in TRIALS


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_a_bound_can_be_compared_with_and_belongs_to_a_program(row: Row) -> None:
    for bound in row.goals.values():
        meets(1.0, bound)
    assert row.command or not row.goals


@pytest.mark.parametrize(
    ("value", "bound", "kept"),
    [
        (2, "<= 2", True),
        (2.1, "<= 2", False),
        (0, "== 0", True),
        (9, ">= 10", False),
        (0, ">= 1, <= 2", False),
        (2, ">= 1, <= 2", True),
        (3, ">= 1, <= 2", False),
    ],
)
def test_a_figure_keeps_its_bound_or_misses_it(value: float, bound: str, kept: bool) -> None:
    assert meets(value, bound) is kept


ROW = Row("C7", "binds", "none lost", command=("x",), goals={"lost": "== 0"})


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(passed=1, figures={"lost": 0.0}), "holds"),
        (Outcome(passed=1, figures={"lost": 1.0}), "**does not hold**: lost is 1, not == 0"),
        (Outcome(passed=1), "**does not hold**: lost: no figure"),
        (Outcome(failed=["x"], figures={"lost": 0.0}), "**does not hold**: `x` failed"),
        (Outcome(skipped=["x"]), "not run: no `x`"),
        (None, "not run"),
    ],
)
def test_a_row_holds_where_all_of_its_figures_do(outcome: Outcome | None, said: str) -> None:
    assert verdict(ROW, outcome) == said


def test_the_report_has_a_line_for_each_row() -> None:
    results = {"C7": Outcome(passed=1, figures={"lost": 0.0}, load=1.5)}
    text = markdown([ROW, Row("B1", "slow", "fast", quiet=True)], results, 2)
    assert "| C7 | binds | lost 0 (== 0) | none lost | holds | 1.5 |" in text
    assert "| B1 \\* | slow |  | fast | not run |  |" in text
    assert max(len(line) for line in text.splitlines() if not re.match(r"\|", line)) <= 120
