"""Clients that mean to fill the server: each attack has its row in SECURITY.md."""

import contextlib
import json
import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors.extender import HOLDING, NODES, PATIENT_S, Extender, names_of, node, pod, request
from tests.doors.sockets import Connection, eventually, head, posted, read_by_now, serve

from kubextend.testing import Bindings

pytestmark = pytest.mark.slow

MB = 1_000_000
IN_FLIGHT = "kubextend_requests_in_flight_bytes"
REFUSED = "kubextend_requests_refused_total"
HUNG_UP = r"reset|Broken pipe|Connection aborted"


def body_of(size: int) -> bytes:
    return request("filter", nodes=[*NODES, node("big", size, rdma="true")])


def limits(body_bytes: int, in_flight_bytes: int) -> dict[str, int]:
    return {"maxBodyBytes": body_bytes, "maxInFlightBytes": in_flight_bytes}


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_a_connection_beyond_those_that_a_listener_may_have_is_closed_at_once() -> None:
    extender = Extender()
    with serve(extender, most_connections=2) as served, contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(Connection(served.url)) for _ in range(2))
        assert {each.get("/livez").status for each in (first, second)} == {200}
        with Connection(served.url) as third:
            assert third.is_closed()
        assert first.post("/filter", request("filter")).status == 200


def trickle(connections: list[Connection], rest: bytes) -> Iterator[bytes]:
    """Send a byte on each connection, again and again, and yield the answers."""
    deadline = time.monotonic() + PATIENT_S
    left = dict(enumerate(connections))
    with selectors.DefaultSelector() as selector:
        for number, connection in left.items():
            connection.socket.setblocking(False)
            selector.register(connection.socket, selectors.EVENT_READ, number)
        for at in range(len(rest)):
            for key, _ in selector.select(timeout=0.05):
                answer = b""
                # Who still sends may hear nothing but the end.
                with contextlib.suppress(ConnectionResetError):
                    answer = left.pop(key.data).socket.recv(10_000)
                yield answer
                selector.unregister(key.fileobj)
            if not left:
                return
            assert time.monotonic() < deadline
            for connection in left.values():
                # It may have been answered, and hung up on, since the last look.
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    connection.socket.send(rest[at : at + 1])
    raise AssertionError(len(left))


def test_heads_and_bodies_that_trickle_are_refused_and_good_clients_do_not_notice() -> None:
    extender, over = Extender(), threading.Event()
    good: list[int] = []

    def ask() -> None:
        with Connection(served.url) as connection:
            while not over.is_set():
                # In one piece: no clock of the server's runs before all of it is there.
                connection.send(posted("/filter", request("filter")))
                good.append(connection.answer().status)
                good.append(connection.get("/livez").status)

    begun = [b"P", *(head("POST", "/filter", Content_Length=size) for size in ("300000", "30000"))]
    with serve(extender, deadline_s=0.5) as served, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(Connection(served.url)) for _ in range(150)]
        asking = threading.Thread(target=ask)
        asking.start()
        for number, connection in enumerate(slow):
            connection.send(begun[number % len(begun)])
        try:
            answers = list(trickle(slow, b"OST /x HTTP/1.1\r\nX: " + b"x" * 10_000))
        finally:
            over.set()
            asking.join()
    assert len(answers) == 150
    assert all(answer[:13] in {b"", b"HTTP/1.1 408 "} for answer in answers)
    assert set(good) == {200}


@pytest.mark.parametrize(
    "start", [b"POST /filter HTTP/1.1\r\nX: ", b"POST /", b"GET /livez HTTP/1.1\r\n"]
)
def test_a_head_without_end_is_refused(start: bytes) -> None:
    with serve(Extender()) as served:
        with Connection(served.url) as connection:
            connection.send(start)
            with pytest.raises(OSError, match=HUNG_UP):
                connection.send(*[b"x" * 100_000] * 1000)
        with Connection(served.url) as connection:
            assert connection.get("/livez").status == 200


def test_a_length_over_the_limit_is_refused_before_the_body_comes() -> None:
    """A client that sends the body all the same is cut off."""
    extender = Extender(server={"maxBodyBytes": 1000})
    with serve(extender) as served, Connection(served.url) as connection:
        connection.send(head("POST", "/filter", Content_Length=str(10**12)))
        assert connection.answer().status == 413
        with pytest.raises(OSError, match=HUNG_UP):
            connection.send(*[b" " * MB] * 1000)


def test_a_refused_body_without_end_is_cut_off() -> None:
    extender = Extender(server=limits(1000, 1000))
    with serve(extender) as served, Connection(served.url) as connection:
        connection.send(head("POST", "/filter", Transfer_Encoding="chunked"))
        with pytest.raises(OSError, match=HUNG_UP):
            connection.send(*[b"1f4\r\n%b\r\n" % (b" " * 500)] * 100_000)
        eventually(lambda: extender.counted(IN_FLIGHT) == 0)
    assert extender.counted(REFUSED, status="413") == 1


