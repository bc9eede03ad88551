"""Durations in Go's text format, such as ``1m30s``, which kube-scheduler uses for timeouts."""

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import durationpy
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

__all__ = ["Duration", "GoDuration"]

# durationpy takes days and months as well, and skips what stands between two parts.
_FORM = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[nu\u00b5\u03bcm]s|s|m|h))+)")
_MICROSECOND = timedelta(microseconds=1)
_SECOND_NS, _MINUTE_NS = 10**9, 60 * 10**9


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration as Go's time.Duration, but read in whole microseconds.

    Attributes:
        nanoseconds: the length in nanoseconds; may be negative.
    """

    nanoseconds: int

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Parse a duration in Go's format, such as ``1m30s`` or ``500ms``.

        Raises: ValueError: the text is no duration.
        """
        message = f'invalid duration "{text}"'
        if not _FORM.fullmatch(text):
            raise ValueError(message)
        try:
            found = durationpy.from_str(text) // _MICROSECOND * 1000
        except ValueError as error:
            raise ValueError(message) from error
        if abs(found) >= 2**63:
            raise ValueError(message)
        return cls(found)

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.nanoseconds / 1e9

    # durationpy writes 15m and a microsecond as 15m1e-06s, which Go does not read.
    def __str__(self) -> str:
        """Format the duration as Go's Duration.String does, such as ``1m30s``."""
        sign, span_ns = "-" if self.nanoseconds < 0 else "", abs(self.nanoseconds)
        if 0 < span_ns < _SECOND_NS:
            units = ((1, "ns"), (1000, "\u00b5s"), (1_000_000, "ms"))
            unit_ns, unit = next(each for each in units if span_ns < 1000 * each[0])
            return f"{sign}{Decimal(span_ns) / unit_ns:f}{unit}"
        minutes, below_ns = divmod(span_ns, _MINUTE_NS)
        hours, minutes = divmod(minutes, 60)
        whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return f"{sign}{whole}{Decimal(below_ns) / _SECOND_NS:f}s"


def _read(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        try:
            return Duration.parse(value)
        except ValueError as error:
            message = f'{error}: the units are ns, us, ms, s, m and h, such as "1m30s"'
            raise ValueError(message) from error
    message = f'expected a duration such as "2s" or "1m30s", found {value!r}'
    raise ValueError(message)


GoDuration = Annotated[
    Duration,
    PlainValidator(_read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2s", "1m30s"]}),
]
"""The type of a field that holds a duration as text."""
