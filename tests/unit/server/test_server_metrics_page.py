"""How often metrics are rendered, however many ask for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
from connection_world import TurnedLoop

from kubextend.metrics import Metrics
from kubextend.server import Health, health_application


class AtOnce(ThreadPoolExecutor):
    """Does the work where it is asked for, so that the clock of the loop stands meanwhile."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args, **more))
        return done


def test_metrics_are_rendered_once_a_second_at_most_and_are_never_older_than_their_request() -> (
    None
):
    metrics = Metrics()
    loop = TurnedLoop()
    began_s: list[float] = []
    asked = 0

    def render() -> tuple[bytes, str]:
        began_s.append(loop.time())
        return b"%d" % asked, "text/plain"

    metrics.render = render  # type: ignore[method-assign]

    async def scrape(client: httpx.AsyncClient) -> None:
        nonlocal asked
        asked += 1
        number = asked
        assert int((await client.get("/metrics")).text) >= number

    async def scenario() -> None:
        loop.set_default_executor(AtOnce())
        transport = httpx.ASGITransport(app=health_application(Health(), metrics))
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(40):
                group.create_task(scrape(client))
                await asyncio.sleep(0.1)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())
    assert len(began_s) == 5
    assert all(after - before > 0.99 for before, after in pairwise(began_s))
