"""How answers about one namespace are spread over time."""

import asyncio

import pytest
from verb_world import Clock

from kubextend.verbs.answer_throttle import AnswerThrottle


class Throttled:
    """A throttle whose waits are noted and take no time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waits_s: list[float] = []
        self.throttle = AnswerThrottle(self.clock, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        if wait_s := round(seconds, 6):
            self.waits_s.append(wait_s)

    def turns(self, number: int, namespace: str = "a", until_s: float | None = None) -> list[float]:
        """Return how long so many answers waited that are ready now, without those that did not."""
        self.waits_s.clear()

        async def take() -> None:
            for _ in range(number):
                await self.throttle.turn(namespace, until_s)

        asyncio.run(take())
        return list(self.waits_s)


def test_twenty_are_answered_at_once_and_then_one_each_50_ms() -> None:
    assert Throttled().turns(24) == [0.05, 0.1, 0.15, 0.2]


def test_no_namespace_waits_for_another() -> None:
    throttled = Throttled()
    throttled.turns(100)
    assert throttled.turns(20, "b") == []
    assert throttled.turns(1, "b") == [0.05]


@pytest.mark.parametrize(
    ("rest_s", "waits_s"),
    [
        # As many are answered at once again as the time since would have let pass.
        (0.0, [0.05, 0.1, 0.15]),
        (0.1, [0.05]),
        (1.0, []),
        (3600.0, []),
    ],
)
def test_a_namespace_that_rested_is_answered_at_once_again(
    rest_s: float, waits_s: list[float]
) -> None:
    throttled = Throttled()
    assert throttled.turns(20) == []
    throttled.clock.now_s += rest_s
    assert throttled.turns(3) == waits_s


def test_no_rest_lets_more_than_twenty_pass_at_once() -> None:
    throttled = Throttled()
    throttled.turns(20)
    throttled.clock.now_s += 3600
    assert throttled.turns(21) == [0.05]


def test_no_answer_waits_longer_than_its_request() -> None:
    throttled = Throttled()
    until_s = throttled.clock.now_s + 0.12
    assert throttled.turns(25, until_s=until_s) == [0.05, 0.1, 0.12, 0.12, 0.12]
    throttled.clock.now_s += 0.2
    assert throttled.turns(1, until_s=until_s) == []
