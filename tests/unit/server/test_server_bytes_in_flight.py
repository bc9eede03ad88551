import asyncio
from concurrent.futures import Future

import pytest

from kubextend.server.connection.limits import Admission, Share
from kubextend.server.reply import RefusedError


def test_a_share_is_given_back_when_the_last_that_holds_it_lets_go() -> None:
    async def scenario() -> list[int]:
        admission = Admission(100)
        share = Share(admission)
        share.take(60)
        jobs: list[Future[None]] = [Future(), Future()]
        for job in jobs:
            share.keep_until(job)
        seen = []
        share.give_back()
        share.give_back()
        seen.append(admission.in_flight_bytes)
        jobs[0].cancel()
        await asyncio.sleep(0)
        seen.append(admission.in_flight_bytes)
        await asyncio.to_thread(jobs[1].set_result, None)
        await asyncio.sleep(0)
        seen.append(admission.in_flight_bytes)
        return seen

    assert asyncio.run(scenario()) == [60, 60, 0]


def test_shares_are_admitted_up_to_the_limit_and_what_is_given_back_counts_no_more() -> None:
    admission = Admission(100)
    first, second = Share(admission), Share(admission)
    first.take(60)
    second.take(40)
    assert admission.in_flight_bytes == 100
    with pytest.raises(RefusedError) as refused:
        second.take(1)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1)
    assert admission.in_flight_bytes == 100
    second.give_back()
    second.give_back()
    assert admission.in_flight_bytes == 60
    first.take(40)
    first.give_back()
    assert admission.in_flight_bytes == 0
