"""Runs the tests and programs of rows, and says of each what came of it."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .table import ROOT

OUTPUT: Final = ROOT / "build" / "reliability"
_END_TO_END: Final = "tests/e2e/"


@dataclass
class Outcome:
    """What came of tests or of a program.

    Attributes:
        passed: how many tests or programs ended well.
        failed: the names of those that did not.
        skipped: the names of the tests that were skipped, or that nobody found.
        figures: the figures that they told, by name.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

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
        # pytest runs nothing at all where one of the files is not there.
        there = [name for name in wanted if ROOT.joinpath(name.partition("::")[0]).exists()]
        mine = [name for name in there if name.startswith(_END_TO_END) == end_to_end]
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


def _cargo_cases(output: str) -> Iterable[tuple[str, Outcome]]:
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
    """Run a program, let its output through, and return its figures and whether it ended well.

    A Python module of this project that is not there counts as skipped.
    """
    shown = " ".join(command)
    if command[:2] == ("python", "-m"):
        module = ROOT.joinpath(*command[2].split("."))
        if not (module.is_dir() or module.with_suffix(".py").exists()):
            return Outcome(skipped=[shown])
    if command[0] == "python":
        command = (sys.executable, *command[1:])
    lines = []
    environment = os.environ | {"PYTHONPATH": _path()}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    outcome = Outcome(figures=_figures(lines[-1] if lines else ""))
    if running.returncode == 0:
        outcome.passed = 1
    else:
        outcome.failed.append(f"{shown} (exit code {running.returncode})")
    return outcome


def _figures(line: str) -> dict[str, float]:
    """Return the figures that a line of JSON tells; none where the line is something else."""
    if not line.startswith("{"):
        return {}
    return {name: float(value) for name, value in json.loads(line).items()}


def _path() -> str:
    """Return PYTHONPATH with the project, whose tests are not installed."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
