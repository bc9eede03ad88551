import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from live_server import NODES, Connection, head, request, serving

from kubextend import core
from kubextend.profile import Profiles
from kubextend.server.workers import BIND_THREADS, Workers
from kubextend.verbs import Verbs


def binding_verbs(api: Any) -> Verbs:
    return Verbs(
        Profiles({}),
        request_store=core.NodeStore(),
        binder=api,
        in_thread=Workers().wait_for,
    )


class SlowApi:
    """A binder whose API answers once everyone has asked, or after a while."""

    def __init__(self, expected: int) -> None:
        self._barrier = threading.Barrier(expected)

    def bind(self, *_: str) -> None:
        self._barrier.wait(timeout=20)


def test_slow_bindings_run_side_by_side_and_hold_up_nobody() -> None:
    parallel = 40
    verbs = binding_verbs(SlowApi(parallel + 1))
    slowest_s = 0.0

    def bind(url: str) -> bytes:
        with Connection(url) as connection:
            return connection.post("/bind", request("bind")).body

    with serving(verbs) as url, ThreadPoolExecutor(parallel + 1) as clients:
        waiting = [clients.submit(bind, url) for _ in range(parallel)]
        time.sleep(0.3)
        with Connection(url) as connection:
            for _ in range(50):
                started_s = time.perf_counter()
                assert connection.post("/filter", request("filter")).status == 200
                slowest_s = max(slowest_s, time.perf_counter() - started_s)
        last = clients.submit(bind, url)
        assert {future.result() for future in [*waiting, last]} == {b'{"Error":""}'}
    assert slowest_s < 1


class StuckApi:
    """A binder whose API answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def bind(self, _namespace: str, name: str, *_: str) -> None:
        self.asked.append(name)
        self.answers.wait(timeout=20)


def binding_of(name: str) -> bytes:
    return request("bind").replace(b'"p"', f'"{name}"'.encode())


def test_a_binding_that_nobody_waits_for_any_more_does_not_begin() -> None:
    api = StuckApi()
    verbs = binding_verbs(api)

    def bind(name: str) -> bytes:
        with Connection(url) as connection:
            return connection.post("/bind", binding_of(name)).body

    with serving(verbs) as url, ThreadPoolExecutor(BIND_THREADS + 1) as clients:
        begun = [clients.submit(bind, f"begun-{number}") for number in range(BIND_THREADS)]
        until_s = time.monotonic() + 10
        while len(api.asked) < BIND_THREADS:
            assert time.monotonic() < until_s, f"{len(api.asked)} have begun"
            time.sleep(0.01)
        with Connection(url) as connection:
            body = binding_of("given-up")
            connection.send(head("POST", "/bind", **{"Content-Length": str(len(body))}), body)
            time.sleep(0.2)
        waiting = clients.submit(bind, "waiting")
        time.sleep(0.2)
        api.answers.set()
        assert {future.result() for future in [*begun, waiting]} == {b'{"Error":""}'}
    assert "waiting" in api.asked
    assert "given-up" not in api.asked


def test_many_clients_at_once_each_get_their_own_answer(url: str) -> None:
    def ask(client: int) -> set[str]:
        mine = {"metadata": {"name": f"n{client}", "labels": {"rdma": "true"}}, "spec": {}}
        kept: set[str] = set()
        with Connection(url) as connection:
            for _ in range(20):
                answer = connection.post("/filter", request("filter", nodes=[*NODES, mine]))
                items = json.loads(answer.body)["Nodes"]["items"]
                kept |= {item["metadata"]["name"] for item in items}
        return kept

    with ThreadPoolExecutor(16) as clients:
        results = list(clients.map(ask, range(16)))
    assert results == [{"good", f"n{client}"} for client in range(16)]


def test_a_client_that_reads_late_gets_every_answer_whole(url: str) -> None:
    large = request("filter", nodes=[{**NODES[0], "padding": "x" * 20_000_000}])
    with Connection(url) as connection:
        sending = threading.Thread(target=connection.send, args=[filtering(large) * 3])
        sending.start()
        time.sleep(0.5)
        answers = [connection.answer() for _ in range(3)]
        sending.join(timeout=10)
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert {len(answer.body) > len(large) * 0.9 for answer in answers} == {True}


def filtering(body: bytes) -> bytes:
    return head("POST", "/filter", **{"Content-Length": str(len(body))}) + body


def test_a_call_that_has_begun_counts_however_often_it_is_cancelled() -> None:
    begun, go = threading.Event(), threading.Event()

    def call() -> str:
        begun.set()
        assert go.wait(20)
        return "bound"

    async def scenario() -> str:
        waiting = asyncio.create_task(Workers().wait_for(call))
        assert await asyncio.to_thread(begun.wait, 20)
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0)
        go.set()
        return await waiting

    assert asyncio.run(scenario()) == "bound"
