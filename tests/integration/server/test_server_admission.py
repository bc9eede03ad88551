"""Bytes in flight: what is too much is refused at once, and nobody else notices."""

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from live_server import (
    NODES,
    PATIENT_S,
    Answer,
    Connection,
    eventually,
    head,
    node,
    read_by_now,
    request,
    serving,
    some_verbs,
)

from kubextend.profile import Profile, Profiles
from kubextend.server import Limits
from kubextend.verbs import Verbs
from make_verbs import make_verbs

LARGE = 1_000_000


def in_flight(verbs: Verbs) -> float:
    name = "kubextend_requests_in_flight_bytes"
    return verbs.metrics.registry.get_sample_value(name) or 0.0


def body_of(size: int, name: str = "big") -> bytes:
    big = node(name, rdma="true")
    big["metadata"]["annotations"] = {"a": "x" * size}
    return request("filter", nodes=[*NODES, big])


def names_of(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(answer.body)["Nodes"]["items"]]


class Slow:
    """A filter that goes on when it is told to.

    Attributes:
        begun: how many calls.
    """

    name = "Slow"

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = threading.Event()

    def filter_nodes(self, *_: object) -> list[object]:
        self.begun += 1
        assert self.go_on.wait(PATIENT_S)
        return []


def slow_verbs(slow: Slow) -> Verbs:
    """Verbs whose filter holds the body of its request until it is told to go on."""
    return make_verbs(
        Profiles.of([Profile("default-scheduler", filter=[slow])]),
        http_timeout_s=PATIENT_S,
    )


def test_what_is_too_much_is_refused_before_its_body_comes() -> None:
    slow = Slow()
    verbs = slow_verbs(slow)
    body = body_of(LARGE)
    limits = Limits(in_flight_bytes=len(body) + 1000)
    with (
        serving(verbs, limits=limits) as url,
        Connection(url) as first,
        Connection(url) as second,
        Connection(url) as idle,
    ):
        assert idle.get("/livez").status == 200
        declared = head("POST", "/filter", **{"Content-Length": str(len(body))})
        first.send(declared, body)
        eventually(lambda: slow.begun == 1)
        assert in_flight(verbs) == len(body)
        second.send(declared)
        answer = second.answer()
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert "server.maxInFlightBytes" in answer.error
        # Its body comes all the same, and is dropped.
        second.send(body)
        assert second.post("/bind", request("bind")).status == 200
        assert second.get("/livez").status == 200
        slow.go_on.set()
        assert names_of(first.answer()) == ["good", "plain", "big"]
        assert second.post("/filter", body).status == 200
    assert in_flight(verbs) == 0
    labels = {"status": "503"}
    name = "kubextend_requests_refused_total"
    assert verbs.metrics.registry.get_sample_value(name, labels) == 1


def test_a_small_body_is_answered_while_large_ones_hold_all_that_they_may() -> None:
    slow = Slow()
    verbs = slow_verbs(slow)
    large = body_of(LARGE + 1_000_000)
    limits = Limits(len(large), len(large) + 1000)
    with (
        serving(verbs, limits=limits) as url,
        Connection(url) as held,
        Connection(url) as quick,
    ):
        held.send(head("POST", "/filter", **{"Content-Length": str(len(large))}), large)
        eventually(lambda: slow.begun)
        assert in_flight(verbs) == len(large)
        assert quick.post("/filter", b"{}").status == 200
        slow.go_on.set()
        assert held.answer().status == 200
    assert in_flight(verbs) == 0


def test_clients_that_announce_bodies_and_send_a_byte_hold_up_nobody() -> None:
    verbs = some_verbs()
    body = body_of(LARGE)
    with serving(verbs, limits=Limits(in_flight_bytes=2 * len(body))) as url:
        declared = head("POST", "/filter", **{"Content-Length": str(len(body))})
        silent = [Connection(url) for _ in range(20)]
        for client in silent:
            client.send(declared, body[:1])
        read_by_now(url)
        for _ in range(3):
            with Connection(url) as honest:
                assert names_of(honest.post("/filter", body)) == ["good", "big"]
        assert not any(client.is_answered() for client in silent)
        silent[0].send(body[1:])
        assert names_of(silent[0].answer()) == ["good", "big"]
        for client in silent:
            client.close()
        eventually(lambda: in_flight(verbs) == 0)


