"""Reads the lists of breaks, and checks that each break still fits the code."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent / "breaks"
CARGO = "cargo "


@dataclass(frozen=True)
class Break:
    """One small change that makes the code wrong.

    Attributes:
        name: Short and unique among all lists.
        file: The file that is changed, from the project's root.
        what: What the changed code does wrong.
        before: The text that is replaced; the file holds it exactly once.
        after: The text that replaces it.
        tests: The nearest tests: paths for pytest, or ``cargo`` and arguments for ``cargo test``.
        equivalent: Why no test can notice the change; empty where one can.
    """

    name: str
    file: str
    what: str
    before: str
    after: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def is_rust(self) -> bool:
        """Whether the break is in Rust code, which has to be built before tests run."""
        return self.file.endswith(".rs")

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


def read_lists(files: Iterable[Path] | None = None) -> list[Break]:
    """Read the breaks of the given lists; None: of all lists.

    Raises:
        KeyError: An entry lacks a field.
        TypeError: An entry has a field that is not known.
    """
    chosen = sorted(LISTS.glob("*.toml")) if files is None else files
    return [_read(entry) for file in chosen for entry in tomllib.loads(file.read_text())["break"]]


def _read(entry: dict[str, Any]) -> Break:
    return Break(name=entry.pop("id"), tests=tuple(entry.pop("tests")), **entry)


def misfits(breaks: list[Break], root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each break that does not fit the code, or whose id is not unique."""
    for name, times in Counter(each.name for each in breaks).items():
        if times > 1:
            yield f"{name}: {times} breaks have this id"
    for each in breaks:
        if why := _misfit(each, root):
            yield f"{each.name}: {why}"


def _misfit(each: Break, root: Path) -> str:
    path = root / each.file
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
        if not (root / test).exists():
            return f"{test} is not there"
    return ""
