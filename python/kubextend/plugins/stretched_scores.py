"""Stretches scores so that the lowest becomes 0 and the highest 100."""

from kubextend.framework.plugin import Scores

__all__ = ["stretched"]

_MAX_NODE_SCORE = 100


def stretched(scores: Scores) -> list[int]:
    """Return the scores stretched to 0..100, rounded down; all 0 if all scores are equal."""
    lowest = min(scores, default=0)
    width = max(scores, default=0) - lowest
    return [(score - lowest) * _MAX_NODE_SCORE // (width or 1) for score in scores]
