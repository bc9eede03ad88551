"""Bodies that the transport reads past the parser, and answers too large for one write."""

import contextlib
import json
import resource
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from live_server import (
    Connection,
    eventually,
    head,
    is_listening,
    node,
    read_by_now,
    request,
    running,
    some_verbs,
)
from server_certificates import Authority

from kubextend import core
from kubextend.server import Deadlines, Limits, Service, TlsFiles
from kubextend.verbs import Verbs

# Where a body is read past the parser, what one read of uvloop brings, and several of them.
PAST_THE_PARSER = 64 * 1024
ONE_READ = 256 * 1024
SIZES = [PAST_THE_PARSER - 1, PAST_THE_PARSER, PAST_THE_PARSER + 1, ONE_READ, 3_000_000]


@dataclass
class Server:
    """One that runs, and what it runs."""

    url: str
    verbs: Verbs
    service: Service
    tls: ssl.SSLContext | None
    pool: core.BodyPool
    open: list[Connection] = field(default_factory=list)

    def connect(self) -> Connection:
        return Connection(self.url, tls=self.tls)

    def in_flight_bytes(self) -> float:
        name = "kubextend_requests_in_flight_bytes"
        return self.verbs.metrics.registry.get_sample_value(name) or 0.0

    def answered(self) -> float:
        labels = {"verb": "filter", "result": "ok"}
        name = "kubextend_verb_requests_total"
        return self.verbs.metrics.registry.get_sample_value(name, labels) or 0.0


Start = Callable[..., Server]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(params=["plain", "tls"])
def start(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Start]:
    """Starts servers that end with the test, over plain sockets and over TLS."""
    with contextlib.ExitStack() as stack:

        def started(*, limits: Limits | None = None, deadlines: Deadlines | None = None) -> Server:
            pool = core.BodyPool()
            verbs = some_verbs(pool=pool)
            listening = {} if deadlines is None else {"deadlines": deadlines}
            trusting = None
            if request.param == "tls":
                pair = authority.sign("server")
                listening["tls"] = TlsFiles(pair.cert_file, pair.key_file)
                trusting = ssl.create_default_context(cafile=authority.file)
            made = running(verbs, limits=limits, **listening)
            url, service = stack.enter_context(made)
            return Server(url, verbs, service, trusting, pool)

        yield started


def body_of(size: int, name: str = "big", **labels: str) -> bytes:
    """A full-mode request of exactly so many bytes, of a node that fits and one that is large."""
    big = node(name, **labels)
    big["metadata"]["annotations"] = {"a": ""}
    bare = len(request("filter", nodes=[node("good", rdma="true"), big]))
    big["metadata"]["annotations"]["a"] = "x" * (size - bare)
    body = request("filter", nodes=[node("good", rdma="true"), big])
    assert len(body) == size
    return body


def expected(body: bytes) -> bytes:
    """What the verb answers where there is no server."""
    return bytes(some_verbs().filter(body))


def request_bytes(body: bytes, **headers: str) -> bytes:
    return head("POST", "/filter", **{"Content-Length": str(len(body))} | headers) + body


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_is_answered_as_without_a_server(start: Start, size: int) -> None:
    body = body_of(size)
    with start().connect() as connection:
        for _ in range(3):
            connection.send(request_bytes(body))
            answer = connection.answer()
            assert (answer.status, answer.body) == (200, expected(body))
        assert connection.get("/livez").status == 200


def test_an_answer_as_large_as_its_request_comes_whole(start: Start) -> None:
    body = body_of(9_000_000, rdma="true")
    with start().connect() as connection:
        for _ in range(2):
            answer = connection.post("/filter", body)
            assert answer.body == expected(body)
            assert len(answer.body) > 8_900_000


CUTS = [1, 1000, PAST_THE_PARSER, ONE_READ - 1, ONE_READ, ONE_READ + 1, 599_999]


@pytest.mark.parametrize("cut", CUTS)
def test_a_body_may_be_cut_anywhere(start: Start, cut: int) -> None:
    body = body_of(600_000)
    whole = request_bytes(body)
    first = len(whole) - len(body) + cut
    server = start()
    with server.connect() as connection:
        connection.send(whole)
        assert connection.answer().body == expected(body)
        connection.send(whole[:first])
        read_by_now(server.url, server.tls)
        connection.send(whole[first:])
        assert connection.answer().body == expected(body)


