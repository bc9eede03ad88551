"""Times two pieces of work in turn, so that a slow machine slows down both alike."""

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

__all__ = ["Block", "Pairing", "Timed", "Work", "as_bytes", "p99", "paired"]

_BLOCKS = 5
# If the floor's medians spread by more than this share, its blocks do not count.
_MOST_SPREAD = 0.10
_BUDGET_S = 3.0
_MOST_EXTRA_S = 9.0
# Seconds of one turn: as many calls as fit are timed one by one, and compared by their median.
_TURN_S = 0.2


def as_bytes(answer: object) -> bytes:
    """Return an answer, which may be a buffer of the core, as bytes that can be compared."""
    return answer if isinstance(answer, bytes) else bytes(memoryview(answer))  # type: ignore[arg-type]


class Timed(Protocol):
    """A work that can be timed in turn with another."""

    @property
    def name(self) -> str:
        """The name of the work in the report."""

    def turn(self, calls: int) -> list[float]:
        """Make so many calls, one after the other, and return the seconds of each."""


@dataclass(frozen=True)
class Work:
    """A call in this process that can be timed.

    Attributes:
        name: the name of the work in the report.
        given: makes the argument of a call; not timed.
        call: the function that is timed.
        expected: what each call must return; None: the result is checked elsewhere.
    """

    name: str
    given: Callable[[], Any]
    call: Callable[[Any], object]
    expected: bytes | None = None

    def seconds(self) -> float:
        """Return the seconds of one call; freeing what the call returned is not timed."""
        argument = self.given()
        start = perf_counter()
        result = self.call(argument)
        took_s = perf_counter() - start
        assert self.expected is None or as_bytes(result) == self.expected
        return took_s

    def turn(self, calls: int) -> list[float]:
        """Make so many calls, one after the other, and return the seconds of each."""
        # Collect garbage first, or the garbage of the other work would be collected in this turn.
        gc.collect()
        return [self.seconds() for _ in range(calls)]


@dataclass(frozen=True)
class Block:
    """The times of four turns: the floor, ours, ours, the floor.

    Attributes:
        ours_s: the seconds of each call of ours.
        floor_s: the seconds of each call of the floor.
    """

    ours_s: list[float]
    floor_s: list[float]

    @property
    def medians(self) -> tuple[float, float]:
        """The median times of ours and of the floor, in seconds."""
        return statistics.median(self.ours_s), statistics.median(self.floor_s)

    @property
    def p99s(self) -> tuple[float, float]:
        """The 99th percentiles of the times of ours and of the floor, in seconds."""
        return p99(self.ours_s), p99(self.floor_s)


@dataclass(frozen=True)
class Pairing:
    """The times of two works, ours and its floor, that were timed in turn.

    Attributes:
        blocks: the times, in the order in which they were measured.
    """

    blocks: Sequence[Block]

    @property
    def ours_s(self) -> list[float]:
        """The seconds of every call of ours."""
        return [time_s for block in self.blocks for time_s in block.ours_s]

    @property
    def floor_s(self) -> list[float]:
        """The seconds of every call of the floor."""
        return [time_s for block in self.blocks for time_s in block.floor_s]

    @property
    def floor_spread(self) -> float:
        """The spread of the floor's blocks, largest less smallest, divided by their median."""
        floors = [block.medians[1] for block in self.blocks]
        return (max(floors) - min(floors)) / statistics.median(floors)

    @property
    def steady(self) -> bool:
        """Whether the medians of the floor spread by at most 10 %, so that the figures count."""
        return self.floor_spread <= _MOST_SPREAD

    @property
    def stood_still(self) -> bool:
        """Whether the floor was steady over at least five blocks in a row."""
        return len(self.blocks) >= _BLOCKS and self.steadiest.steady

    @property
    def steadiest(self) -> "Pairing":
        """The longest run of at least five blocks over which the floor was steady, else all blocks.

        The floor alone decides which blocks count, so ours cannot gain by the choice.
        """
        for length in range(len(self.blocks), _BLOCKS - 1, -1):
            for first in range(len(self.blocks) - length + 1):
                run = Pairing(self.blocks[first : first + length])
                if run.steady:
                    return run
        return self


def p99(times_s: Sequence[float]) -> float:
    """Return the 99th percentile of some times."""
    return statistics.quantiles(times_s, n=100)[98]


def paired(ours: Timed, floor: Timed, calls: int | None = None) -> Pairing:
    """Time blocks of floor, ours, ours, floor, until the floor is steady over at least five blocks.

    If the floor never is, all blocks are returned after at most 12 s, or five blocks if these take
    longer.

    Args:
        ours: the work to compare with the floor.
        floor: the work that is the reference.
        calls: the calls of each turn; None: as many as fill 0.2 s.
    """
    ours_calls, floor_calls = calls or _calls_a_turn(ours), calls or _calls_a_turn(floor)
    blocks: list[Block] = []
    enough = perf_counter() + _BUDGET_S
    end = enough + _MOST_EXTRA_S
    while len(blocks) < _BLOCKS or perf_counter() < end:
        before = floor.turn(floor_calls)
        between = ours.turn(ours_calls) + ours.turn(ours_calls)
        blocks.append(Block(between, before + floor.turn(floor_calls)))
        if perf_counter() >= enough and Pairing(blocks).stood_still:
            break
    return Pairing(blocks).steadiest


def _calls_a_turn(work: Timed) -> int:
    work.turn(1)
    return max(1, round(_TURN_S / work.turn(1)[0]))
