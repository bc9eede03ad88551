"""Runs the rows of the table of faults, and writes a report in Markdown.

The table says what is done to kubextend, what shows the result, and the goals.
"""

import json
import operator
import os
import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.e2e.workbench import say

from .harness import Report, trial
from .served import ROOT

TABLE: Final = Path(__file__).with_name("rows.toml")
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
}
_HEAD: Final = """# Reliability

For everyone who wants to know which faults kubextend is tested with: this page has one row for each
fault, and what came of it. `python -m tests.trials reliability` runs the tests and programs of
every row and writes this page. No figure is typed by hand. A row holds if all of its tests pass and
all figures of its program keep their bounds.

| row | what is done | figures | goal | verdict |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Row:
    """A fault, and what shows that kubextend withstands the fault.

    Attributes:
        id: the id of the row, a letter and a number.
        fault: what is done to kubextend.
        goal: what must hold, in words.
        tests: Python tests, as pytest names them; a file stands for all of its tests.
        rust: tests of the core, as ``file::beginning of the name``.
        command: a trial or another program, which exits with 0 if all is well, and may print its
            figures as JSON in its last line.
        goals: a bound for each figure that has a goal, such as ``<= 2``, or ``>= 1, <= 2``.
        note: what the verdict adds, such as a part of the row that kubextend leaves to others.
    """

    id: str
    fault: str
    goal: str
    tests: tuple[str, ...] = ()
    rust: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    goals: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Yield what runs the row's tests and its program."""
        python = (sys.executable, "-m")
        if self.tests:
            yield (*python, "pytest", "-q", *self.tests)
        for each in self.rust:
            file, _, name = each.partition("::")
            package = ("cargo", "test", "-q", "--locked", "-p", "kubextend-core")
            yield (*package, "--test", file, name)
        if self.command:
            first, *rest = self.command
            first_words = {"trial": (*python, "tests.trials"), "python": python[:1]}
            yield (*first_words.get(first, (first,)), *rest)

    def misses(self, figures: Mapping[str, float]) -> list[str]:
        """Return what is wrong with the figures of the row's program: beyond a bound, or absent."""
        return [
            f"{name} is {figures.get(name, 'not told')}, not {bound}"
            for name, bound in self.goals.items()
            if name not in figures or not meets(figures[name], bound)
        ]


def rows() -> list[Row]:
    """Return the rows of the table in their order."""
    return [Row(**each) for each in tomllib.loads(TABLE.read_text())["rows"]]


def meets(value: float, bound: str) -> bool:
    """Return whether a figure keeps its bound, such as ``<= 2``, or ``>= 1, <= 2`` for both ends.

    Raises: ValueError: the bound is no comparison with a number.
    """
    kept = True
    for each in bound.split(", "):
        found = re.fullmatch(r"(<=|>=|==) (-?[0-9.]+)", each)
        if found is None:
            message = f"no bound of a figure: {bound!r}"
            raise ValueError(message)
        kept = kept and _COMPARISONS[found[1]](value, float(found[2]))
    return kept


@trial(*(row.id for row in rows()), to=str(ROOT / "build" / "reliability.md"))
def reliability(options: Namespace, report: Report) -> None:
    """Every fault of the table rows.toml, or the rows of some ids, with a report on these."""
    page = _HEAD
    for row in rows():
        if row.id in options.words:
            wrong, figures = _ran(row)
            verdict = "; ".join(wrong) or "holds"
            report.judge(not wrong, f"{row.id}: {verdict}")
            shown = "; ".join(f"{name} {value:,.3g}" for name, value in figures.items())
            cells = [row.id, row.fault, shown, row.goal, f"{verdict}. {row.note}".strip(". ")]
            page += f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"
    Path(options.to).write_text(page)


def _ran(row: Row) -> tuple[list[str], dict[str, float]]:
    """Run all commands of a row; return what is wrong, and the figures."""
    wrong, figures = [], dict[str, float]()
    for command in row.commands():
        line = ""
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                say(line.rstrip("\n"))
        if line.startswith("{"):
            figures |= json.loads(line)
        if running.returncode:
            wrong.append(f"`{' '.join(command)}` ended with {running.returncode}")
    return wrong + row.misses(figures), figures