def test_a_head_may_end_where_its_segment_ends(start: Start) -> None:
    body = body_of(600_000)
    whole = request_bytes(body)
    server = start()
    with server.connect() as connection:
        for cut in (len(whole) - len(body) - 1, len(whole) - len(body)):
            connection.send(whole[:cut])
            read_by_now(server.url, server.tls)
            connection.send(whole[cut:])
            assert connection.answer().body == expected(body)


def test_requests_behind_a_large_body_wait_for_their_turn(start: Start) -> None:
    large = [body_of(size, f"big-{size}") for size in (PAST_THE_PARSER, 300_000, 2_000_000)]
    small = [body_of(size, f"small-{size}") for size in (500, 600, 700)]
    bodies = [large[0], small[0], large[1], large[2], small[1], small[2], large[0]]
    server = start()
    stream = b"".join(request_bytes(body) for body in bodies)
    for piece in (len(stream), 1_000_003, 99_991):
        with server.connect() as connection:
            connection.send(*(stream[at : at + piece] for at in range(0, len(stream), piece)))
            answers = [connection.answer() for _ in bodies]
        assert [answer.body for answer in answers] == [expected(body) for body in bodies]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("cut", [0, 1000, ONE_READ + 1, 2_999_999])
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    start: Start, cut: int, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    body = body_of(3_000_000)
    with server.connect() as connection:
        connection.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body[:cut])
        eventually(lambda: server.in_flight_bytes() == len(body))
        if reset:
            linger = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    eventually(lambda: server.in_flight_bytes() == 0)
    # Nobody holds the buffer any more.
    eventually(lambda: server.pool.idle_bytes >= len(body))
    assert server.answered() == 0
    with server.connect() as connection:
        assert connection.post("/filter", body).body == expected(body)
    assert caplog.text == ""


def test_a_length_that_is_too_short_refuses_what_follows(start: Start) -> None:
    body = body_of(300_000)
    with start().connect() as connection:
        declared = {"Content-Length": str(len(body) - 5)}
        connection.send(head("POST", "/filter", **declared), body)
        # What is left over begins no request, and that may show before the body has been read.
        assert connection.answer().status == 400


def test_a_length_that_is_too_long_is_waited_for_and_then_refused(start: Start) -> None:
    server = start(deadlines=Deadlines(body_s=0.5, slowest_bytes=10_000_000))
    body = body_of(300_000)
    with server.connect() as connection:
        declared = {"Content-Length": str(len(body) + 5)}
        connection.send(head("POST", "/filter", **declared), body)
        assert connection.answer().status == 408
        assert connection.is_closed()
    eventually(lambda: server.in_flight_bytes() == 0)
    assert server.answered() == 0


def test_a_body_over_the_limit_is_refused_before_it_is_held(start: Start) -> None:
    server = start(limits=Limits(200_000))
    with server.connect() as connection:
        for _ in range(2):
            assert connection.post("/filter", b" " * 5_000_000).status == 413
            assert connection.post("/filter", body_of(200_000)).status == 200
    assert server.pool.idle_bytes < 1_000_000


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Type": "text/plain"}, 415), ({"Content-Encoding": "gzip"}, 415), ({}, 404)],
)
def test_a_large_body_that_nobody_reads_ends_where_it_says(
    start: Start, headers: dict[str, str], status: int
) -> None:
    path = "/filter" if headers else "/nowhere"
    with start().connect() as connection:
        for _ in range(2):
            assert connection.post(path, body_of(2_000_000), **headers).status == status
            assert connection.get("/livez").status == 200


def test_leave_to_send_is_given_before_a_large_body_is_read(start: Start) -> None:
    body = body_of(600_000)
    with start().connect() as connection:
        for _ in range(2):
            declared = {"Content-Length": str(len(body)), "Expect": "100-continue"}
            connection.send(head("POST", "/filter", **declared))
            assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.send(body)
            assert connection.answer().body == expected(body)


def test_leave_to_send_is_not_given_twice_to_those_who_do_not_wait_for_it(start: Start) -> None:
    body = body_of(600_000)
    with start().connect() as connection:
        connection.send(request_bytes(body, Expect="100-continue"))
        interim = connection.answer_head()
        assert interim.startswith(b"HTTP/1.1 100 ")
        assert connection.answer().body == expected(body)


