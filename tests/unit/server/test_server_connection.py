"""What a connection does as time goes by: kept alive, waited for, hung up on, answered in turn."""

import asyncio
from collections import OrderedDict, defaultdict
from http import HTTPStatus
from typing import Any
from unittest.mock import Mock

import pytest
from connection_world import (
    HIGH_WATER,
    KEEP_ALIVE_S,
    Echo,
    Wire,
    answer,
    connected,
    get,
    on_turned_clock,
    post,
    protocol,
    received,
    says,
    settled,
)
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from kubextend.server import Deadlines
from kubextend.server.connection.asgi_extension import connection_of
from kubextend.server.connection.bytes_in_flight import BytesInFlight, Share
from kubextend.server.connection.http_connection import HttpConnection

PACE = 1000
READING_PACE = 64_000
DEADLINES = Deadlines(head_s=10.0, body_s=30.0, answer_s=30.0, slowest_bytes=PACE)
TOO_LATE = b"HTTP/1.1 408 "
BAD_REQUEST = b"HTTP/1.1 400 "
TOO_LARGE = b"HTTP/1.1 431 "
HALF_A_HEAD = b"POST /filter HT"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Held:
    """Answers a path when the test says so; one that is ``begun`` is half answered before."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.asked.append(path)
        if path == "/begun":
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-length", b"8")],
                }
            )
            begun = {"type": "http.response.body", "body": Echo.of(path)[:1], "more_body": True}
            await send(begun)
        await self.go[path].wait()
        if path == "/begun":
            await send({"type": "http.response.body", "body": Echo.of(path)[1:]})
        else:
            await answer(send, Echo.of(path))


# Kept alive.


def test_a_connection_stays_open_while_it_is_answered_and_is_idle_only_from_then_on() -> None:
    # Not a multiple of the keep-alive, at which the connection's timer would look anyway.
    takes_s = 10 * KEEP_ALIVE_S - 10

    async def scenario() -> None:
        wire = connected(Echo(before=lambda _path: asyncio.sleep(takes_s)))
        await wire.send(get("/bind"))
        await asyncio.sleep(takes_s - 1)
        assert not wire.closed
        await asyncio.sleep(2)
        assert wire.received.endswith(says(Echo.of("/bind")))
        await asyncio.sleep(KEEP_ALIVE_S - 2)
        assert not wire.closed
        await asyncio.sleep(2)
        assert wire.closed

    on_turned_clock(scenario())


@pytest.mark.parametrize("requests", [0, 1, 3])
def test_an_idle_connection_is_closed_when_its_time_is_over_and_not_before(requests: int) -> None:
    async def scenario() -> None:
        wire = connected(Echo())
        for _ in range(requests):
            await asyncio.sleep(50)
            await wire.send(get("/livez"))
        await asyncio.sleep(KEEP_ALIVE_S - 1)
        assert not wire.closed
        await asyncio.sleep(2)
        assert wire.closed
        assert not wire.aborted

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    ("begun", "rest"),
    [(b"GET /a HT", b"TP/1.1\r\nHost: x\r\n\r\n"), (post("/a", 2) + b"x", b"x")],
    ids=["head", "body"],
)
def test_keep_alive_closes_no_connection_in_the_middle_of_a_request(
    begun: bytes, rest: bytes
) -> None:
    patient_s = 10.0 * KEEP_ALIVE_S

    async def scenario() -> bytes:
        wire = connected(Echo(), Deadlines(head_s=patient_s, body_s=patient_s))
        await wire.send(begun)
        await asyncio.sleep(2 * KEEP_ALIVE_S)
        await wire.send(rest)
        return wire.received

    assert on_turned_clock(scenario()).startswith(b"HTTP/1.1 200 ")


def test_a_connection_beyond_those_that_a_listener_may_have_is_closed_at_once() -> None:
    async def scenario() -> None:
        told: list[str] = []
        listener, app = ServerState(), Held()
        more: dict[str, Any] = {"state": listener, "most_connections": 2, "idle": OrderedDict()}
        more["on_full"] = lambda: told.append("full")
        first, second = (connected(app, **more) for _ in range(2))
        await first.send(get("/first"))
        await second.send(get("/second"))
        third = connected(app, **more)
        await third.send(get("/third"))
        assert (third.closed, third.received, told) == (True, b"", ["full"])
        await first.leave()
        fourth = connected(app, **more)
        await fourth.send(get("/fourth"))
        app.go["/fourth"].set()
        await settled()
        assert fourth.received.endswith(says(Echo.of("/fourth")))

    on_turned_clock(scenario())


@pytest.mark.parametrize("begun", [b"", HALF_A_HEAD], ids=["silent", "half a head"])
def test_a_new_connection_takes_the_place_of_the_one_that_is_idle_longest(begun: bytes) -> None:
    async def scenario() -> None:
        told: list[str] = []
        app = Held()
        app.go["/served"].set()
        more: dict[str, Any] = {"state": ServerState(), "most_connections": 3}
        more |= {"idle": OrderedDict(), "on_full": lambda: told.append("full")}
        served, busy, silent = (connected(app, **more) for _ in range(3))
        await busy.send(get("/busy"))
        await silent.send(begun)
        await served.send(get("/served"))
        probe = connected(app, **more)
        await probe.send(get("/served"))
        assert probe.received.endswith(says(Echo.of("/served")))
        assert [wire.closed for wire in (served, busy, silent)] == [False, False, True]
        # Of those that were served, the one that was served first.
        connected(app, **more)
        await settled()
        assert [wire.closed for wire in (served, busy, probe)] == [True, False, False]
        assert told == ["full", "full"]

    on_turned_clock(scenario())


async def unread(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer every request at once, and read no body."""
    await answer(send, b"no body is wanted", 405)