def test_chunks_are_counted_while_they_come() -> None:
    verbs = some_verbs()
    with serving(verbs, limits=Limits(in_flight_bytes=1000)) as url, Connection(url) as connection:
        connection.send(head("POST", "/filter", **{"Transfer-Encoding": "chunked"}))
        connection.send(b"1f4\r\n" + b" " * 500 + b"\r\n")
        eventually(lambda: in_flight(verbs) == 500)
        connection.send(b"1f5\r\n" + b" " * 501 + b"\r\n")
        assert connection.answer().status == 503
        assert connection.is_closed()
        # The client may read the answer before the server has given the bytes back.
        eventually(lambda: in_flight(verbs) == 0)


def test_who_waits_for_leave_to_send_is_refused_without_it() -> None:
    slow = Slow()
    body = body_of(LARGE)
    with (
        serving(slow_verbs(slow), limits=Limits(in_flight_bytes=len(body))) as url,
        Connection(url) as first,
        Connection(url) as second,
        Connection(url) as third,
    ):
        declared = {"Content-Length": str(len(body))}
        first.send(head("POST", "/filter", **declared), body)
        eventually(lambda: slow.begun == 1)
        for length, client in ((len(body), second), (100, third)):
            refused = {"Content-Length": str(length), "Expect": "100-continue"}
            client.send(head("POST", "/filter", **refused))
            answer = client.answer()
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert client.is_closed()
        slow.go_on.set()
        assert first.answer().status == 200


def test_bodies_of_clients_that_left_count_as_long_as_a_thread_holds_them() -> None:
    slow = Slow()
    verbs = slow_verbs(slow)
    body = body_of(LARGE)
    threads, queued = 8, 4
    limits = Limits(in_flight_bytes=(threads + queued) * len(body))
    with serving(verbs, limits=limits) as url, Connection(url) as other:
        clients = [Connection(url) for _ in range(threads + queued)]
        for client in clients:
            client.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body)
        eventually(lambda: slow.begun == threads)
        eventually(lambda: in_flight(verbs) == (threads + queued) * len(body))
        assert other.post("/filter", body).status == 503
        for client in clients:
            client.close()
        # Those that have not begun never will.
        eventually(lambda: in_flight(verbs) == threads * len(body))
        assert other.get("/livez").status == 200
        assert in_flight(verbs) == threads * len(body)
        slow.go_on.set()
        eventually(lambda: in_flight(verbs) == 0)
        assert other.post("/filter", body).status == 200
    assert slow.begun == threads + 1


class StuckApi:
    """A binder whose API answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = threading.Event()

    def bind(self, *_: str, **__: object) -> None:
        self.asked += 1
        self.answers.wait(timeout=PATIENT_S)


def test_binds_that_are_held_do_not_count() -> None:
    api = StuckApi()
    verbs = make_verbs(Profiles({}), binder=api)
    body = request("bind")

    def bind(url: str) -> int:
        with Connection(url) as connection:
            return connection.post("/bind", body).status

    limits = Limits(in_flight_bytes=2 * len(body))
    with serving(verbs, limits=limits) as url, ThreadPoolExecutor(5) as clients:
        held = []
        for number in range(1, 6):
            held.append(clients.submit(bind, url))
            eventually(lambda number=number: api.asked == number)
        assert in_flight(verbs) == 0
        api.answers.set()
        assert {future.result() for future in held} == {200}


def test_of_a_burst_every_request_is_answered_rightly_or_refused_and_livez_goes_on() -> None:
    verbs = some_verbs()
    at_once = 24
    limits = Limits(in_flight_bytes=6 * LARGE)
    over = threading.Event()
    lives: list[int] = []

    def look() -> None:
        with Connection(url) as connection:
            while not over.is_set():
                lives.append(connection.get("/livez").status)

    def ask(client: int) -> list[str]:
        body = body_of(LARGE, f"n{client}")
        while True:
            # A body that is refused while it comes ends the connection, maybe before the client
            # has read why.
            with Connection(url) as connection, contextlib.suppress(EOFError, ConnectionError):
                answer = connection.post("/filter", body)
                if answer.status != 503:
                    assert answer.status == 200
                    return names_of(answer)
            time.sleep(0.01)

    with serving(verbs, limits=limits) as url, ThreadPoolExecutor(at_once + 1) as clients:
        looking = clients.submit(look)
        results = list(clients.map(ask, range(at_once)))
        over.set()
        looking.result()
    assert results == [["good", f"n{client}"] for client in range(at_once)]
    assert set(lives) == {200}
    assert in_flight(verbs) == 0
