"""Converts durations in PromQL's text format, such as ``1m30s``, to seconds."""

import re

__all__ = ["seconds"]

# The largest unit comes first and each unit at most once, as in prometheus/common
# model.ParseDuration.
_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_UNITS_MS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_LONGEST_TEXT = 32


def seconds(duration: str) -> float:
    """Return the seconds of a duration in PromQL's format, such as ``5m`` or ``1m30s``.

    Raises: ValueError: the text is no duration, or the duration is 0.
    """
    # The length is bounded first: a number of many digits would be slow to read.
    match = _DURATION.fullmatch(duration) if len(duration) <= _LONGEST_TEXT else None
    if match is None:
        message = f"{duration[:_LONGEST_TEXT]!r} is no duration: write it as 30s, 5m or 1h30m"
        raise ValueError(message)
    parts = zip(match.groups(default="0"), _UNITS_MS, strict=True)
    milliseconds = sum(int(number) * unit for number, unit in parts)
    if not milliseconds:
        message = f"{duration!r} is too short a duration: it must be longer than 0"
        raise ValueError(message)
    return milliseconds / 1000
