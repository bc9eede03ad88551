"""How often metrics are rendered, however many ask for them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
from connection_world import TurnedLoop

from kubextend.metrics import Metrics
from kubextend.server import Health, health_application
from kubextend.server.health import _MetricsPage


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


def test_of_many_scrapes_at_once_most_are_refused_at_once_so_that_probes_find_a_place() -> None:
    metrics, go = Metrics(), threading.Event()

    def render() -> tuple[bytes, str]:
        go.wait()
        return b"", "text/plain"

    metrics.render = render  # type: ignore[method-assign]

    async def scenario() -> None:
        transport = httpx.ASGITransport(app=health_application(Health(), metrics))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            scrapes = [asyncio.create_task(client.get("/metrics")) for _ in range(40)]
            try:
                # Those that are refused do not wait for the text.
                done, _ = await asyncio.wait(scrapes, return_when=asyncio.FIRST_COMPLETED)
                while len(done) < 8:
                    done, _ = await asyncio.wait(scrapes, timeout=0.01)
            finally:
                go.set()
            statuses = [(await scraped).status_code for scraped in scrapes]
            assert sorted(statuses) == [200] * 32 + [503] * 8
            # Who is answered leaves the place to others.
            assert (await client.get("/metrics")).status_code == 200

    asyncio.run(scenario())


def test_of_many_scrapes_at_once_most_get_the_last_text() -> None:
    metrics, go, texts = Metrics(), threading.Event(), iter([b"first", b"second"])
    go.set()

    def render() -> tuple[bytes, str]:
        go.wait()
        return next(texts), "text/plain"

    metrics.render = render  # type: ignore[method-assign]

    async def scenario() -> list[bytes]:
        page = _MetricsPage(metrics, Health())
        assert await page.fresh() == (b"first", "text/plain")
        go.clear()
        waiting = [asyncio.create_task(page.fresh()) for _ in range(32)]
        # Each task runs to where it waits.
        await asyncio.sleep(0)
        try:
            more = [await page.fresh() for _ in range(3)]
        finally:
            go.set()
        return [text for text, _ in [*more, *[await each for each in waiting]]]

    assert asyncio.run(scenario()) == [b"first"] * 3 + [b"second"] * 32


def test_whoever_leaves_gives_up_the_place_among_the_waiting() -> None:
    metrics, go = Metrics(), threading.Event()

    def render() -> tuple[bytes, str]:
        go.wait()
        return b"", "text/plain"

    metrics.render = render  # type: ignore[method-assign]

    async def scenario() -> int:
        page = _MetricsPage(metrics, Health())
        try:
            for _ in range(40):
                scrape = asyncio.create_task(page.fresh())
                await asyncio.sleep(0)
                scrape.cancel()
                await asyncio.wait([scrape])
            last = asyncio.create_task(page.fresh())
            await asyncio.sleep(0)
        finally:
            go.set()
        return len(await last)

    assert asyncio.run(scenario()) == 2
