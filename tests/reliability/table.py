"""Reads the table of faults: what is done to kubextend, what shows the result, and the goals."""

import operator
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
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
        command: a program that exits with 0 if all is well, and may print its figures as JSON in
            its last line.
        goals: a bound for each figure that has a goal, such as ``<= 2``, or ``>= 1, <= 2``.
        quiet: whether the figures mean little while other programs use the processors.
        note: what the verdict adds, such as a part of the row that kubextend leaves to others.
        absent: why there is nothing to run; empty where there is.
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
    absent: str = ""


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
