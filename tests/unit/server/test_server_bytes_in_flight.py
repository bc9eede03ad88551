import asyncio
from concurrent.futures import Future

import pytest

from kubextend.server.connection.bytes_in_flight import BytesInFlight, Share
from kubextend.server.reply import RefusedError


def test_a_share_is_given_back_when_the_last_that_holds_it_lets_go() -> None:
    async def scenario() -> list[int]:
        in_flight = BytesInFlight(100)
        share = Share(in_flight)
        share.take(60)
        jobs: list[Future[None]] = [Future(), Future()]
        for job in jobs:
            share.keep_until(job)
        seen = []
        share.give_back()
        share.give_back()
        seen.append(in_flight.count)
        jobs[0].cancel()
        await asyncio.sleep(0)
        seen.append(in_flight.count)
        await asyncio.to_thread(jobs[1].set_result, None)
        await asyncio.sleep(0)
        seen.append(in_flight.count)
        return seen

    assert asyncio.run(scenario()) == [60, 60, 0]


def test_shares_are_taken_up_to_the_limit_and_what_is_given_back_counts_no_more() -> None:
    in_flight = BytesInFlight(100)
    first, second = Share(in_flight), Share(in_flight)
    first.take(60)
    second.take(40)
    assert in_flight.count == 100
    with pytest.raises(RefusedError) as refused:
        second.take(1)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1)
    assert in_flight.count == 100
    second.give_back()
    second.give_back()
    assert in_flight.count == 60
    first.take(40)
    first.give_back()
    assert in_flight.count == 0


def test_the_most_that_was_in_flight_is_told_once() -> None:
    in_flight = BytesInFlight(100)
    room = in_flight.common
    room.take(60)
    room.give_back(60)
    room.take(5)
    assert in_flight.highest_count() == 60
    assert in_flight.highest_count() == 5
    room.give_back(5)
    assert in_flight.highest_count() == 5
    assert in_flight.highest_count() == 0


def test_a_body_of_1_mib_takes_the_reserve_and_a_larger_one_does_not() -> None:
    mib = 1024 * 1024
    in_flight = BytesInFlight(4 * mib, reserved_bytes=mib)
    assert in_flight.room_for(mib) is not in_flight.common
    assert in_flight.room_for(mib + 1) is in_flight.common
    in_flight.common.take(3 * mib)
    assert in_flight.room_for(mib) is not in_flight.common
    with pytest.raises(RefusedError):
        in_flight.room_for(mib + 1)


def test_a_small_body_that_outgrows_the_reserve_is_not_refused_for_an_older_one() -> None:
    async def scenario() -> None:
        in_flight = BytesInFlight(1000, reserved_bytes=100)
        large, small, other = Share(in_flight), Share(in_flight), Share(in_flight)
        large.take(500)
        large.begin()
        for share, size in ((small, 60), (other, 40)):
            share.expect(size)
            share.take(size)
            share.begin()
        # The reserve is full, so the small body goes to the other room, where the large one began.
        small.came(80)
        assert in_flight.common.count == 580
        with pytest.raises(RefusedError):
            large.take(400)
        assert not small.end()
        assert in_flight.count == 620

    asyncio.run(scenario())
