"""Requests over real connections, plain and TLS: bodies of any size, in pieces, or cut off."""

import contextlib
import functools
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.doors.certificates import Authority
from tests.doors.extender import NODES, VERBS, Answer, Extender, names_of, node, request
from tests.doors.sockets import (
    Connection,
    Served,
    eventually,
    head,
    is_listening,
    posted,
    read_by_now,
    serve,
)

pytestmark = pytest.mark.slow

IN_FLIGHT = "kubextend_requests_in_flight_bytes"
MB = 1_000_000
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass
class Server:
    """An extender that is served, and what its clients trust."""

    extender: Extender
    served: Served
    tls: ssl.SSLContext | None

    def connect(self) -> Connection:
        return Connection(self.served.url, self.tls)

    def in_flight(self) -> float:
        return self.extender.counted(IN_FLIGHT)

    def answered(self) -> float:
        return self.extender.counted("kubextend_verb_requests_total", verb="filter", result="ok")


Start = Callable[..., Server]


@pytest.fixture(params=["plain", "tls"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Start servers that end with the test."""
    with contextlib.ExitStack() as stack:

        def started(deadline_s: float | None = None, **server: Any) -> Server:
            trusting = None
            if request.param == "tls":
                authority = Authority(tmp_path, "ca")
                pair = authority.sign("server")
                files = {"certFile": str(pair.cert_file), "keyFile": str(pair.key_file)}
                server["tls"] = files
                trusting = ssl.create_default_context(cafile=authority.file)
            extender = Extender(server=server)
            served = stack.enter_context(serve(extender, deadline_s=deadline_s))
            return Server(extender, served, trusting)

        yield started


def body_of(size: int, name: str = "big", **labels: str) -> bytes:
    """Return a full-mode request of exactly so many bytes, of a small good node and a large one."""
    bare = request("filter", nodes=[NODES[0], node(name, 1, **labels)])
    return request("filter", nodes=[NODES[0], node(name, 1 + size - len(bare), **labels)])


def expected(body: bytes) -> Answer:
    """Return what the verb answers where there is no server."""
    return reference().ask("/filter", body)


@functools.cache
def reference() -> Extender:
    return Extender()


@pytest.mark.parametrize("size", [1000, 64 * 1024 - 1, 64 * 1024, 256 * 1024, 9 * MB])
def test_a_body_of_any_size_is_answered_as_without_a_server(start: Start, size: int) -> None:
    # The answer is as large as the request.
    body = body_of(size, rdma="true")
    assert len(body) == size
    with start().connect() as connection:
        for _ in range(3):
            answer = connection.post("/filter", body)
            assert (answer.status, answer.body) == (200, expected(body).body)
            assert "connection" not in answer.headers
        assert connection.get("/livez").status == 200


@pytest.mark.parametrize("size", [400, 600_000])
def test_a_request_may_be_cut_anywhere(start: Start, size: int) -> None:
    server, body = start(), body_of(size)
    sent, answer = posted("/filter", body), expected(body).body
    begins = len(sent) - len(body)
    cuts = {1, begins // 2, begins - 1, begins, begins + 1, begins + 200, len(sent) - 1}
    cuts |= {begins + each for each in (64 * 1024, 256 * 1024 - 1, 256 * 1024) if each < size}
    with server.connect() as connection:
        for cut in sorted(cuts):
            connection.send(sent[:cut])
            read_by_now(server.served.url, server.tls)
            connection.send(sent[cut:])
            assert connection.answer().body == answer
    assert server.answered() == len(cuts)


def test_requests_on_one_connection_are_answered_as_each_alone(start: Start) -> None:
    bodies = [body_of(size, f"n-{size}") for size in (500, 70_000, 600, 2 * MB, 700, 800, 70_001)]
    stream = [posted("/filter", body) for body in bodies]
    stream += [posted(f"/{verb}", request(verb)) for verb in VERBS if verb != "bind"]
    stream += [posted("/nowhere", b"{}"), posted("/filter?trace=1", bodies[0])]
    server = start()
    for size in (3 * MB, 1_000_003, 99_991):
        with server.connect() as connection:
            for sent in stream:
                with server.connect() as other:
                    other.send(sent)
                    alone = other.answer()
                connection.send(*(sent[at : at + size] for at in range(0, len(sent), size)))
                answer = connection.answer()
                assert (answer.status, answer.body) == (alone.status, alone.body)


def test_leave_to_send_is_given_where_the_body_is_read_and_else_refused(start: Start) -> None:
    server, body = start(maxBodyBytes=2 * MB), body_of(600_000)
    waits = {"Expect": "100-continue"}
    with server.connect() as connection:
        for _ in range(2):
            connection.send(head("POST", "/filter", Content_Length=str(len(body)), **waits))
            assert connection.socket.recv(100) == CONTINUE
            connection.send(body)
            assert connection.answer().body == expected(body).body
    for path, headers, status in (
        ("/filter", {"Content_Length": "2000001"}, 413),
        ("/filter", {"Content_Length": "20", "Content_Type": "text/plain"}, 415),
        ("/nowhere", {"Content_Length": "20"}, 404),
    ):
        with server.connect() as connection:
            connection.send(head("POST", path, **waits | headers))
            assert connection.answer().status == status


def test_a_body_may_come_in_chunks(start: Start) -> None:
    body = body_of(1_500_000)
    with start().connect() as connection:
        for size in (len(body), 100_003):
            connection.send(head("POST", "/filter", Transfer_Encoding="chunked"))
            for at in range(0, len(body), size):
                piece = body[at : at + size]
                connection.send(b"%x\r\n" % len(piece), piece, b"\r\n")
            connection.send(b"0\r\n\r\n")
            assert connection.answer().body == expected(body).body


def test_a_head_request_is_answered_without_a_body(start: Start) -> None:
    with start().connect() as connection:
        connection.send(head("HEAD", "/livez"))
        received = b""
        while not received.endswith(b"\r\n\r\n"):
            received += connection.socket.recv(1000)
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert connection.get("/livez").body == b"ok"


def test_a_body_over_the_limit_is_refused_and_the_connection_goes_on(start: Start) -> None:
    server = start(maxBodyBytes=200_000)
    with server.connect() as connection:
        for path, body, headers, status in (
            ("/filter", b" " * 5 * MB, {}, 413),
            ("/filter", body_of(200_000), {}, 200),
            ("/filter", body_of(200_001), {}, 413),
            ("/filter", body_of(2 * MB), {"Content_Type": "text/plain"}, 415),
            ("/nowhere", body_of(2 * MB), {}, 404),
        ):
            assert connection.post(path, body, **headers).status == status
            assert connection.get("/livez").status == 200


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("cut", [0, 1000, 256 * 1024 + 1, 3 * MB - 1])
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    start: Start, cut: int, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server, body = start(), body_of(3 * MB)
    with server.connect() as connection:
        connection.send(posted("/filter", body)[: cut - len(body)])
        read_by_now(server.served.url, server.tls)
        if reset:
            linger = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    eventually(lambda: server.in_flight() == 0)
    with server.connect() as connection:
        assert connection.post("/filter", body).body == expected(body).body
    assert server.answered() == 1
    assert caplog.text == ""


@pytest.mark.parametrize("size", [300, 300_000])
def test_a_length_that_is_not_the_bodys_refuses_the_request(start: Start, size: int) -> None:
    server, body = start(deadline_s=0.5), body_of(size)
    with server.connect() as connection:
        connection.send(head("POST", "/filter", Content_Length=str(len(body) - 5)), body)
        assert connection.answer().status == 400
    with server.connect() as connection:
        connection.send(head("POST", "/filter", Content_Length=str(len(body) + 5)), body)
        assert connection.answer().status == 408
        assert connection.is_closed()
    eventually(lambda: server.in_flight() == 0)
    assert server.answered() == 0


def test_a_server_that_is_cut_off_lets_go_of_half_a_body(start: Start) -> None:
    server, body = start(), body_of(3 * MB)
    with server.connect() as connection:
        connection.send(posted("/filter", body)[:9999])
        eventually(server.in_flight)
        server.served.stop()
        eventually(lambda: not is_listening(server.served.url))
        server.served.stop()
        with contextlib.suppress(EOFError, ConnectionError):
            assert connection.answer().status == 503
        assert connection.is_closed()
    eventually(lambda: server.in_flight() == 0)


def test_of_a_burst_every_request_is_answered_or_refused_and_livez_goes_on() -> None:
    limits = {"maxBodyBytes": 2 * MB, "maxInFlightBytes": 6 * MB}
    extender, clients = Extender(server=limits), 24

    def ask(number: int) -> list[str]:
        while True:
            # A body that is refused while it comes ends the connection, maybe before the client
            # has read why.
            with Connection(served.url) as client, contextlib.suppress(EOFError, ConnectionError):
                answer = client.post("/filter", body_of(MB, f"n{number}", rdma="true"))
                if answer.status != 503:
                    return names_of(answer)
            time.sleep(0.01)

    with serve(extender) as served, ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask, client) for client in range(clients)]
        with Connection(served.url) as probe:
            while not all(each.done() for each in asked):
                assert probe.get("/livez").status == 200
    assert [each.result() for each in asked] == [
        ["good", f"n{client}"] for client in range(clients)
    ]
    assert extender.counted(IN_FLIGHT) == 0
