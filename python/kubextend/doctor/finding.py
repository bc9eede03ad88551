"""What a check of the doctor found: a verdict, what it means, and what to do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kubextend.doctor.examined import Examined

__all__ = ["Check", "Finding", "Problem", "Verdict", "error", "skipped", "warning"]


class Verdict(StrEnum):
    """Whether something is as it has to be."""

    OK = "ok"
    WARNING = "warning"
    """Something that may be meant."""
    ERROR = "error"
    """Something because of which pods are not placed, or not as the plugins say."""
    SKIPPED = "skipped"
    """The check could not look, or there is nothing to look at."""


class Problem(NamedTuple):
    """Something that is not as it has to be.

    Attributes:
        verdict: how bad that is.
        message: what is wrong.
        hint: what to do; may be empty.
    """

    verdict: Verdict
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the doctor's report.

    Attributes:
        check: the name of the check.
        verdict: the verdict.
        looked_at: what the check looked at.
        message: what is wrong; empty if nothing is.
        hint: what to do; may be empty.
    """

    check: str
    verdict: Verdict
    looked_at: str
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor.

    Attributes:
        name: the name of the check.
        looks_at: what the check looks at, for the report.
        look: yields what is wrong; nothing if all is well.
        of_kubextend: whether the check looks at the running kubextend or at its rights, so that it
            has nothing to look at where no kubextend is needed.
    """

    name: str
    looks_at: str
    look: Callable[[Examined], Iterable[Problem]]
    of_kubextend: bool = False


def error(message: str, hint: str = "") -> Problem:
    """Return a problem because of which pods are not placed as the plugins say."""
    return Problem(Verdict.ERROR, message, hint)


def warning(message: str, hint: str = "") -> Problem:
    """Return a problem that may be meant."""
    return Problem(Verdict.WARNING, message, hint)


def skipped(message: str, hint: str = "") -> Problem:
    """Return the statement that a check could not look, or has nothing to look at."""
    return Problem(Verdict.SKIPPED, message, hint)
