"""What a pair of times says: how many times faster, how much longer, how much a node."""

from collections.abc import Callable
from dataclasses import dataclass

from pairing import Block

__all__ = ["ADDED", "AS_LONG", "AS_LONG_AT_P99", "FASTER", "MILLISECONDS", "Figure", "a_node"]


@dataclass(frozen=True)
class Figure:
    """A number made of two times, and which way it is meant to go.

    Attributes:
        unit: what stands behind the number.
        of: the number, given the seconds of ours and those of the floor.
        at_least: an aim is the least it may be; else the most.
        tail: the times are those of the slowest of a hundred calls, else of the middle one.
    """

    unit: str
    of: Callable[[float, float], float]
    at_least: bool
    tail: bool = False

    def of_block(self, block: Block) -> float:
        """The number that a block gives."""
        return self.of(*(block.p99s if self.tail else block.medians))

    def shown(self, value: float) -> str:
        """The number with its unit."""
        return f"{_rounded(value)}{self.unit}"

    def meets(self, value: float, aim: float) -> bool:
        """Whether the number is as the aim wants it."""
        return value >= aim if self.at_least else value <= aim


FASTER = Figure("x faster", lambda ours_s, floor_s: floor_s / ours_s, at_least=True)
AS_LONG = Figure("x the time", lambda ours_s, floor_s: ours_s / floor_s, at_least=False)
AS_LONG_AT_P99 = Figure(
    "x the time at p99", lambda ours_s, floor_s: ours_s / floor_s, at_least=False, tail=True
)
MILLISECONDS = Figure(" ms", lambda ours_s, _: ours_s * 1e3, at_least=False)
ADDED = Figure(" us more", lambda ours_s, floor_s: (ours_s - floor_s) * 1e6, at_least=False)


def a_node(nodes: int) -> Figure:
    """What each of so many nodes costs more."""

    def of(ours_s: float, floor_s: float) -> float:
        return (ours_s - floor_s) / nodes * 1e9

    return Figure(" ns a node more", of, at_least=False)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
