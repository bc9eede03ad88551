"""Clients that trickle: they are told off, and nobody else has to wait for them."""

import contextlib
import selectors
import threading
import time
from collections.abc import Callable

from live_server import Connection, head, request, serving, some_verbs

from kubextend import core
from kubextend.server import Deadlines
from kubextend.verbs import Verbs

SLOW = 150
PATIENT_S = 20.0
QUICK = Deadlines(head_s=0.6, body_s=0.9, answer_s=0.9)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refusals(verbs: Verbs, status: int) -> float:
    name = "kubextend_requests_refused_total"
    return verbs.metrics.registry.get_sample_value(name, {"status": str(status)}) or 0.0


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123  not a file of ours
        return int(statm.read().split()[1]) * 4096


def trickle_until_refused(connections: list[Connection], rest: bytes) -> list[bytes]:
    """A byte each, again and again, until all have been answered; what they were answered."""
    answers: dict[int, bytes] = {}
    deadline = time.monotonic() + PATIENT_S
    with selectors.DefaultSelector() as selector:
        for number, connection in enumerate(connections):
            connection.socket.setblocking(False)
            selector.register(connection.socket, selectors.EVENT_READ, number)
        for at in range(len(rest)):
            for key, _ in selector.select(timeout=0.05):
                answers[key.data] = connections[key.data].socket.recv(10_000)
                selector.unregister(key.fileobj)
            if len(answers) == len(connections):
                return list(answers.values())
            assert time.monotonic() < deadline
            for number, connection in enumerate(connections):
                if number not in answers:
                    # It may have been answered, and hung up on, since it was looked at.
                    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                        connection.socket.send(rest[at : at + 1])
    raise AssertionError(len(answers))


def test_heads_and_bodies_that_trickle_are_refused_and_good_clients_do_not_notice() -> None:
    verbs = some_verbs()
    large = head("POST", "/filter", **{"Content-Length": "300000"})
    small = head("POST", "/filter", **{"Content-Length": "30000"})
    begun = [b"P", large, small]
    over = threading.Event()
    good: list[int] = []

    def ask() -> None:
        with Connection(url) as connection:
            while not over.is_set():
                good.append(connection.post("/filter", request("filter")).status)
                good.append(connection.get("/livez").status)

    with serving(verbs, deadlines=QUICK) as url:
        slow = [Connection(url) for _ in range(SLOW)]
        asking = threading.Thread(target=ask)
        asking.start()
        for number, connection in enumerate(slow):
            connection.send(begun[number % len(begun)])
        try:
            answers = trickle_until_refused(slow, b"OST /x HTTP/1.1\r\nX: " + b"x" * 10_000)
        finally:
            over.set()
            asking.join()
        for connection in slow:
            connection.close()
    assert len(answers) == SLOW
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    assert refusals(verbs, 408) == SLOW
    assert set(good) == {200}


def test_a_late_request_is_told_what_was_late() -> None:
    late = [
        (b"POST /filter HT", "the request's head took too long"),
        (head("POST", "/filter", **{"Content-Length": "10"}), "the request's body took too long"),
        (
            head("POST", "/filter", **{"Content-Length": "70000"}),
            "the request's body took too long",
        ),
        (
            head("POST", "/filter", **{"Transfer-Encoding": "chunked"}) + b"3\r\nxxx\r\n",
            "body took",
        ),
    ]
    with serving(some_verbs(), deadlines=QUICK) as url:
        connections = [Connection(url) for _ in late]
        for connection, (sent, _) in zip(connections, late, strict=True):
            connection.send(sent)
        for connection, (_, said) in zip(connections, late, strict=True):
            with connection:
                answer = connection.answer()
                assert answer.status == 408
                assert said in answer.error
                assert answer.headers["connection"] == "close"
                assert connection.is_closed()


def test_a_connection_on_which_nothing_was_asked_yet_may_wait() -> None:
    # Go opens connections ahead of their use, and does not repeat a POST on one that was closed.
    with (
        serving(some_verbs(), deadlines=QUICK) as url,
        Connection(url) as fresh,
        Connection(url) as used,
    ):
        assert used.get("/livez").status == 200
        time.sleep(2 * QUICK.body_s)
        assert fresh.post("/filter", request("filter")).status == 200
        assert used.post("/filter", request("filter")).status == 200


def test_a_connection_that_is_never_used_is_closed_in_the_end() -> None:
    with serving(some_verbs(), keep_alive_s=1) as url, Connection(url) as connection:
        assert connection.is_closed()


def test_a_body_may_take_as_long_as_it_keeps_its_pace() -> None:
    deadlines = Deadlines(body_s=0.3, slowest_bytes=200_000)
    body = request("filter") + b" " * 600_000
    with serving(some_verbs(), deadlines=deadlines) as url:
        for pieces in (head("POST", "/filter", **{"Content-Length": str(len(body))}), b""):
            # Past the parser, and through it.
            with Connection(url) as connection:
                if pieces:
                    connection.send(pieces)
                else:
                    connection.send(head("POST", "/filter", **{"Transfer-Encoding": "chunked"}))
                for at in range(0, len(body), 20_000):
                    piece = body[at : at + 20_000]
                    connection.send(piece if pieces else b"%x\r\n%b\r\n" % (len(piece), piece))
                    time.sleep(0.04)
                connection.send(b"" if pieces else b"0\r\n\r\n")
                assert connection.answer().status == 200


class SlowApi:
    """A binder whose API takes longer than a client may."""

    def bind(self, *_: str) -> None:
        time.sleep(2 * QUICK.body_s)


def test_a_request_that_waits_behind_another_is_not_late() -> None:
    profiles = some_verbs().profiles
    verbs = Verbs(profiles, request_store=core.NodeStore(), binder=SlowApi())
    body = b" " * 400_000 + request("filter")
    with serving(verbs, deadlines=QUICK) as url, Connection(url) as connection:
        bind = request("bind")
        connection.send(head("POST", "/bind", **{"Content-Length": str(len(bind))}), bind)
        connection.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body)
        assert connection.answer().status == 200
        assert connection.answer().status == 200


def test_who_asks_without_end_before_the_first_answer_is_hung_up_on() -> None:
    before = resident_bytes()
    with serving(some_verbs()) as url:
        for _ in range(20):
            with Connection(url) as connection:
                asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
                connection.send_until_hung_up(asked, PATIENT_S)
        with Connection(url) as connection:
            assert connection.get("/livez").status == 200
    assert resident_bytes() - before < 50_000_000


def test_a_hundred_requests_may_wait_for_the_first() -> None:
    with serving(some_verbs()) as url, Connection(url) as connection:
        connection.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" * 101)
        assert {connection.answer().status for _ in range(101)} == {200}
        assert connection.get("/livez").status == 200
