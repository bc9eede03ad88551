import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from live_server import (
    NODES,
    PATIENT_S,
    Connection,
    eventually,
    head,
    read_by_now,
    request,
    running,
    serving,
)

from kubextend.profile import Profiles
from kubextend.server import http_service as service_module
from kubextend.server.api_threads import BIND_THREADS, ApiThreads
from kubextend.verbs import Verbs
from make_verbs import make_verbs


def binding_verbs(api: Any) -> Verbs:
    return make_verbs(
        Profiles({}),
        binder=api,
        in_thread=ApiThreads().wait_for,
    )


class SlowApi:
    """A binder whose API answers once everyone has asked.

    Attributes:
        waiting: how many have asked by now.
    """

    def __init__(self, expected: int) -> None:
        self._barrier = threading.Barrier(expected)

    @property
    def waiting(self) -> int:
        return self._barrier.n_waiting

    def bind(self, *_: str, **__: object) -> None:
        self._barrier.wait(timeout=PATIENT_S)


def test_slow_bindings_run_side_by_side_and_hold_up_nobody() -> None:
    parallel = 40
    api = SlowApi(parallel + 1)
    verbs = binding_verbs(api)

    def bind(url: str) -> bytes:
        with Connection(url) as connection:
            return connection.post("/bind", request("bind")).body

    with serving(verbs) as url, ThreadPoolExecutor(parallel + 1) as clients:
        waiting = [clients.submit(bind, url) for _ in range(parallel)]
        eventually(lambda: api.waiting == parallel)
        with Connection(url) as connection:
            for _ in range(50):
                assert connection.post("/filter", request("filter")).status == 200
        assert api.waiting == parallel
        last = clients.submit(bind, url)
        assert {future.result() for future in [*waiting, last]} == {b'{"Error":""}'}


class StuckApi:
    """A binder whose API answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def bind(
        self,
        _namespace: str,
        name: str,
        *_: str,
        **__: object,
    ) -> None:
        self.asked.append(name)
        self.answers.wait(timeout=PATIENT_S)


def binding_of(name: str) -> bytes:
    return request("bind").replace(b'"p"', f'"{name}"'.encode())


def binds(verbs: Verbs, histogram: str) -> float:
    """How many binds were counted in it by now."""
    counted = verbs.metrics.registry.get_sample_value(f"{histogram}_count", {"verb": "bind"})
    return counted or 0.0


def test_a_binding_that_nobody_waits_for_any_more_does_not_begin() -> None:
    api = StuckApi()
    verbs = binding_verbs(api)

    def bind(name: str) -> bytes:
        with Connection(url) as connection:
            return connection.post("/bind", binding_of(name)).body

    with serving(verbs) as url, ThreadPoolExecutor(BIND_THREADS + 1) as clients:
        begun = [clients.submit(bind, f"begun-{number}") for number in range(BIND_THREADS)]
        eventually(lambda: len(api.asked) == BIND_THREADS)
        with Connection(url) as connection:
            body = binding_of("given-up")
            connection.send(head("POST", "/bind", **{"Content-Length": str(len(body))}), body)
            eventually(lambda: binds(verbs, "kubextend_request_body_bytes") == BIND_THREADS + 1)
            read_by_now(url)
            assert binds(verbs, "kubextend_verb_duration_seconds") == 0
        # Nobody waits for it any more, while all the others still wait.
        eventually(lambda: binds(verbs, "kubextend_verb_duration_seconds") == 1)
        waiting = clients.submit(bind, "waiting")
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


def test_a_client_that_reads_late_gets_every_answer_whole(url: str, verbs: Verbs) -> None:
    def written() -> float:
        labels = {"verb": "filter", "result": "ok"}
        name = "kubextend_verb_requests_total"
        return verbs.metrics.registry.get_sample_value(name, labels) or 0.0

    before = written()
    large = request("filter", nodes=[{**NODES[0], "padding": "x" * 20_000_000}])
    with Connection(url) as connection:
        sending = threading.Thread(target=connection.send, args=[filtering(large) * 3])
        sending.start()
        eventually(lambda: written() > before)
        answers = [connection.answer() for _ in range(3)]
        sending.join(timeout=PATIENT_S)
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert {len(answer.body) > len(large) * 0.9 for answer in answers} == {True}


def filtering(body: bytes) -> bytes:
    return head("POST", "/filter", **{"Content-Length": str(len(body))}) + body


def test_told_to_end_twice_the_server_hangs_up_though_a_binding_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_module, "_LAST_WORDS_S", 0.05)
    api = StuckApi()
    body = binding_of("slow")
    with running(binding_verbs(api)) as (url, service), Connection(url) as connection:
        connection.send(head("POST", "/bind", **{"Content-Length": str(len(body))}), body)
        eventually(lambda: api.asked)
        service.stop()
        service.stop()
        try:
            assert connection.is_closed()
            assert not api.answers.is_set()
        finally:
            api.answers.set()


def test_a_call_that_has_not_begun_when_the_workers_stop_never_does() -> None:
    begun, go = threading.Event(), threading.Event()
    made: list[str] = []

    def first() -> None:
        begun.set()
        assert go.wait(PATIENT_S)
        made.append("first")

    async def scenario() -> list[Any]:
        workers = ApiThreads(1)
        binding = asyncio.create_task(workers.wait_for(first))
        assert await asyncio.to_thread(begun.wait, PATIENT_S)
        waiting = asyncio.create_task(workers.wait_for(lambda: made.append("second")))
        await asyncio.sleep(0)
        workers.stop()
        go.set()
        return await asyncio.gather(binding, waiting, return_exceptions=True)

    bound, waited = asyncio.run(scenario())
    assert (bound, made) == (None, ["first"])
    assert isinstance(waited, asyncio.CancelledError)


def test_a_call_that_has_begun_counts_however_often_it_is_cancelled() -> None:
    begun, go = threading.Event(), threading.Event()

    def call() -> str:
        begun.set()
        assert go.wait(PATIENT_S)
        return "bound"

    async def scenario() -> str:
        waiting = asyncio.create_task(ApiThreads().wait_for(call))
        assert await asyncio.to_thread(begun.wait, PATIENT_S)
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0)
        go.set()
        return await waiting

    assert asyncio.run(scenario()) == "bound"