def test_who_asks_without_end_before_the_first_answer_is_hung_up_on() -> None:
    before = resident_bytes()
    with serve(Extender(), deadline_s=1.0) as served:
        for _ in range(5):
            with Connection(served.url) as connection, pytest.raises(OSError, match=HUNG_UP):
                connection.send(*[head("GET", "/livez") * 1000] * 1000)
        with Connection(served.url) as connection:
            assert connection.get("/livez").status == 200
    assert resident_bytes() - before < 50 * MB


def test_who_asks_again_while_permit_holds_the_pod_gives_the_bind_up() -> None:
    """A client that is gone is noticed: the pod is bound for nobody otherwise."""
    binder = Bindings()
    extender = Extender(binder=binder, profiles=[HOLDING])
    with serve(extender) as served:
        with Connection(served.url) as connection:
            connection.post("/filter", request("filter"))
            connection.send(posted("/bind", request("bind")))
            eventually(extender.waiting)
            connection.send(head("GET", "/livez"))
            assert connection.answer().status == 400
            assert connection.is_closed()
        eventually(lambda: not extender.waiting())
    assert binder.nodes == {}


@pytest.mark.parametrize("extra", [b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_two_lengths_are_refused(extra: bytes) -> None:
    with serve(Extender()) as served, Connection(served.url) as connection:
        connection.send(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 6\r\n" + extra + b"\r\n0\r\n\r\n{"
        )
        assert connection.answer().status == 400
        assert connection.is_closed()


def test_of_two_incomplete_bodies_the_older_is_answered() -> None:
    body = body_of(MB)
    extender = Extender(server=limits(len(body), len(body)))
    with serve(extender) as served, Connection(served.url) as old, Connection(served.url) as young:
        for client in (old, young):
            client.send(posted("/filter", body)[: -len(body) // 3])
            read_by_now(served.url)
        answer = young.answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        old.send(body[-len(body) // 3 :])
        assert names_of(old.answer()) == ["good", "big"]


def test_many_who_do_not_read_hold_no_more_than_what_is_admitted() -> None:
    body = body_of(10 * MB)
    most = 4 * len(body)
    extender = Extender(server=limits(len(body), most))
    with serve(extender) as served, contextlib.ExitStack() as stack:
        with Connection(served.url) as connection:
            assert connection.post("/filter", body).status == 200
        before = highest = resident_bytes()
        for _ in range(30):
            slow = stack.enter_context(Connection(served.url))
            slow.send(posted("/filter", body))
            highest = max(highest, resident_bytes())
            assert extender.counted(IN_FLIGHT) <= most
        # Bodies and answers of those that were admitted, and what the sockets of the test hold.
        assert highest - before < 3 * most
        stack.close()
        eventually(lambda: extender.counted(IN_FLIGHT) == 0)
        with Connection(served.url) as connection:
            assert connection.post("/filter", body).status == 200


@pytest.mark.parametrize("last", [False, True], ids=["an answer", "the last answer"])
def test_a_client_that_does_not_read_its_answer_is_hung_up_on(last: bool) -> None:
    body = body_of(20 * MB)
    extender = Extender(server=limits(len(body), len(body)))
    with serve(extender, keep_alive_s=30) as served, contextlib.ExitStack() as stack:
        slow, idle = (stack.enter_context(Connection(served.url)) for _ in range(2))
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # A slow machine makes the time from here on longer, never shorter.
        began_s = time.monotonic()
        slow.send(posted("/filter", body, **({"Connection": "close"} if last else {})))
        slow.begun()
        assert idle.get("/livez").status == 200
        assert extender.counted(IN_FLIGHT) == len(body)
        eventually(lambda: extender.counted(IN_FLIGHT) == 0)
        assert time.monotonic() - began_s > 10
        # A connection that is idle for 30 s is closed; this one is not yet.
        assert idle.get("/livez").status == 200


def test_answers_that_nobody_reads_count_as_bodies_do() -> None:
    """An answer may be many times as long as its request: it repeats the pod's scheduler."""
    names = [f"node-{number}" for number in range(24_000)]
    asked = {"Pod": pod() | {"spec": {"schedulerName": "s" * 250}}, "NodeNames": names}
    body = json.dumps(asked).encode()
    most = 20 * MB
    extender = Extender(server=limits(len(body), most))
    with serve(extender) as served, contextlib.ExitStack() as stack:
        with Connection(served.url) as connection:
            size = len(connection.post("/filter", body).body)
        assert 8 * MB < size < most
        for _ in range(most // size):
            unread = stack.enter_context(Connection(served.url))
            unread.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.send(posted("/filter", body))
            unread.begun()
        assert size < extender.counted(IN_FLIGHT) <= most
        with Connection(served.url) as connection:
            assert connection.post("/filter", body).status == 503
        stack.close()
        eventually(lambda: extender.counted(IN_FLIGHT) == 0)
        with Connection(served.url) as connection:
            assert len(connection.post("/filter", body).body) == size
