"""Two pieces of work timed in turn, so that whatever slows the machine slows both."""

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

__all__ = ["Pairing", "Work", "paired"]

_BLOCKS = 5
_MOST_BLOCKS = 25
_BUDGET_S = 3.0
# Calls shorter than this are timed one by one but compared in bunches of it.
_TURN_S = 0.1


@dataclass(frozen=True)
class Work:
    """Something to time.

    Attributes:
        name: as the report calls it.
        given: makes what the call is given; not timed.
        call: what is timed.
        expected: what each call must return; None where that is checked elsewhere.
    """

    name: str
    given: Callable[[], Any]
    call: Callable[[Any], object]
    expected: bytes | None = None

    def seconds(self) -> float:
        """How long one call takes; what it returned is given up after the clock has stopped."""
        argument = self.given()
        start = perf_counter()
        result = self.call(argument)
        took_s = perf_counter() - start
        assert self.expected is None or result == self.expected
        return took_s


@dataclass(frozen=True)
class Pairing:
    """Two works timed in turn.

    Attributes:
        ours_s: every call of ours.
        floor_s: every call of the floor.
        ratios: of each block, how many times faster ours was.
        floor_spread: how far apart the floor's blocks were, as a part of their median.
    """

    ours_s: list[float]
    floor_s: list[float]
    ratios: list[float]
    floor_spread: float


def paired(ours: Work, floor: Work) -> Pairing:
    """Times floor, ours, ours, floor: at least five such blocks, more where they are short."""
    ours_calls, floor_calls = _calls_a_turn(ours), _calls_a_turn(floor)
    ours_s: list[float] = []
    floor_s: list[float] = []
    ratios: list[float] = []
    floor_means: list[float] = []
    end = perf_counter() + _BUDGET_S
    while len(ratios) < _BLOCKS or (len(ratios) < _MOST_BLOCKS and perf_counter() < end):
        before = _turn(floor, floor_calls)
        between = _turn(ours, ours_calls) + _turn(ours, ours_calls)
        around = before + _turn(floor, floor_calls)
        floor_means.append(statistics.fmean(around))
        ratios.append(floor_means[-1] / statistics.fmean(between))
        ours_s += between
        floor_s += around
    spread = (max(floor_means) - min(floor_means)) / statistics.median(floor_means)
    return Pairing(ours_s, floor_s, ratios, spread)


def _calls_a_turn(work: Work) -> int:
    work.seconds()
    return max(1, round(_TURN_S / work.seconds()))


def _turn(work: Work, calls: int) -> list[float]:
    # Every turn begins with no garbage, else the other side's would be collected at its cost.
    gc.collect()
    return [work.seconds() for _ in range(calls)]
