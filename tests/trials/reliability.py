"""Runs the rows of the table of faults, and writes a report in Markdown.

The table says what is done to kubextend, what shows the result, and the goals. Results are kept in
build/reliability/results.json, so that rows can be run one by one, and the report has what came of
the last run of each.
"""

import json
import operator
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.e2e.workbench import say

from .harness import Report, trial
from .served import ROOT

OUTPUT: Final = ROOT / "build" / "reliability"
TABLE: Final = Path(__file__).with_name("rows.toml")

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
}


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
        quiet: whether the figures mean little while other programs use the processors.
        note: what the verdict adds, such as a part of the row that kubextend leaves to others.
    """

    id: str
    fault: str
    goal: str
    tests: tuple[str, ...] = ()
    rust: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    goals: dict[str, str] = field(default_factory=dict)
    quiet: bool = False
    note: str = ""


def rows() -> list[Row]:
    """Return the rows of the table in their order."""
    lists = {"tests", "rust", "command"}
    return [
        Row(**{key: tuple(value) if key in lists else value for key, value in each.items()})
        for each in tomllib.loads(TABLE.read_text())["rows"]
    ]


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


_END_TO_END: Final = "tests/e2e/"


@dataclass
class Outcome:
    """What came of tests or of a program.

    Attributes:
        passed: how many tests or programs ended well.
        failed: the names of those that did not.
        skipped: the names of the tests that were skipped, or that nobody found.
        figures: the figures that they told, by name.
        load: the load average of the last minute when they began.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    load: float = 0.0

    def add(self, other: "Outcome") -> None:
        """Take in what came of further tests or of a program."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.figures |= other.figures


def python_tests(names: Iterable[str]) -> dict[str, Outcome]:
    """Run Python tests, those of e2e apart; return the outcome by name of test or file."""
    wanted = list(dict.fromkeys(names))
    found: list[tuple[str, Outcome]] = []
    for file, end_to_end in (("python", False), ("e2e", True)):
        mine = [name for name in wanted if name.startswith(_END_TO_END) == end_to_end]
        if mine:
            found += _pytest(OUTPUT / f"{file}.xml", mine)
    return {name: _sum(name, found, "[") for name in wanted}


def _pytest(report: Path, names: list[str]) -> list[tuple[str, Outcome]]:
    """Run pytest, and return the name and the outcome of each case in its report."""
    report.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *names],
        cwd=ROOT,
        check=False,
    )
    return [_case(each) for each in ET.parse(report).iter("testcase")] if report.exists() else []


def _case(case: ET.Element) -> tuple[str, Outcome]:
    file = case.attrib["classname"].replace(".", "/") + ".py"
    name = f"{file}::{case.attrib['name']}"
    if case.find("failure") is not None or case.find("error") is not None:
        return name, Outcome(failed=[name])
    if case.find("skipped") is not None:
        return name, Outcome(skipped=[name])
    told = {each.attrib["name"]: float(each.attrib["value"]) for each in case.iter("property")}
    return name, Outcome(passed=1, figures=told)


def rust_tests(names: Iterable[str]) -> dict[str, Outcome]:
    """Run the tests of the core; return the outcome by ``file::beginning of a test's name``."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    ran = subprocess.run(
        ["cargo", "test", "--locked", "--package", "kubextend-core"],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    OUTPUT.joinpath("rust.log").write_text(ran.stdout)
    found = list(_cargo_cases(ran.stdout))
    return {name: _sum(name, found, "") for name in wanted}


def _cargo_cases(output: str) -> Iterator[tuple[str, Outcome]]:
    """Yield the name and the outcome of each test in the output of cargo."""
    file = ""
    for line in output.splitlines():
        if ran := re.search(r"Running (?:unittests )?\S*?(\w+)\.rs ", line):
            file = ran[1]
        elif told := re.match(r"test (\S+) \.\.\. (ok|FAILED)", line):
            name = f"{file}::{told[1]}"
            yield name, Outcome(passed=1) if told[2] == "ok" else Outcome(failed=[name])


def _sum(name: str, found: list[tuple[str, Outcome]], behind: str) -> Outcome:
    """Add up the outcomes of the cases that a name stands for."""
    whole = Outcome()
    for case, outcome in found:
        if case == name or case.startswith((f"{name}::", f"{name}{behind}")):
            whole.add(outcome)
    if whole == Outcome():
        whole.skipped.append(name)
    return whole


