"""Durations in Go's text format, such as ``1m30s``, which kube-scheduler uses for timeouts."""

import re
from dataclasses import dataclass
from decimal import Decimal

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
_PART = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS_NS)})")
_WHOLE = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")
_LONGEST_NS = 2**63 - 1


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

        Raises: ValueError: the text is no duration.
        """
        parts = _PART.findall(text)
        total = sum(int(Decimal(number) * _UNITS_NS[unit]) for number, unit in parts)
        total *= -1 if text.startswith("-") else 1
        if not _WHOLE.fullmatch(text) or not -_LONGEST_NS - 1 <= total <= _LONGEST_NS:
            message = f'invalid duration "{text}"'
            raise ValueError(message)
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


def _fraction(span_ns: int, unit_ns: int) -> str:
    """Return a span in a unit, without zeros at the end."""
    return f"{Decimal(span_ns) / unit_ns:f}"