def test_large_bodies_in_chunks_are_read_as_ever(start: Start) -> None:
    body = body_of(1_500_000)
    with start().connect() as connection:
        for size in (len(body), 100_003):
            connection.send(head("POST", "/filter", **{"Transfer-Encoding": "chunked"}))
            for at in range(0, len(body), size):
                piece = body[at : at + size]
                connection.send(b"%x\r\n" % len(piece), piece, b"\r\n")
            connection.send(b"0\r\n\r\n")
            assert connection.answer().body == expected(body)


def test_a_client_that_wants_no_other_answer_is_told_goodbye(start: Start) -> None:
    body = body_of(600_000)
    with start().connect() as connection:
        answer = connection.post("/filter", body, Connection="close")
        assert answer.body == expected(body)
        assert answer.headers["connection"] == "close"
        assert connection.is_closed()


def test_many_clients_with_large_bodies_each_get_their_own_answer(start: Start) -> None:
    server = start()

    def ask(client: int) -> set[bytes]:
        body = body_of(1_000_000 + client, f"n{client}", rdma="true")
        with server.connect() as connection:
            return {connection.post("/filter", body).body for _ in range(5)}

    with ThreadPoolExecutor(12) as clients:
        given = list(clients.map(ask, range(12)))
    for client, answers in enumerate(given):
        (answer,) = answers
        names = [item["metadata"]["name"] for item in json.loads(answer)["Nodes"]["items"]]
        assert names == ["good", f"n{client}"]
    eventually(lambda: server.in_flight_bytes() == 0)


def test_a_server_that_is_cut_off_lets_go_of_half_a_body(start: Start) -> None:
    server = start()
    body = body_of(3_000_000)
    with server.connect() as connection:
        connection.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body[:9999])
        eventually(lambda: server.in_flight_bytes() == len(body))
        server.service.stop()
        eventually(lambda: not is_listening(server.url))
        server.service.stop()
        said = everything_from(connection)
        assert said == b"" or said.startswith(b"HTTP/1.1 503 ")
    eventually(lambda: server.in_flight_bytes() == 0)


def slow_reader(server: Server, body: bytes) -> Connection:
    """A client that has asked and reads nothing."""
    connection = server.connect()
    connection.send(request_bytes(body))
    return connection


def everything_from(connection: Connection) -> bytes:
    """What is still on its way, up to the end of the connection."""
    got = bytearray()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := connection.socket.recv(1_000_000):
            got += piece
    return bytes(got)


def test_a_client_that_does_not_read_its_answer_counts_until_it_leaves(start: Start) -> None:
    server = start()
    body = body_of(12_000_000, rdma="true")
    with slow_reader(server, body):
        eventually(lambda: server.answered() == 1)
        assert server.in_flight_bytes() == len(body)
    eventually(lambda: server.in_flight_bytes() == 0)


def test_a_client_that_does_not_read_its_answer_is_hung_up_on(start: Start) -> None:
    server = start(deadlines=Deadlines(answer_s=0.3))
    body = body_of(12_000_000, rdma="true")
    with slow_reader(server, body) as slow:
        eventually(lambda: server.answered() == 1)
        eventually(lambda: server.in_flight_bytes() == 0)
        assert len(everything_from(slow)) < len(body) - 1000


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123  not a file of ours
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_many_who_do_not_read_hold_no_more_than_what_is_admitted(start: Start) -> None:
    body = body_of(10_000_000, rdma="true")
    most = 4 * len(body)
    limits = Limits(in_flight_bytes=most)
    server = start(limits=limits)
    with server.connect() as connection:
        assert connection.post("/filter", body).status == 200
    before = resident_bytes()
    slow = []
    highest = 0
    for _ in range(30):
        slow.append(slow_reader(server, body))
        highest = max(highest, resident_bytes())
        assert server.in_flight_bytes() <= most
    # Bodies and answers of those that were admitted, and what the sockets of the test hold.
    assert highest - before < 3 * most
    for connection in slow:
        connection.close()
    eventually(lambda: server.in_flight_bytes() == 0)
    with server.connect() as connection:
        assert connection.post("/filter", body).status == 200