@pytest.mark.parametrize(
    ("request_bytes", "reads_at_once"),
    [
        (post("/livez", 4096) + b"x", True),
        (get("/livez").replace(b"1.1", b"1.0"), False),
        (b"no HTTP\r\n\r\n", False),
    ],
    ids=["body", "unread answer", "unread refusal"],
)
def test_a_connection_that_is_answered_gives_way_whatever_its_client_still_has_to_do(
    request_bytes: bytes, reads_at_once: bool
) -> None:
    async def scenario() -> None:
        more: dict[str, Any] = {"state": ServerState(), "most_connections": 1}
        more["idle"] = OrderedDict()
        held = connected(unread, reads_at_once=reads_at_once, **more)
        await held.send(request_bytes)
        assert not held.aborted
        probe = connected(unread, **more)
        await probe.send(get("/livez"))
        assert held.closed
        assert probe.received.startswith(b"HTTP/1.1 405 ")
        assert len(more["idle"]) == 1
        await probe.leave()
        assert not more["idle"]

    on_turned_clock(scenario())


@pytest.mark.parametrize("request_bytes", [post("/busy", 2) + b"x", get("/busy")])
def test_a_connection_that_awaits_its_answer_gives_way_to_nobody(request_bytes: bytes) -> None:
    async def scenario() -> None:
        app = Held()
        more: dict[str, Any] = {"state": ServerState(), "most_connections": 1}
        more["idle"] = OrderedDict()
        busy = connected(app, **more)
        await busy.send(request_bytes)
        assert connected(app, **more).aborted
        app.go["/busy"].set()
        await settled()
        assert busy.received.endswith(says(Echo.of("/busy")))

    on_turned_clock(scenario())


# A client that is slow to ask.


@pytest.mark.parametrize("before", [b"", get("/livez")], ids=["first", "second"])
@pytest.mark.parametrize(
    ("sent", "seconds", "said"),
    [(HALF_A_HEAD, 10, b"the request's head"), (post("/a", 9) + b"x", 30, b"the request's body")],
    ids=["head", "body"],
)
def test_a_request_that_is_late_is_told_so(
    before: bytes, sent: bytes, seconds: int, said: bytes
) -> None:
    refused: list[int] = []

    async def scenario() -> None:
        wire = connected(Echo(), DEADLINES, refused=refused)
        await wire.send(before)
        answered = wire.received
        await asyncio.sleep(KEEP_ALIVE_S - 1)
        await wire.send(sent)
        await asyncio.sleep(seconds - 1)
        assert (wire.received, wire.closed) == (answered, False)
        await asyncio.sleep(2)
        told = wire.received.removeprefix(answered)
        assert told.startswith(TOO_LATE)
        assert said in told
        assert (wire.closed, refused) == (True, [HTTPStatus.REQUEST_TIMEOUT])

    on_turned_clock(scenario())


