"""The table of faults names tests and trials that exist, and trials say what is wrong."""

from argparse import Namespace

import pytest
from tests.trials.__main__ import TRIALS, main
from tests.trials.harness import Report, trial
from tests.trials.reliability import Row, meets, rows
from tests.trials.served import ROOT

TABLE = rows()


def test_no_fault_is_in_the_table_twice() -> None:
    ids = [row.id for row in TABLE]
    assert len(ids) == len(set(ids)) > 40


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_a_row_names_tests_that_there_are_and_bounds_that_can_be_compared_with(row: Row) -> None:
    assert row.tests or row.rust or row.command
    for test in row.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in ROOT.joinpath(file).read_text() or not name
    for test in row.rust:
        file, _, name = test.partition("::")
        assert f"fn {name}" in ROOT.joinpath("rust/core/tests", f"{file}.rs").read_text()
    if row.command:
        kind, name, *_ = row.command
        assert name in TRIALS if kind == "trial" else ROOT.joinpath(name).exists()
    for bound in row.goals.values():
        meets(1.0, bound)
    assert row.command or not row.goals


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"lost": 0, "took": 1}, []),
        ({"lost": 0, "took": 2}, []),
        ({"lost": 1, "took": 1}, ["lost is 1, not == 0"]),
        ({"lost": 0, "took": 0.5}, ["took is 0.5, not >= 1, <= 2"]),
        ({"lost": 0, "took": 2.5}, ["took is 2.5, not >= 1, <= 2"]),
        ({"took": 1}, ["lost is not told, not == 0"]),
    ],
)
def test_a_row_holds_where_all_figures_keep_their_bounds(
    figures: dict[str, float], missed: list[str]
) -> None:
    row = Row(
        "C7", "binds", "none lost", command=("x",), goals={"lost": "== 0", "took": ">= 1, <= 2"}
    )
    assert row.misses(figures) == missed


@trial("a", "b", things=1000, seed=0)
def counts_things(options: Namespace, report: Report) -> None:
    """Counts things.

    Too many are wrong.
    """
    report.tell(things=options.things, parts=len(options.words))
    report.judge(options.things <= 100, f"{options.things} things")


def test_a_trial_says_what_is_wrong_and_tells_its_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["counts-things", "--things=7", "--seed=12", "b"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert (said[0], said[-1]) == ("seed 12", '{"things": 7.0, "parts": 1.0}')
    assert main(["counts-things"]) == 1
    assert "WRONG 1000 things" in capsys.readouterr().out
    assert main([]) == 0
    assert "counts-things           Counts things.\n" in capsys.readouterr().out
    assert main(["nothing"]) == 2
    with pytest.raises(SystemExit):
        main(["counts-things", "d"])
    assert "d: choose from a, b" in capsys.readouterr().err