def program(command: tuple[str, ...]) -> Outcome:
    """Run a trial or a program, pass its output on, and return its figures and how it ended."""
    shown = " ".join(command)
    beginnings = {"trial": (sys.executable, "-m", "tests.trials"), "python": (sys.executable,)}
    first = beginnings.get(command[0], command[:1])
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    line = ""
    with subprocess.Popen(
        [*first, *command[1:]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            say(line.rstrip("\n"))
    told = json.loads(line) if line.startswith("{") else {}
    outcome = Outcome(figures={name: float(value) for name, value in told.items()})
    if running.returncode == 0:
        outcome.passed = 1
    else:
        outcome.failed.append(f"{shown} (exit code {running.returncode})")
    return outcome


HOLDS: Final = "holds"
RED: Final = "**does not hold**"
NOT_RUN: Final = "not run"
_RESULTS: Final = OUTPUT / "results.json"
_HEAD: Final = """# Reliability

For everyone who wants to know which faults kubextend is tested with: this page has one row for each
fault, and what came of it. `python -m tests.trials reliability` runs the tests and programs of
every row and writes this page. No figure is typed by hand.

- **Figures.** A row without a program of its own says how many tests passed. A program that
  measures gives figures, each with its bound where the row has one.
- **Verdict.** A row holds if all of its tests pass and all of its figures keep their bounds.
- **Load.** The last column has the load average of the last minute when the row began, on
  {cpus} processors. The figures of a row with a star mean little while the load is above the number
  of processors.

| row | what is done | figures | goal | verdict | load |
| --- | --- | --- | --- | --- | --- |
"""


@trial(words=tuple(row.id for row in rows()), to=str(ROOT / "build" / "reliability.md"))
def reliability(options: Namespace, report: Report) -> None:
    """Every fault of the table rows.toml, or the rows of some ids, with a report on all rows."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    table = rows()
    _run_rows([row for row in table if row.id in options.words], report)
    Path(options.to).write_text(markdown(table, _kept(), os.cpu_count() or 1))


def _run_rows(wanted: list[Row], report: Report) -> None:
    """Run all tests of some rows at once, then one program after the other; keep the results."""
    load = os.getloadavg()[0]
    of_tests = python_tests(test for row in wanted for test in row.tests)
    of_tests |= rust_tests(test for row in wanted for test in row.rust)
    for row in wanted:
        outcome = Outcome(load=os.getloadavg()[0] if row.command else load)
        for test in (*row.tests, *row.rust):
            outcome.add(of_tests[test])
        if row.command:
            outcome.add(program(row.command))
        # Another run may have put in its own meanwhile.
        kept = {key: asdict(each) for key, each in (_kept() | {row.id: outcome}).items()}
        _RESULTS.write_text(json.dumps(kept, indent=1))
        report.judge(not misses(row, outcome), f"{row.id}: {verdict(row, outcome)}")


def _kept() -> dict[str, Outcome]:
    """Return the results of earlier runs by row."""
    if not _RESULTS.exists():
        return {}
    return {row: Outcome(**kept) for row, kept in json.loads(_RESULTS.read_text()).items()}


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


def verdict(row: Row, outcome: Outcome | None) -> str:
    """Return whether a row holds, with what is wrong or left out."""
    if outcome is None:
        return NOT_RUN
    wrong = misses(row, outcome)
    if wrong:
        said = f"{RED}: {'; '.join(wrong)}"
    elif outcome.skipped:
        said = f"{NOT_RUN}: no {', '.join(f'`{name}`' for name in outcome.skipped)}"
    else:
        said = HOLDS
    return f"{said}. {row.note}" if row.note else said


def markdown(table: list[Row], results: Mapping[str, Outcome], cpus: int) -> str:
    """Return the report on all rows, of which those that ran have results by id."""
    lines = (_line(row, results.get(row.id)) for row in table)
    return _HEAD.format(cpus=cpus) + "".join(lines)


def _line(row: Row, outcome: Outcome | None) -> str:
    cells = [
        f"{row.id}{' *' if row.quiet else ''}".replace("*", "\\*"),
        row.fault,
        _shown(row, outcome) if outcome else "",
        row.goal,
        verdict(row, outcome),
        f"{outcome.load:.1f}" if outcome else "",
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
