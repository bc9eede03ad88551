"""Clients that trickle: they are told off, and nobody else has to wait for them.

How long each may take is in ``test_server_connection.py``, on a clock that takes no time.
"""

import contextlib
import resource
import selectors
import threading
import time

from live_server import PATIENT_S, Connection, head, request, serving, some_verbs

from kubextend.server import Deadlines
from kubextend.verbs import Verbs

SLOW = 150
QUICK = Deadlines(head_s=0.5, body_s=0.5)


def refusals(verbs: Verbs, status: int) -> float:
    name = "kubextend_requests_refused_total"
    return verbs.metrics.registry.get_sample_value(name, {"status": str(status)}) or 0.0


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123  not a file of ours
        return int(statm.read().split()[1]) * resource.getpagesize()


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
    body = request("filter")
    whole = head("POST", "/filter", **{"Content-Length": str(len(body))}) + body
    over = threading.Event()
    good: list[int] = []

    def ask() -> None:
        with Connection(url) as connection:
            while not over.is_set():
                # In one piece: no clock of the server's runs before all of it is there.
                connection.send(whole)
                good.append(connection.answer().status)
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


def test_who_asks_without_end_before_the_first_answer_is_hung_up_on() -> None:
    before = resident_bytes()
    with serving(some_verbs()) as url:
        for _ in range(20):
            with Connection(url) as connection:
                asked = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
                connection.send_until_hung_up(asked)
        with Connection(url) as connection:
            assert connection.get("/livez").status == 200
    assert resident_bytes() - before < 50_000_000


def test_a_hundred_requests_may_wait_for_the_first() -> None:
    with serving(some_verbs()) as url, Connection(url) as connection:
        connection.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" * 101)
        assert {connection.answer().status for _ in range(101)} == {200}
        assert connection.get("/livez").status == 200
