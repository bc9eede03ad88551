"""Rounds numbers as Go's math.Round does, which the original Go plugins use for scores."""

import math

__all__ = ["rounded"]

_HALF = 0.5


def rounded(value: float) -> int:
    """Return the integer nearest to a finite number; halves are rounded away from zero."""
    whole = math.floor(abs(value))
    # The difference is exact; adding a half first would round 0.49999999999999994 up.
    nearest = whole + (abs(value) - whole >= _HALF)
    return nearest if value >= 0 else -nearest
