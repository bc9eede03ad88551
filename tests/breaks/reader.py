"""Reads the lists of breaks, and checks that each break fits the code."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent / "lists"
CARGO = "cargo "


@dataclass(frozen=True)
class Break:
    """One small change that makes the code wrong.

    Attributes:
        name: Short and unique among all lists.
        holds: The rule, promise, row of faults or kind of plugin that the changed code breaks.
        file: The file that is changed, from the project's root.
        what: What the changed code does wrong.
        before: The text that is replaced; the file has it exactly once.
        after: The text that replaces it.
        tests: The nearest tests: paths for pytest, or ``cargo`` and arguments for ``cargo test``.
    """

    name: str
    holds: str
    file: str
    what: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def is_rust(self) -> bool:
        return self.file.endswith(".rs")

    @property
    def needs_cluster(self) -> bool:
        return all(test.startswith("tests/e2e/") for test in self.tests)

    @property
    def pytest_paths(self) -> list[str]:
        return [test for test in self.tests if not test.startswith(CARGO)]

    @property
    def cargo_arguments(self) -> list[list[str]]:
        return [test.removeprefix(CARGO).split() for test in self.tests if test.startswith(CARGO)]


def read_lists() -> list[Break]:
    """Read the breaks of all lists.

    Raises: KeyError, TypeError: an entry lacks a field, or has another one.
    """
    files = sorted(LISTS.glob("*.toml"))
    entries = [entry for file in files for entry in tomllib.loads(file.read_text())["break"]]
    breaks = [_read(entry) for entry in entries]
    assert len({each.name for each in breaks}) == len(breaks), "two breaks have one id"
    return breaks


def _read(entry: dict[str, Any]) -> Break:
    return Break(name=entry.pop("id"), tests=tuple(entry.pop("tests")), **entry)


def why_unfit(each: Break) -> str:
    """Return why a break does not fit the code; empty: it fits."""
    if not (path := ROOT / each.file).is_file():
        return f"{each.file} is not there"
    if (times := path.read_text().count(each.before)) != 1:
        return f"`before` occurs {times} times in {each.file}, not once"
    if each.before == each.after:
        return "`before` and `after` are equal"
    missing = [test for test in each.pytest_paths if not (ROOT / test).exists()]
    if missing or not each.tests:
        return f"tests that are not there: {missing}"
    return ""
