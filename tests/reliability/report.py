"""Judges what came of the rows of the table, and writes the report in Markdown."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from .running import Outcome
from .table import Row, meets

HOLDS: Final = "holds"
RED: Final = "**does not hold**"
NOT_RUN: Final = "not run"
_HEAD: Final = """# Reliability

For everyone who wants to know which faults kubextend is tested with: this page has one row for each
fault, and what came of it. `make reliability` runs the tests and programs of every row and writes
this page. No figure is typed by hand.

- **Figures.** A row without a program of its own says how many tests passed. A program that
  measures gives figures, each with its bound where the row has one.
- **Verdict.** A row holds if all of its tests pass and all of its figures keep their bounds.
- **Load.** The last column has the load average of the last minute when the row began, beside
  {cpus} processors. The figures of a row with a star mean little while the load is above the number
  of processors.

| row | what is done | figures | goal | verdict | load |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass
class Result:
    """What came of a row, as it is kept between runs.

    Attributes:
        outcome: what came of its tests and its program.
        load: the load average of the last minute when the row began.
        measured: when, in UTC.
    """

    outcome: Outcome
    load: float = 0.0
    measured: str = field(default_factory=lambda: datetime.now(UTC).isoformat("T", "seconds"))

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> "Result":
        """Return the result that ``kept`` has written as JSON."""
        return cls(Outcome(**kept["outcome"]), kept["load"], kept["measured"])

    def kept(self) -> dict[str, Any]:
        """Return the result as JSON has it."""
        return asdict(self)


def misses(row: Row, outcome: Outcome) -> list[str]:
    """Return what is wrong with a row: tests that failed, figures beyond a bound or missing."""
    wrong = [f"`{name}` failed" for name in outcome.failed]
    if outcome.skipped:
        return wrong
    for name, bound in row.goals.items():
        if name not in outcome.figures:
            wrong.append(f"{_words(name)}: no figure")
        elif not meets(outcome.figures[name], bound):
            wrong.append(f"{_words(name)} is {_number(outcome.figures[name])}, not {bound}")
    return wrong


def verdict(row: Row, result: Result | None) -> str:
    """Return whether a row holds, with what is wrong or left out."""
    if row.absent:
        return f"{NOT_RUN}: {row.absent}"
    if result is None:
        return NOT_RUN
    wrong = misses(row, result.outcome)
    if wrong:
        said = f"{RED}: {'; '.join(wrong)}"
    elif result.outcome.skipped:
        said = f"{NOT_RUN}: no {', '.join(f'`{name}`' for name in result.outcome.skipped)}"
    else:
        said = HOLDS
    return f"{said}. {row.note}" if row.note else said


def markdown(rows: list[Row], results: Mapping[str, Result], cpus: int, earlier: str = "") -> str:
    """Return the report on all rows.

    Args:
        rows: the rows of the table.
        results: the results of the rows that ran here, by id.
        cpus: the number of processors.
        earlier: an earlier report, of which a row without a result keeps its line.
    """
    lines = {line.split(maxsplit=2)[1]: line for line in earlier.splitlines(True) if "|" in line}
    said = (
        lines[row.id]
        if row.id in lines and row.id not in results
        else _line(row, results.get(row.id))
        for row in rows
    )
    return _HEAD.format(cpus=cpus) + "".join(said)


def _line(row: Row, result: Result | None) -> str:
    cells = [
        f"{row.id}{' *' if row.quiet else ''}".replace("*", "\\*"),
        row.fault,
        _shown(row, result.outcome) if result else "",
        row.goal,
        verdict(row, result),
        f"{result.load:.1f}" if result else "",
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _shown(row: Row, outcome: Outcome) -> str:
    """Return the figures of a row, and how many tests passed."""
    figures = [
        f"{_words(name)} {_number(value)}{f' ({row.goals[name]})' if name in row.goals else ''}"
        for name, value in outcome.figures.items()
    ]
    tests = outcome.passed - (1 if row.command and not outcome.failed else 0)
    if tests > 0:
        figures.append(f"{tests} test{'s' if tests > 1 else ''} passed")
    return "; ".join(figures)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"