async def refuses_at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answers before it has read anything."""
    await answer(send, b"no", 413)


@pytest.mark.parametrize(
    ("app", "sent", "written"),
    [
        (Held, [get("/held"), HALF_A_HEAD], 0),
        (Held, [get("/begun"), HALF_A_HEAD], 1),
        (Held, [post("/begun", 9) + b"x"], 1),
        (lambda: refuses_at_once, [post("/a", 9) + b"x"], 1),
    ],
    ids=["behind one that is held", "behind half an answer", "in its own answer", "refused before"],
)
def test_a_late_request_is_not_told_so_where_another_answer_is_due(
    app: type[Held], sent: list[bytes], written: int
) -> None:
    async def scenario() -> None:
        wire = connected(app(), DEADLINES)
        await wire.send(*sent)
        await asyncio.sleep(60)
        assert wire.aborted
        assert wire.received.count(b"HTTP/1.1 ") == written
        assert TOO_LATE not in wire.received

    on_turned_clock(scenario())


def test_a_request_that_waits_behind_another_is_not_late() -> None:
    async def scenario() -> None:
        app = Held()
        wire = connected(app, DEADLINES)
        await wire.send(get("/first"), post("/second", 5) + b"xx", b"xxx" + HALF_A_HEAD)
        await asyncio.sleep(600)
        assert app.asked == ["/first"]
        for path in ("/first", "/second"):
            app.go[path].set()
        await settled()
        assert not wire.closed
        assert wire.received.count(b"HTTP/1.1 200 ") == 2
        assert wire.received.endswith(says(Echo.of("/second")))
        # Nothing stands before the third any more.
        await asyncio.sleep(11)
        assert TOO_LATE in wire.received

    on_turned_clock(scenario())


async def fills(scope: Scope, _receive: Receive, send: Send) -> None:
    """Reads a body past the parser."""
    connection = connection_of(scope)
    assert connection is not None
    body = bytearray(int(dict(scope["headers"])[b"content-length"]))
    try:
        await connection.fill(memoryview(body), lambda _received: None)
    except ClientDisconnect:
        return
    await answer(send, Echo.of(scope["path"], len(body)))


@pytest.mark.parametrize(
    ("bodies", "turn_kib"),
    [
        (1, 4096),
        (2, 2048),
        (3, 1365),
        (16, 256),
        (17, 240),
        (1000, 64),
    ],
)
def test_others_have_their_turn_after_4_mib_of_all_large_bodies(bodies: int, turn_kib: int) -> None:
    """A transport may hand over as much as there is before the event loop looks at another."""
    size = 5 << 20

    async def scenario() -> None:
        order: list[int] = []
        in_flight = BytesInFlight(1 << 30)
        for _ in range(bodies):
            Share(in_flight).begin()
        is_full = asyncio.Event()

        async def notes(scope: Scope, _receive: Receive, send: Send) -> None:
            connection = connection_of(scope)
            assert connection is not None
            await connection.fill(
                memoryview(bytearray(size)), lambda received: order.append(received >> 10)
            )
            is_full.set()
            await answer(send, Echo.of("/large", size))

        large = connected(notes, in_flight=in_flight)
        await large.send(post("/large", size))
        asyncio.get_running_loop().call_soon(order.append, -1)
        large._held_back += b"x" * size
        large._hand_over()
        await is_full.wait()
        await settled()
        assert order[:3] == [0, turn_kib, -1]
        assert order[-1] == size >> 10
        assert large.received.endswith(says(Echo.of("/large", size)))

    on_turned_clock(scenario())


def test_requests_behind_a_body_that_was_refused_wait_and_no_further_ones_are_read() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/waits":
            await asyncio.Event().wait()
        await answer(send, b"no", 503)

    async def scenario() -> None:
        wire = connected(app)
        await wire.send(post("/large", 1000))
        assert wire.received.startswith(b"HTTP/1.1 503 ")
        # The rest of the body and the requests come in one piece.
        await wire.send(b"x" * 1000 + 3 * get("/waits"))
        await settled()
        wire._held_back += get("/waits")
        wire._hand_over()
        assert wire._held_back
        wire.abort()
        await settled()

    on_turned_clock(scenario())


def test_others_have_their_turn_after_each_piece_of_a_body_that_was_refused() -> None:
    """A transport may hand over 32 pieces before the event loop looks at another connection."""

    async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"no", 503)

    async def scenario() -> None:
        wire = connected(refuses)
        await wire.send(post("/large", 5 << 20))
        assert wire.received.startswith(b"HTTP/1.1 503 ")
        wire._held_back += b"x" * 1000
        wire._hand_over()
        # The next piece is there already, and stays in the socket for now.
        wire._held_back += b"x" * 1000
        wire._hand_over()
        assert len(wire._held_back) == 1000
        await settled()
        assert not wire._held_back

    on_turned_clock(scenario())


@pytest.mark.parametrize("app", [Echo(), fills], ids=["parsed", "past the parser"])
@pytest.mark.parametrize(
    ("pace", "over_after_s"), [(0, 30), (PACE // 2, 60), (PACE + PACE // 10, None)]
)
def test_a_body_may_take_as_long_as_it_keeps_its_pace(
    app: ASGIApp, pace: int, over_after_s: int | None
) -> None:
    # After t seconds 30 + t * pace / PACE are allowed.
    size = 100 * PACE

    async def scenario() -> None:
        wire = connected(app, DEADLINES)
        await wire.send(post("/a", size))
        took_s = sent = 0
        while not wire.received:
            await asyncio.sleep(1)
            piece = b"x" * min(pace, size - sent)
            await wire.send(piece)
            sent += len(piece)
            took_s += 1
        if over_after_s is None:
            assert wire.received.endswith(says(Echo.of("/a", size)))
        else:
            assert wire.received.startswith(TOO_LATE)
            assert abs(took_s - over_after_s) <= 2

    on_turned_clock(scenario())


def test_what_an_earlier_body_brought_earns_no_time_for_a_later_one() -> None:
    async def scenario() -> None:
        wire = connected(Echo(), DEADLINES)
        await wire.send(post("/a", 100 * PACE) + b"x" * 100 * PACE)
        assert wire.received.endswith(says(Echo.of("/a", 100 * PACE)))
        await wire.send(post("/b", 9) + b"x")
        await asyncio.sleep(31)
        assert TOO_LATE in wire.received

    on_turned_clock(scenario())


def test_the_end_of_a_large_body_is_no_part_of_the_next_head() -> None:
    size, next_request = 200_000, get("/next")

    async def scenario() -> bytes:
        wire = connected(Echo())
        await wire.send(post("/a", size) + b"x")
        await wire.send(b"x" * (size - 1) + next_request[:9], next_request[9:])
        return wire.received

    received = on_turned_clock(scenario())
    assert received.count(b"HTTP/1.1 200 ") == 2
    assert received.endswith(says(Echo.of("/next")))


# A client that is slow to read.


@pytest.mark.parametrize(
    ("pace", "over_after_s"),
    [(0, 30), (READING_PACE // 2, 60), (READING_PACE + READING_PACE // 10, None)],
)
def test_an_answer_may_take_as_long_as_its_client_keeps_the_pace(
    pace: int, over_after_s: int | None
) -> None:
    piece = b"x" * (HIGH_WATER + 1)
    size = 50 * len(piece)

    async def scenario() -> None:
        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            await answer(send, piece, pieces=50)

        deadlines = Deadlines(answer_s=30.0, slowest_bytes=READING_PACE)
        wire = connected(app, deadlines, reads_at_once=False)
        await wire.send(get("/large"))
        took_s = 0.0
        while not wire.aborted and len(wire.received) <= size:
            await asyncio.sleep(0.1)
            await wire.read(pace // 10)
            took_s += 0.1
        if over_after_s is None:
            assert wire.received.partition(b"\r\n\r\n")[2] == piece * 50
            # Nor is it later, for having paused in between.
            await asyncio.sleep(KEEP_ALIVE_S - 2)
            assert not wire.closed
        else:
            assert wire.aborted
            assert abs(took_s - over_after_s) <= 3

    on_turned_clock(scenario())


def test_the_end_of_an_answer_that_paused_is_the_end_of_its_deadline() -> None:
    size = HIGH_WATER + 1

    async def scenario() -> None:
        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            length = [(b"content-length", b"%d" % (size + 1))]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
            await send({"type": "http.response.body", "body": b"x"})

        wire = connected(app, Deadlines(answer_s=30.0), reads_at_once=False)
        await wire.send(get("/large"))
        while not wire.received.endswith(b"\r\n\r\n" + b"x" * (size + 1)):
            await wire.read(size)
        await asyncio.sleep(KEEP_ALIVE_S - 2)
        assert not wire.closed

    on_turned_clock(scenario())


# A client that asks before it is answered.


@pytest.mark.parametrize(("waiting", "served"), [(100, True), (101, False)])
def test_a_hundred_requests_may_wait_behind_one_and_no_more(waiting: int, served: bool) -> None:
    async def scenario() -> None:
        app = Held()
        wire = connected(app)
        await wire.send(get("/held") + get("/waits") * waiting)
        assert app.asked == ["/held"]
        for path in ("/held", "/waits"):
            app.go[path].set()
        await asyncio.sleep(1)
        assert app.asked == ["/held", *(["/waits"] * 100 if served else [])]
        assert wire.received.count(b"HTTP/1.1 ") == (101 if served else 0)
        assert wire.aborted is not served

    on_turned_clock(scenario())


# A client that goes away, or sends what nobody can read.


def test_the_request_that_is_being_answered_is_told_that_its_client_is_gone() -> None:
    told = []

    async def scenario() -> None:
        async def app(scope: Scope, receive: Receive, _send: Send) -> None:
            await received(receive)
            told.append((scope["path"], (await receive())["type"]))

        wire = connected(app)
        await wire.send(get("/first"), get("/second"))
        await wire.leave()

    on_turned_clock(scenario())
    assert told == [("/first", "http.disconnect")]


def test_a_client_that_hangs_up_is_noticed_though_its_large_body_came_with_the_head() -> None:
    size = HIGH_WATER + 1

    async def scenario() -> None:
        gone = asyncio.Event()

        async def app(scope: Scope, receive: Receive, _send: Send) -> None:
            connection = connection_of(scope)
            assert connection is not None
            await connection.fill(memoryview(bytearray(size)), lambda _received: None)
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        wire = connected(app)
        await wire.send(post("/bind", size) + b"x" * size)
        assert not gone.is_set()
        await wire.hang_up()
        assert gone.is_set()

    on_turned_clock(scenario())


@pytest.mark.parametrize(("megabytes", "answered"), [(16, True), (17, False)])
def test_of_what_comes_behind_the_last_request_16_mib_are_dropped(
    megabytes: int, answered: bool
) -> None:
    async def scenario() -> None:
        app = Held()
        wire = connected(app)
        await wire.send(b"GET /held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await wire.send(*[b"x" * (1 << 20)] * megabytes)
        assert wire.closed is not answered
        app.go["/held"].set()
        await settled()
        assert wire.received.count(b"HTTP/1.1 200") == answered
        assert wire.closed

    on_turned_clock(scenario())


def test_others_have_their_turn_between_the_pieces_behind_the_last_request() -> None:
    async def scenario() -> None:
        wire = connected(Held())
        await wire.send(b"GET /held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        dropped = []
        wire.pause_reading = lambda: dropped.append("paused")  # type: ignore[method-assign]
        await wire.send(b"x", b"x")
        assert dropped == ["paused"] * 2
        await wire.leave()

    on_turned_clock(scenario())


def test_nothing_is_written_once_the_client_is_gone_though_requests_wait() -> None:
    async def scenario() -> int:
        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            await answer(send, b"x" * (HIGH_WATER + 1), pieces=9)

        wire = connected(app, reads_at_once=False)
        await wire.send(get("/first"), get("/second"))
        await wire.leave()
        return wire.written_in_vain

    assert on_turned_clock(scenario()) == 0


def test_a_connection_ends_where_a_body_was_given_up() -> None:
    asked = []

    async def scenario() -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(scope["path"])
            try:
                async with asyncio.timeout(5):
                    await fills(scope, receive, send)
            except TimeoutError:
                await answer(send, b"no", 503)

        wire = connected(app)
        await wire.send(post("/given-up", 100) + b"x")
        await asyncio.sleep(4)
        await wire.send(b"x")
        await asyncio.sleep(2)
        assert wire.received.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close\r\n" in wire.received
        assert wire.closed

    on_turned_clock(scenario())
    assert asked == ["/given-up"]


@pytest.mark.parametrize(
    ("bad", "refusal"),
    [
        (b"garbage\r\n\r\n", BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, TOO_LARGE),
        (b"\r\n" * 40_000, TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 2_000 + b"\r\n", TOO_LARGE),
    ],
    ids=["garbage", "a head without end", "empty lines without end", "a head of many fields"],
)
@pytest.mark.parametrize("path", ["/held", "/begun"])
def test_what_cannot_be_read_is_refused_when_what_came_before_it_is_answered(
    bad: bytes, refusal: bytes, path: str
) -> None:
    async def scenario() -> None:
        app = Held()
        wire = connected(app)
        await wire.send(get(path))
        begun = wire.received
        await wire.send(bad, get("/never"))
        assert wire.received == begun
        app.go[path].set()
        await settled()
        first, _, second = wire.received.partition(Echo.of(path))
        assert first.startswith(b"HTTP/1.1 200 ")
        assert second.startswith(refusal)
        assert second.count(b"HTTP/1.1 ") == 1
        assert (wire.closed, wire.written_in_vain, app.asked) == (True, 0, [path])

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        (b"", b"400", b"one Host field"),
        (b"Host: x\r\nHost: x\r\n", b"400", b"one Host field"),
        (b"Host: x\r\nTransfer-Encoding: gzip\r\n", b"501", b"other than chunked"),
        (b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n", b"501", b"other than chunked"),
        (b"Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"400", b"no valid"),
        (b"Host: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"400", b"no valid"),
    ],
)
def test_a_head_that_a_proxy_may_read_otherwise_is_refused(
    fields: bytes, status: bytes, said: bytes
) -> None:
    """RFC 9112, 3.2, 6.1 and 6.3."""

    async def scenario() -> None:
        app, refused = Held(), []
        wire = connected(app, refused=refused)
        await wire.send(b"POST /a HTTP/1.1\r\n" + fields + b"\r\n", b"0\r\n\r\n")
        assert wire.received.startswith(b"HTTP/1.1 %b " % status)
        assert said in wire.received
        assert (wire.closed, app.asked, refused) == (True, [], [int(status)])

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "head",
    [b"GET /a HTTP/1.0\r\n\r\n", b"GET /a\r\n\r\n", CHUNKED.replace(b"chunked", b"Chunked")],
    ids=["HTTP/1.0", "HTTP/0.9", "capitals"],
)
def test_old_clients_name_no_host_and_codings_have_any_case(head: bytes) -> None:
    async def scenario() -> None:
        wire = connected(Echo())
        await wire.send(head, b"0\r\n\r\n")
        assert wire.received.startswith(b"HTTP/1.1 200 ")

    on_turned_clock(scenario())


@pytest.mark.parametrize("space", [b" ", b"  ", b"\t"])
def test_white_space_behind_a_field_is_no_part_of_it(space: bytes) -> None:
    """RFC 9110, 5.5."""
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        await answer(send, await received(receive))

    fields = [
        (b"host", b"x"),
        (b"content-length", b"3"),
        (b"content-type", b"application/json"),
        (b"expect", b"100-continue"),
        (b"connection", b"close"),
    ]

    async def scenario() -> None:
        wire = connected(app)
        lines = [b"%b: %b%b\r\n" % (*field, space) for field in fields]
        await wire.send(b"POST /a HTTP/1.1\r\n%b\r\n" % b"".join(lines), b"abc")
        assert seen == fields
        assert wire.received.startswith(b"HTTP/1.1 100 Continue\r\n")
        assert wire.received.endswith(b"\r\n\r\nabc")
        assert wire.closed

    on_turned_clock(scenario())


def test_chunked_may_have_a_space_behind_it() -> None:
    async def scenario() -> None:
        wire = connected(Echo())
        await wire.send(CHUNKED.replace(b"chunked", b"chunked "), b"3\r\nabc\r\n0\r\n\r\n")
        assert wire.received.endswith(says(Echo.of("/a", 3)))
        assert not wire.closed

    on_turned_clock(scenario())


# What all connections hold together.

FREE_BYTES = 4 * 1024


def head_of(size: int, path: str = "/a") -> bytes:
    """A head that counts as so many bytes: each of its two fields 200 bytes more than its text."""
    head = b"GET %b HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n"
    counted = len(path) + len("HostxX") + 2 * 200
    return head % (path.encode(), b"x" * (size - counted))


@pytest.mark.parametrize("complete", [True, False])
def test_heads_of_all_connections_count_together_until_they_are_answered(complete: bool) -> None:
    most = 100_000

    async def scenario() -> None:
        app = Held()
        more: dict[str, Any] = {"most_connections": 100, "in_flight": BytesInFlight(most)}
        held = [connected(app, **more) for _ in range(5)]
        for wire in held[:4]:
            head = head_of(20_000 + FREE_BYTES)
            await wire.send(head if complete else head[:-2])
        before = more["in_flight"].count
        assert 4 * 19_000 <= before <= 4 * 21_000
        # The fifth is one too many, and nobody else notices.
        await held[4].send(head_of(40_000))
        assert held[4].received.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in held[4].received
        assert held[4].closed
        assert more["in_flight"].count == before
        # A probe holds next to nothing.
        app.go["/livez"].set()
        probe = connected(app, **more)
        await probe.send(get("/livez"))
        assert probe.received.startswith(b"HTTP/1.1 200 ")
        await held[0].leave()
        app.go["/a"].set()
        await held[1].send(b"" if complete else b"\r\n")
        assert more["in_flight"].count <= before // 2 + (before if not complete else 0)
        for wire in held:
            await wire.leave()
        assert more["in_flight"].count == 0

    on_turned_clock(scenario())


def test_requests_that_wait_count_with_their_bodies_until_their_turn() -> None:
    async def scenario() -> None:
        app = Held()
        in_flight = BytesInFlight(100_000)
        wire = connected(app, in_flight=in_flight)
        waiting = post("/waits", 30_000) + b"x" * 30_000
        await wire.send(get("/held") + waiting * 2)
        assert 60_000 - FREE_BYTES < in_flight.count < 65_000
        app.go["/held"].set()
        await settled()
        # The application has the first of the bodies by now.
        assert 30_000 - FREE_BYTES < in_flight.count < 35_000
        app.go["/waits"].set()
        await settled()
        assert wire.received.count(b"HTTP/1.1 200 ") == 3
        assert in_flight.count == 0

    on_turned_clock(scenario())


def test_who_asks_ahead_more_than_there_is_room_for_is_refused_in_turn() -> None:
    async def scenario() -> None:
        app = Held()
        in_flight = BytesInFlight(50_000)
        wire = connected(app, in_flight=in_flight)
        waiting = post("/waits", 30_000) + b"x" * 30_000
        await wire.send(get("/held") + waiting * 2)
        for path in ("/held", "/waits"):
            app.go[path].set()
        await settled()
        assert [part[:3] for part in wire.received.split(b"HTTP/1.1 ")[1:]] == [
            b"200",
            b"200",
            b"503",
        ]
        assert (wire.closed, in_flight.count) == (True, 0)

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "bad", [b"x\r\n", b"0\r\n" + b"a:b\r\n" * 20_000], ids=["size", "trailers"]
)
@pytest.mark.parametrize(
    ("before", "app", "statuses"),
    [
        (b"", Echo(), [b"400", b"431"]),
        (get("/first"), Echo(), [b"200", b"400", b"431"]),
        (b"", refuses_at_once, [b"413"]),
    ],
    ids=["alone", "behind another", "answered before"],
)
def test_a_body_that_cannot_be_read_has_one_answer_in_its_turn(
    bad: bytes, before: bytes, app: ASGIApp, statuses: list[bytes]
) -> None:
    async def scenario() -> None:
        wire = connected(app)
        await wire.send(before + CHUNKED, bad, get("/never"))
        told = [part[:3] for part in wire.received.split(b"HTTP/1.1 ")[1:]]
        other = b"431" if bad.startswith(b"x") else b"400"
        assert told == [status for status in statuses if status != other]
        assert (wire.closed, wire.written_in_vain) == (True, 0)

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    ("rest", "size"),
    [
        (b"0\r\na: b\r\nc: d\r\n\r\n", 0),
        (b"1\r\nx\r\n" * 1_000 + b"0\r\n\r\n", 1_000),
        (b"40\r\n%b\r\n" % (b"x" * 64) * 50_000 + b"0\r\n\r\n", 64 * 50_000),
        (b"1000;a=b\r\n" + b"x" * 4096 + b"\r\n0\r\n\r\n", 4096),
    ],
    ids=["trailers", "chunks of a byte", "many chunks", "an extension"],
)
@pytest.mark.parametrize("cut", [7, 1 << 20])
def test_a_chunked_body_may_have_some_framing(rest: bytes, size: int, cut: int) -> None:
    async def scenario() -> None:
        wire = connected(Echo())
        await wire.send(CHUNKED)
        for start in range(0, len(rest), cut * 1024):
            await wire.send(rest[start : start + cut * 1024])
        await wire.send(get("/next"))
        assert wire.received.count(b"HTTP/1.1 200 ") == 2
        assert says(Echo.of("/a", size)) in wire.received
        assert wire.received.endswith(says(Echo.of("/next")))

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", CHUNKED + b"0\r\n"], ids=["head", "trailers"]
)
def test_fields_are_parsed_up_to_their_limit_and_no_further(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = Mock()
    real = HttpConnection.on_header

    def on_header(self: HttpConnection, name: bytes, value: bytes) -> None:
        parsed()
        real(self, name, value)

    monkeypatch.setattr(HttpConnection, "on_header", on_header)

    async def scenario() -> None:
        wire = connected(Echo())
        await wire.send(start + b"a:\r\n" * 15_000)
        assert wire.received.startswith(TOO_LARGE)
        assert wire.closed

    on_turned_clock(scenario())
    # Each field counts 200 bytes of 65,536.
    assert 320 <= parsed.call_count <= 332


@pytest.mark.parametrize("app", [Echo(), Held()], ids=["read", "not read"])
def test_a_body_of_very_small_chunks_is_refused_before_it_is_parsed(
    app: ASGIApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = Mock()
    monkeypatch.setattr(HttpConnection, "on_body", lambda _self, body: parsed(body))

    async def scenario() -> None:
        wire = connected(app)
        await wire.send(CHUNKED + b"1\r\nx\r\n" * 50_000)
        assert wire.received.startswith(TOO_LARGE)
        assert wire.closed
        # Each chunk owes 63 of 65,536 bytes.
        assert 1_000 <= parsed.call_count <= 1_100

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "head",
    [CHUNKED, post("/a", 9).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")],
    ids=["chunked", "not asked for"],
)
def test_an_answer_that_leaves_such_a_body_unread_ends_the_connection(head: bytes) -> None:
    async def scenario() -> None:
        wire = connected(refuses_at_once)
        await wire.send(head)
        assert wire.received.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close\r\n" in wire.received
        assert b"100 Continue" not in wire.received
        assert wire.closed

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "piece",
    [b"a:%b\r\n" % (b"b" * 20_000), b"x" * 1000],
    ids=["many", "one without end"],
)
def test_of_trailers_no_more_is_read_than_of_a_head(piece: bytes) -> None:
    async def scenario() -> int:
        wire = connected(Echo())
        await wire.send(CHUNKED + b"0\r\n")
        sent = 0
        while not wire.closed:
            await wire.send(piece)
            sent += len(piece)
        assert wire.received.startswith(TOO_LARGE)
        return sent

    assert 64 * 1024 < on_turned_clock(scenario()) <= 64 * 1024 + len(piece)


def test_an_extension_of_a_chunk_without_end_is_refused() -> None:
    async def scenario() -> None:
        wire = connected(Echo())
        await wire.send(CHUNKED + b"1;", *[b"x" * 10_000] * 7)
        assert wire.received.startswith(TOO_LARGE)
        assert wire.closed

    on_turned_clock(scenario())


@pytest.mark.parametrize("pause_s", [3, 60])
def test_empty_lines_before_a_request_take_its_time(pause_s: int) -> None:
    async def scenario() -> None:
        wire = connected(Echo(), DEADLINES)
        await wire.send(get("/first"))
        answered = len(wire.received)
        for _ in range(4):
            await wire.send(b"\r\n")
            await asyncio.sleep(pause_s)
        assert wire.received[answered:].startswith(TOO_LATE)
        assert wire.closed

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    "rest", [b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"], ids=["", "chunked"]
)
def test_an_upgrade_with_a_body_is_refused_since_nobody_tells_where_the_body_ends(
    rest: bytes,
) -> None:
    upgrade = b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + rest

    async def scenario() -> None:
        refused: list[int] = []
        wire = connected(Echo(), refused=refused)
        await wire.send(upgrade + b"\r\n{}", get("/b"))
        assert refused == [400]
        assert wire.received.startswith(b"HTTP/1.1 400 ")
        assert wire.received.count(b"HTTP/1.1 ") == 1
        assert wire.closed

    on_turned_clock(scenario())


def test_no_buffer_is_handed_over_that_the_body_does_not_fill() -> None:
    async def scenario() -> None:
        filled: list[bytes] = []

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            connection = connection_of(scope)
            assert connection is not None
            buffer = bytearray(b"secret")
            with pytest.raises(ClientDisconnect):
                await connection.fill(memoryview(buffer), lambda _: None)
            filled.append(bytes(buffer))
            await answer(send, b"")

        wire = connected(app)
        await wire.send(post("/a", 2) + b"{}")
        assert filled == [b"{}cret"]

    on_turned_clock(scenario())


def test_the_start_of_a_head_counts_wherever_it_stands_in_a_read() -> None:
    async def scenario() -> None:
        in_flight = BytesInFlight(1 << 20)
        wires = [connected(Echo(), in_flight=in_flight, most_connections=99) for _ in range(10)]
        for wire in wires:
            await wire.send(get("/livez") + b"GET /b HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 60_000)
        # The parser keeps this much of a field that is not complete.
        assert in_flight.count >= 10 * (60_000 - 2 * 4096)
        too_long = connected(Echo(), in_flight=in_flight, most_connections=99)
        await too_long.send(get("/livez") + b"GET /b HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 125_000)
        assert too_long.received.count(b"HTTP/1.1 431 ") == 1
        for wire in wires:
            await wire.leave()
        assert in_flight.count == 0

    on_turned_clock(scenario())


def test_an_answer_that_is_not_read_counts_until_it_is() -> None:
    async def scenario() -> None:
        in_flight = BytesInFlight(900_000)
        refused: list[int] = []

        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            await answer(send, b"x" * 200_000)

        def asking() -> Wire:
            return connected(
                app, refused=refused, in_flight=in_flight, most_connections=99, reads_at_once=False
            )

        wires = [asking() for _ in range(4)]
        for wire in wires:
            await wire.send(get("/a"))
        assert in_flight.count >= 4 * 190_000
        # There is no room for what the next one leaves unread for more than a second.
        late, in_time = asking(), asking()
        await late.send(get("/a"))
        await in_time.send(get("/a"))
        await asyncio.sleep(0.9)
        await in_time.read(1_000_000)
        assert not late.aborted
        await asyncio.sleep(0.2)
        assert late.aborted
        assert refused == [503]
        assert not in_time.closed
        await wires[0].read(1_000_000)
        assert not wires[0].closed
        assert 3 * 190_000 <= in_flight.count < 4 * 190_000
        for wire in wires:
            await wire.leave()
        assert in_flight.count == 0

    on_turned_clock(scenario())


@pytest.mark.parametrize("apart", [False, True], ids=["in one read", "in two"])
def test_a_connection_ends_with_the_answer_to_an_upgrade(apart: bool) -> None:
    upgrade = b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"

    async def scenario() -> None:
        app = Held()
        refused: list[int] = []
        wire = connected(app, refused=refused)
        smuggled = [b"GET /b HTTP/1.1\r\nX: ", get("/c")]
        await wire.send(get("/first"), upgrade + b"\r\n" + (b"" if apart else smuggled[0]))
        await wire.send(b"\x00", *smuggled)
        app.go["/first"].set()
        await settled()
        await wire.send(*smuggled)
        for path in ("/a", "/b", "/c"):
            app.go[path].set()
        await settled()
        assert (app.asked, refused) == (["/first", "/a"], [])
        assert wire.received.count(b"HTTP/1.1 200 ") == 2
        assert wire.received.count(b"connection: close") == 1
        assert wire.closed

    on_turned_clock(scenario())


def test_a_request_that_is_half_there_at_shutdown_is_answered_when_the_rest_comes() -> None:
    async def scenario() -> None:
        server = protocol(Echo())
        wire = Wire(server)
        await wire.send(post("/filter", 2) + b"{")
        server.shutdown()
        await settled()
        assert not wire.closed
        await wire.send(b"}")
        assert wire.received.endswith(b"\r\n\r\n" + Echo.of("/filter", 2))
        assert b"connection: close\r\n" in wire.received
        assert wire.closed

    on_turned_clock(scenario())
