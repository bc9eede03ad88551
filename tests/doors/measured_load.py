"""What plugins of measured load compute: probabilities, and the lines of code that they take."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kubextend.plugins import low_risk_over_commitment, target_load_packing
from kubextend.plugins.low_risk_over_commitment import _probability, incomplete_beta

__all__ = [
    "incomplete_beta",
    "lines_of_probability",
    "lines_of_target_load_packing",
    "probability",
]


def probability(mean: float, deviation: float, threshold: float) -> float:
    """Return how probable it is that a load of this mean and deviation is below a threshold."""
    return _probability.__wrapped__(mean, deviation, threshold)


def lines_run(module: ModuleType, call: Callable[[], object]) -> int:
    """Return how many lines of a module run in a call: a cost that no busy machine changes."""
    lines = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != module.__file__:
            return None
        lines += event == "line"
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(earlier)
    return lines


def lines_of_probability(mean: float, deviation: float, threshold: float) -> int:
    """Return how many lines of the plugin's module run for a probability."""
    return lines_run(low_risk_over_commitment, lambda: probability(mean, deviation, threshold))


def lines_of_target_load_packing(call: Callable[[], object]) -> int:
    """Return how many lines of the plugin's module run in a call."""
    return lines_run(target_load_packing, call)
