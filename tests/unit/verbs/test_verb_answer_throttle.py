"""How answers about rejected pods of one namespace are spread over time."""

import asyncio

import pytest
from verb_world import Clock

from kubextend.verbs.bind_answer_throttle import AnswerThrottle


def delays_ms(throttle: AnswerThrottle, number: int, namespace: str = "a") -> list[int]:
    """Return how long so many answers have to wait that are ready now, in ms."""
    return [round(1000 * throttle.delay_s(namespace)) for _ in range(number)]


PATIENCE_S = 60.0


async def until_waiting(throttle: AnswerThrottle, number: int) -> None:
    """Return once so many answers wait."""
    for _ in range(100):
        if len(throttle) == number:
            return
        await asyncio.sleep(0)
    raise AssertionError(len(throttle))


def test_twenty_are_answered_at_once_and_then_one_each_25_ms() -> None:
    assert delays_ms(AnswerThrottle(Clock()), 24) == [0] * 20 + [25, 50, 75, 100]


def test_no_namespace_waits_for_another() -> None:
    throttle = AnswerThrottle(Clock())
    delays_ms(throttle, 100)
    assert delays_ms(throttle, 21, "b") == [0] * 20 + [25]


@pytest.mark.parametrize(
    ("rest_s", "delays"),
    [
        # As many are answered at once as would have been answered meanwhile.
        (0.0, [25, 50, 75]),
        (0.05, [0, 0, 25]),
        (1.0, [0, 0, 0]),
        (3600.0, [0, 0, 0]),
    ],
)
def test_a_namespace_that_rested_is_answered_at_once_again(
    rest_s: float, delays: list[int]
) -> None:
    clock = Clock()
    throttle = AnswerThrottle(clock)
    delays_ms(throttle, 20)
    clock.now_s += rest_s
    assert delays_ms(throttle, 3) == delays


def test_no_rest_lets_more_than_twenty_pass_at_once() -> None:
    clock = Clock()
    throttle = AnswerThrottle(clock)
    delays_ms(throttle, 20)
    clock.now_s += 3600
    assert delays_ms(throttle, 21)[-2:] == [0, 25]


def test_a_namespace_whose_answers_still_wait_is_not_forgotten() -> None:
    clock = Clock()
    throttle = AnswerThrottle(clock)
    delays_ms(throttle, 220)
    clock.now_s += 2
    assert delays_ms(throttle, 1) == [3025]


def test_no_answer_waits_longer_than_25_s_and_those_beyond_it_make_none_wait() -> None:
    clock = Clock()
    throttle = AnswerThrottle(clock)
    assert max(delays_ms(throttle, 1020)) == 25_000
    assert delays_ms(throttle, 5000) == [0] * 5000
    clock.now_s += 25
    assert delays_ms(throttle, 1) == [25]


def test_no_answer_waits_beside_a_thousand_others() -> None:
    async def run() -> None:
        throttle = AnswerThrottle(Clock())
        delays_ms(throttle, 100)
        waiting = [asyncio.create_task(throttle.wait(3600.0)) for _ in range(1000)]
        await until_waiting(throttle, 1000)
        waiting.pop().cancel()
        await until_waiting(throttle, 999)
        assert throttle.delay_s("a") > 0
        waiting.append(asyncio.create_task(throttle.wait(3600.0)))
        await until_waiting(throttle, 1000)
        assert throttle.delay_s("a") == throttle.delay_s("b") == 0
        throttle.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*waiting)
        assert len(throttle) == 0

    asyncio.run(run())


def test_the_wait_ends_by_itself() -> None:
    async def run() -> None:
        throttle = AnswerThrottle()
        await throttle.wait(0.001)
        await throttle.wait(0.0)
        assert len(throttle) == 0

    asyncio.run(run())


def test_once_closed_nothing_waits() -> None:
    async def run() -> None:
        throttle = AnswerThrottle(Clock())
        delays_ms(throttle, 100)
        throttle.close()
        assert throttle.delay_s("a") == 0
        async with asyncio.timeout(PATIENCE_S):
            await throttle.wait(3600.0)

    asyncio.run(run())
