"""Two pieces of work timed in turn, so that whatever slows the machine slows both."""

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

__all__ = ["Block", "Pairing", "Timed", "Work", "as_bytes", "p99", "paired"]

_BLOCKS = 5
# A floor that moves more than this within one run says nothing.
_MOST_SPREAD = 0.10
_BUDGET_S = 3.0
_MOST_EXTRA_S = 9.0
# Calls shorter than this are timed one by one but compared in bunches of it.
_TURN_S = 0.2


def as_bytes(answer: object) -> bytes:
    """An answer, which may be a buffer of the core's, in a form that can be compared."""
    return answer if isinstance(answer, bytes) else bytes(memoryview(answer))  # type: ignore[arg-type]


class Timed(Protocol):
    """Something that can be timed in turns."""

    @property
    def name(self) -> str:
        """As the report calls it."""

    def turn(self, calls: int) -> list[float]:
        """Seconds of so many calls, one after the other."""


@dataclass(frozen=True)
class Work:
    """Something of this process to time.

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
        assert self.expected is None or as_bytes(result) == self.expected
        return took_s

    def turn(self, calls: int) -> list[float]:
        """Seconds of so many calls, one after the other."""
        # Every turn begins with no garbage, else the other side's would be collected at its cost.
        gc.collect()
        return [self.seconds() for _ in range(calls)]


@dataclass(frozen=True)
class Block:
    """One floor, ours, ours, floor.

    Attributes:
        ours_s: the calls of ours.
        floor_s: the calls of the floor.
    """

    ours_s: list[float]
    floor_s: list[float]

    @property
    def medians(self) -> tuple[float, float]:
        """Of ours and of the floor, in seconds."""
        return statistics.median(self.ours_s), statistics.median(self.floor_s)

    @property
    def p99s(self) -> tuple[float, float]:
        """What one call in a hundred takes longer than: of ours and of the floor, in seconds."""
        return p99(self.ours_s), p99(self.floor_s)


@dataclass(frozen=True)
class Pairing:
    """Two works timed in turn.

    Attributes:
        blocks: one after the other.
    """

    blocks: Sequence[Block]

    @property
    def ours_s(self) -> list[float]:
        """Every call of ours."""
        return [time_s for block in self.blocks for time_s in block.ours_s]

    @property
    def floor_s(self) -> list[float]:
        """Every call of the floor."""
        return [time_s for block in self.blocks for time_s in block.floor_s]

    @property
    def floor_spread(self) -> float:
        """The spread of the floor's blocks, largest less smallest, divided by their median."""
        floors = [block.medians[1] for block in self.blocks]
        return (max(floors) - min(floors)) / statistics.median(floors)

    @property
    def steady(self) -> bool:
        """Whether the floor stood still enough for what is made of the times to count."""
        return self.floor_spread <= _MOST_SPREAD

    @property
    def stood_still(self) -> bool:
        """Whether there are enough blocks in a row over which the floor stood still."""
        return len(self.blocks) >= _BLOCKS and self.steadiest.steady

    @property
    def steadiest(self) -> "Pairing":
        """The longest run of at least five blocks over which the floor stood still, else all.

        Which blocks count is decided by the floor alone, so ours cannot gain by it.
        """
        for length in range(len(self.blocks), _BLOCKS - 1, -1):
            for first in range(len(self.blocks) - length + 1):
                run = Pairing(self.blocks[first : first + length])
                if run.steady:
                    return run
        return self


def p99(times_s: Sequence[float]) -> float:
    """What one call in a hundred takes longer than."""
    return statistics.quantiles(times_s, n=100)[98]


def paired(ours: Timed, floor: Timed, calls: int | None = None) -> Pairing:
    """Times floor, ours, ours, floor, until the floor stood still for at least five such blocks.

    Where it never does, all that was timed is returned once the time is over.

    Args:
        ours: one of them.
        floor: the other one.
        calls: of each turn; by default as many as fill a tenth of a second.
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
