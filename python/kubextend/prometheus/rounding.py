"""Rounding as Go's math.Round does it, which is what scores of upstream plugins are made with."""

import math

__all__ = ["rounded"]

_HALF = 0.5


def rounded(value: float) -> int:
    """The nearest integer, halves away from zero; the value is finite."""
    whole = math.floor(abs(value))
    # The difference is exact; adding a half first would round 0.49999999999999994 up.
    nearest = whole + (abs(value) - whole >= _HALF)
    return nearest if value >= 0 else -nearest
