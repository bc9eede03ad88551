"""Figures that compare two times: times faster, times as long, more microseconds, ns a node."""

from collections.abc import Callable
from dataclasses import dataclass

from pairing import Block

__all__ = ["ADDED", "AS_LONG", "AS_LONG_AT_P99", "FASTER", "MILLISECONDS", "Figure", "a_node"]


@dataclass(frozen=True)
class Figure:
    """A number computed from the times of ours and of the floor, and the direction of its aim.

    Attributes:
        unit: the unit, which is printed behind the number.
        of: computes the number from the seconds of ours and the seconds of the floor.
        at_least: whether an aim is the least value of the number; False: the most.
        tail: whether the times are 99th percentiles; False: medians.
    """

    unit: str
    of: Callable[[float, float], float]
    at_least: bool
    tail: bool = False

    def of_block(self, block: Block) -> float:
        """Return the number for the times of one block."""
        return self.of(*(block.p99s if self.tail else block.medians))

    def shown(self, value: float) -> str:
        """Return the number as text, with its unit."""
        return f"{_rounded(value)}{self.unit}"

    def meets(self, value: float, aim: float) -> bool:
        """Return whether the number meets the aim."""
        return value >= aim if self.at_least else value <= aim


FASTER = Figure("x faster", lambda ours_s, floor_s: floor_s / ours_s, at_least=True)
AS_LONG = Figure("x the time", lambda ours_s, floor_s: ours_s / floor_s, at_least=False)
AS_LONG_AT_P99 = Figure(
    "x the time at p99", lambda ours_s, floor_s: ours_s / floor_s, at_least=False, tail=True
)
MILLISECONDS = Figure(" ms", lambda ours_s, _: ours_s * 1e3, at_least=False)
ADDED = Figure(" us more", lambda ours_s, floor_s: (ours_s - floor_s) * 1e6, at_least=False)


def a_node(nodes: int) -> Figure:
    """Return the figure of how many ns more ours takes than the floor for each of the nodes."""

    def of(ours_s: float, floor_s: float) -> float:
        return (ours_s - floor_s) / nodes * 1e9

    return Figure(" ns a node more", of, at_least=False)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
