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
        holds: The invariant, the promise, the row of faults or the kind of plugin that the changed
            code no longer holds.
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
        """Whether the break is in Rust code, which has to be built before tests run."""
        return self.file.endswith(".rs")

    @property
    def needs_cluster(self) -> bool:
        """Whether only tests on a real control plane are near."""
        return all(test.startswith("tests/e2e/") for test in self.tests)

    @property
    def pytest_paths(self) -> list[str]:
        """The paths of the nearest tests that pytest runs."""
        return [test for test in self.tests if not test.startswith(CARGO)]

    @property
    def cargo_arguments(self) -> list[list[str]]:
        """The arguments of ``cargo test`` for each of the nearest tests that cargo runs."""
        return [test.removeprefix(CARGO).split() for test in self.tests if test.startswith(CARGO)]

    def apply(self, root: Path) -> str:
        """Apply the break to its file below ``root``. Returns the file's text before the break."""
        path = root / self.file
        whole = path.read_text()
        path.write_text(whole.replace(self.before, self.after))
        return whole


def read_lists() -> list[Break]:
    """Read the breaks of all lists.

    Raises:
        KeyError: An entry lacks its id or its tests.
        TypeError: An entry lacks another field, or has a field that is not known.
        ValueError: Two entries have one id.
    """
    files = sorted(LISTS.glob("*.toml"))
    entries = [entry for file in files for entry in tomllib.loads(file.read_text())["break"]]
    breaks = [_read(entry) for entry in entries]
    if len({each.name for each in breaks}) < len(breaks):
        message = "two breaks have one id"
        raise ValueError(message)
    return breaks


def _read(entry: dict[str, Any]) -> Break:
    return Break(name=entry.pop("id"), tests=tuple(entry.pop("tests")), **entry)


def why_unfit(each: Break) -> str:
    """Return why a break does not fit the code; empty: it fits."""
    path = ROOT / each.file
    if not path.is_file():
        return f"{each.file} is not there"
    times = path.read_text().count(each.before)
    if times != 1:
        return f"`before` occurs {times} times in {each.file}, not once"
    if each.before == each.after:
        return "`before` and `after` are equal"
    if not each.tests:
        return "no nearest test is named"
    for test in each.pytest_paths:
        if not (ROOT / test).exists():
            return f"{test} is not there"
    return ""
