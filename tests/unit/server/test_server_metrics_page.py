"""How often metrics are rendered, however many ask for them."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anyio.to_thread
import httpx
import pytest
from connection_world import TurnedLoop

from kubextend.metrics import Metrics
from kubextend.server import Health, health_application
from kubextend.server.health import _MetricsPage


class WithoutThreads(TurnedLoop):
    """A loop that does the work for threads itself, so that its clock stands meanwhile.

    Attributes:
        holds: whether such work waits until the test lets it go on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self._held: list[Callable[[], None]] = []

    def run_in_executor(  # type: ignore[override]  # typeshed has a form with type variables
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        assert executor is None
        done = self.create_future()
        self._held.append(lambda: done.set_result(func(*args)))
        if not self.holds:
            self.go_on()
        return done

    def go_on(self) -> None:
        self.holds = False
        while self._held:
            self._held.pop(0)()


def test_metrics_are_rendered_once_a_second_at_most_and_are_never_older_than_their_request() -> (
    None
):
    metrics = Metrics()
    loop = WithoutThreads()
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


async def without_thread(work: Callable[[], Any]) -> Any:
    return work()


def test_of_many_scrapes_at_once_most_are_refused_at_once_so_that_probes_find_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Starlette makes the answer 503 on a thread.
    monkeypatch.setattr(anyio.to_thread, "run_sync", without_thread)
    metrics, loop = Metrics(), WithoutThreads()
    metrics.render = lambda: (b"", "text/plain")  # type: ignore[method-assign]

    async def scenario() -> None:
        loop.holds = True
        transport = httpx.ASGITransport(app=health_application(Health(), metrics))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            scrapes = [asyncio.create_task(client.get("/metrics")) for _ in range(40)]
            # The clock goes on only when everybody waits: here for the text.
            await asyncio.sleep(1)
            refused = [scrape for scrape in scrapes if scrape.done()]
            assert [scrape.result().status_code for scrape in refused] == [503] * 8
            loop.go_on()
            statuses = Counter(answer.status_code for answer in await asyncio.gather(*scrapes))
            assert statuses == {503: 8, 200: 32}
            # Who is answered leaves the place to others.
            assert (await client.get("/metrics")).status_code == 200

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scenario())


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
