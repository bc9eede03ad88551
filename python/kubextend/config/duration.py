"""Durations in Go's text format, such as ``1m30s``, which kube-scheduler uses for timeouts."""

import re
from dataclasses import dataclass

__all__ = ["Duration"]

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")
_LONGEST_NS = 2**63 - 1
_BELOW_ONE = 10**18


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration in whole nanoseconds, as Go's time.Duration.

    Attributes:
        nanoseconds: the length in nanoseconds; may be negative.
    """

    nanoseconds: int

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Parse a duration in Go's format, such as ``1m30s`` or ``500ms``.

        Raises: ValueError: the text is no duration; the message is that of Go's time.ParseDuration.
        """
        sign = -1 if text.startswith("-") else 1
        rest = text[1:] if text[:1] in {"-", "+"} else text
        if rest == "0":
            return cls(0)
        total = sign * _sum_of_parts(rest, text)
        if not -_LONGEST_NS - 1 <= total <= _LONGEST_NS:
            raise _invalid(text)
        return cls(total)

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.nanoseconds / 1e9

    def __str__(self) -> str:
        """Format the duration as Go's Duration.String does, such as ``1m30s``."""
        sign = "-" if self.nanoseconds < 0 else ""
        span_ns = abs(self.nanoseconds)
        if span_ns == 0:
            return "0s"
        for unit in ("ns", "\u00b5s", "ms"):
            if span_ns < 1000 * _UNITS_NS[unit]:
                return f"{sign}{_fraction(span_ns, _UNITS_NS[unit])}{unit}"
        minutes, below_ns = divmod(span_ns, _UNITS_NS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_fraction(below_ns, _UNITS_NS['s'])}s"
        if hours:
            return f"{sign}{hours}h{minutes}m{text}"
        return f"{sign}{minutes}m{text}" if minutes else sign + text


def _sum_of_parts(rest: str, text: str) -> int:
    if not rest:
        raise _invalid(text)
    total_ns = 0
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise _invalid(text)
        total_ns += _part_ns(part[1], part[2], part[3], text)
        position = part.end()
    return total_ns


def _part_ns(whole: str, fraction: str | None, unit: str, text: str) -> int:
    if not unit:
        message = f'time: missing unit in duration "{text}"'
        raise ValueError(message)
    if unit not in _UNITS_NS:
        message = f'time: unknown unit "{unit}" in duration "{text}"'
        raise ValueError(message)
    unit_ns = _UNITS_NS[unit]
    # Python refuses to read more than 4300 digits, Go anything beyond an int64: 19 digits are
    # enough.
    if len(whole.lstrip("0")) > len(str(_LONGEST_NS)):
        raise _invalid(text)
    below = (fraction or "")[:18].ljust(18, "0")
    return int(whole or "0") * unit_ns + int(below) * unit_ns // _BELOW_ONE


def _fraction(span_ns: int, unit_ns: int) -> str:
    whole, below = divmod(span_ns, unit_ns)
    if not below:
        return str(whole)
    digits = str(below).rjust(len(str(unit_ns)) - 1, "0")
    return f"{whole}.{digits.rstrip('0')}"


def _invalid(text: str) -> ValueError:
    return ValueError(f'time: invalid duration "{text}"')
