"""Bodies of many clients at a time: what is held is bounded, and announcing takes nothing."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from connection_world import Wire, answer, connected, on_turned_clock, settled
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend import core
from kubextend.server import Limits
from kubextend.server.connection.body_reader import BodyReader
from kubextend.server.connection.bytes_in_flight import BytesInFlight, Share
from kubextend.server.reply import RefusedError, refuse
from kubextend.verbs.answer import Body

MOST = 1_000_000
PIECE = 100_000


@dataclass
class Reads:
    """Reads bodies, keeps the last, and answers with their lengths when it may."""

    in_flight: BytesInFlight = field(default_factory=lambda: BytesInFlight(MOST))
    most_bytes: int = MOST
    pool: core.BodyPool = field(default_factory=core.BodyPool)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    read: list[Body] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        share = Share(self.in_flight)
        try:
            body = await BodyReader(self.most_bytes, self.pool).read(scope, receive, share)
            self.read.append(body)
            await self.may_answer.wait()
            await answer(send, b"%d" % len(body))
        except RefusedError as refused:
            await refuse(send, refused)
        except ClientDisconnect:
            return
        finally:
            share.give_back()

    def client(self) -> Wire:
        return connected(self, most_connections=1000)


def head(length: int | None) -> bytes:
    """A head; so many bytes are to follow, or chunks."""
    of = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    return b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b\r\n\r\n" % of


def piece(size: int, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size) if chunked else b"x" * size


@pytest.mark.parametrize("length", [900_000, 60_000], ids=["large", "small"])
def test_bodies_that_are_announced_and_do_not_come_refuse_nobody(length: int) -> None:
    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        announced = [app.client() for _ in range(50)]
        for wire in announced:
            await wire.send(head(length) + b"x")
            assert app.in_flight.count <= MOST
        honest = app.client()
        await honest.send(head(900_000), b"x" * 900_000)
        assert honest.received.endswith(b"\r\n\r\n900000")
        # Nor are they refused for it: who sends the rest is answered.
        for wire in (announced[0], announced[-1]):
            await wire.send(b"x" * (length - 1))
            assert wire.received.endswith(b"\r\n\r\n%d" % length)
        for wire in announced:
            assert wire is announced[0] or wire is announced[-1] or not wire.received
            await wire.leave()
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_a_body_for_which_there_is_no_room_is_refused_before_it_is_read() -> None:
    async def scenario() -> None:
        app = Reads()
        held, late = app.client(), app.client()
        await held.send(head(600_000), b"x" * 600_000)
        assert app.in_flight.count == 600_000
        for size in (400_001, MOST):
            await late.send(head(size))
            assert late.received.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1\r\n" in late.received
            late.received = b""
            # The body comes all the same, and is dropped.
            await late.send(b"x" * size)
        await late.send(head(400_000), b"x" * 400_000)
        assert app.in_flight.count == MOST
        app.may_answer.set()
        await settled()
        assert late.received.endswith(b"\r\n\r\n400000")
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_no_answer_is_made_of_what_another_request_left_in_a_buffer() -> None:
    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        other, wire = app.client(), app.client()
        await other.send(head(200_000), b"secret" * 33_333 + b"xx")
        app.read.clear()
        upgrade = head(200_000).replace(
            b"Host: x", b"Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c"
        )
        await wire.send(upgrade)
        assert app.read == []
        assert wire.received.startswith(b"HTTP/1.1 400 ")
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_a_refusal_refers_to_nothing_that_was_read() -> None:
    async def scenario() -> None:
        in_flight = BytesInFlight(MOST)
        errors: list[RefusedError] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            share = Share(in_flight)
            try:
                await BodyReader(MOST, core.BodyPool()).read(scope, receive, share)
            except RefusedError as refused:
                errors.append(refused)
                await refuse(send, refused)
            finally:
                share.give_back()

        older, younger = (connected(app, most_connections=9) for _ in range(2))
        await older.send(head(900_000) + b"x" * 300_000)
        await younger.send(head(600_000) + b"x" * 500_000)
        assert not younger.received
        await older.send(b"x" * 500_000)
        assert younger.received.startswith(b"HTTP/1.1 503 ")
        # With the frames of another error, it would keep the buffer of the body.
        (error,) = errors
        assert error.__context__ is None
        assert error.__cause__ is None

    on_turned_clock(scenario())


def test_small_bodies_take_the_common_room_before_any_is_refused() -> None:
    async def scenario() -> None:
        app = Reads(BytesInFlight(20_000_000, reserved_bytes=4_000_000), 16_000_000)
        app.may_answer.set()
        wires = [app.client() for _ in range(16)]
        for wire in wires:
            await wire.send(head(900_000))
        for _ in range(9):
            for wire in wires:
                await wire.send(b"x" * 100_000)
        assert [wire.received[-6:] for wire in wires] == [b"900000"] * 16
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_small_bodies_are_refused_for_no_body_that_is_only_announced() -> None:
    async def scenario() -> None:
        app = Reads(BytesInFlight(20_000_000, reserved_bytes=4_000_000), 16_000_000)
        announced = app.client()
        await announced.send(head(16_000_000))
        wires = [app.client() for _ in range(80)]
        for wire in wires:
            await wire.send(head(60_000))
        for wire in wires:
            await wire.send(b"x" * 60_000)
        assert len(app.read) == 80
        assert not any(wire.received for wire in wires)

    on_turned_clock(scenario())


def test_a_large_body_is_read_into_the_one_buffer_that_the_verb_gets() -> None:
    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        wire = app.client()
        for _ in range(3):
            await wire.send(head(900_000), b"x" * 400_000, b"x" * 500_000)
            assert isinstance(app.read[0], core.BodyBuffer)
            assert bytes(app.read.pop()) == b"x" * 900_000
        # One that was used again.
        assert 900_000 <= app.pool.idle_bytes < 1_000_000

    on_turned_clock(scenario())


def test_a_buffer_from_which_others_took_the_room_keeps_what_has_come() -> None:
    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        first, second = app.client(), app.client()
        body = bytes(range(256)) * 3000
        await first.send(head(len(body)), body[:300_001])
        assert app.in_flight.count == len(body)
        await second.send(head(500_000))
        assert app.in_flight.count == 300_001 + 500_000
        await second.send(b"x" * 500_000)
        assert second.received.endswith(b"\r\n\r\n500000")
        await first.send(body[300_001:])
        assert first.received.endswith(b"\r\n\r\n%d" % len(body))
        assert bytes(app.read[-1]) == body

    on_turned_clock(scenario())


class Client:
    """Sends a body piece by piece, and again from the start where it was refused."""

    def __init__(self, app: Reads, length: int, *, chunked: bool) -> None:
        self._app, self._length, self._chunked = app, length, chunked
        self.refusals = 0
        self.done = False
        self._begin()

    def _begin(self) -> None:
        self._wire, self.sent = self._app.client(), -1

    async def step(self) -> None:
        if self.sent < 0:
            self.sent = 0
            await self._wire.send(head(None if self._chunked else self._length))
        elif self.sent < self._length:
            size = min(PIECE, self._length - self.sent)
            self.sent += size
            await self._wire.send(piece(size, chunked=self._chunked))
            if self._chunked and self.sent == self._length:
                await self._wire.send(b"0\r\n\r\n")
        if self._wire.received.startswith(b"HTTP/1.1 503 "):
            self.refusals += 1
            await self._wire.leave()
            self._begin()
        else:
            self.done = self._wire.received.endswith(b"\r\n\r\n%d" % self._length)


@pytest.mark.parametrize("chunked", [False, True], ids=["one buffer each", "chunks"])
@pytest.mark.parametrize("seed", range(4))
def test_of_bodies_that_need_all_the_room_the_oldest_comes_to_its_end(
    seed: int, chunked: bool
) -> None:
    drawn = random.Random(seed)

    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        clients = [Client(app, MOST, chunked=chunked) for _ in range(6)]
        steps = 0
        while left := [client for client in clients if not client.done]:
            # Whoever was refused begins anew, for ever.
            await drawn.choice(left).step()
            assert app.in_flight.count <= MOST
            steps += 1
            # Each time somebody comes to an end, whatever the others begin.
            assert steps < 6 * 6 * 4 * MOST // PIECE
        assert sum(client.refusals for client in clients) > 0
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_the_oldest_is_refused_for_nobody() -> None:
    async def scenario() -> None:
        app = Reads()
        app.may_answer.set()
        oldest = Client(app, MOST, chunked=False)
        for _ in range(3):
            await oldest.step()
        others = [Client(app, MOST, chunked=bool(number % 2)) for number in range(4)]
        while not oldest.done:
            for _ in range(10):
                for each in others:
                    await each.step()
                    assert app.in_flight.count <= MOST
            await oldest.step()
        assert oldest.refusals == 0
        assert sum(each.refusals for each in others) > 0

    on_turned_clock(scenario())


def test_a_body_that_is_refused_while_it_comes_ends_its_connection() -> None:
    async def scenario() -> None:
        app = Reads()
        first, second = app.client(), app.client()
        await first.send(head(MOST), b"x" * 400_000)
        await second.send(head(500_000), b"x" * 400_000)
        assert app.in_flight.count <= MOST
        # The first needs more than is left beside the second.
        await first.send(b"x" * 300_000)
        assert second.received.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close\r\n" in second.received
        assert second.closed
        assert app.in_flight.count == 700_000
        await first.leave()
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


# A part of the room is for small bodies.

NAMES = 1_000_000
"""What the names of 15,000 nodes take."""
RESERVED = 2 * NAMES
REST = 8 * NAMES


def with_a_reserve() -> Reads:
    return Reads(BytesInFlight(REST + RESERVED, reserved_bytes=RESERVED), REST)


@pytest.mark.parametrize("sent", [REST, REST - 1], ids=["complete", "still coming"])
def test_large_bodies_that_hold_all_that_they_may_leave_room_for_small_ones(sent: int) -> None:
    async def scenario() -> None:
        app = with_a_reserve()
        large, honest, bind = app.client(), app.client(), app.client()
        await large.send(head(REST), b"x" * sent)
        assert app.in_flight.count == REST
        await honest.send(head(NAMES), b"x" * NAMES)
        await bind.send(head(300), b"x" * 300)
        assert app.in_flight.count == REST + NAMES + 300
        late = app.client()
        await late.send(head(NAMES + 100_000))
        assert late.received.startswith(b"HTTP/1.1 503 ")
        app.may_answer.set()
        await settled()
        assert honest.received.endswith(b"\r\n\r\n1000000")
        assert bind.received.endswith(b"\r\n\r\n300")
        await large.send(b"x" * (REST - sent))
        assert large.received.endswith(b"\r\n\r\n%d" % REST)
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_small_bodies_may_take_all_of_the_room() -> None:
    async def scenario() -> None:
        app = with_a_reserve()
        clients = [app.client() for _ in range(10)]
        for client in clients:
            await client.send(head(NAMES), b"x" * NAMES)
        assert app.in_flight.count == REST + RESERVED == app.in_flight.highest_count()
        late = app.client()
        await late.send(head(1))
        assert late.received.startswith(b"HTTP/1.1 503 ")
        app.may_answer.set()
        await settled()
        for client in clients:
            assert client.received.endswith(b"\r\n\r\n1000000")
        assert app.in_flight.count == 0

    on_turned_clock(scenario())


def test_small_bodies_that_are_announced_and_do_not_come_keep_the_reserve_from_nobody() -> None:
    async def scenario() -> None:
        app = with_a_reserve()
        await app.client().send(head(REST), b"x" * REST)
        announced = [app.client() for _ in range(20)]
        for wire in announced:
            await wire.send(head(NAMES) + b"x")
        honest = app.client()
        await honest.send(head(NAMES), b"x" * NAMES)
        app.may_answer.set()
        await settled()
        assert honest.received.endswith(b"\r\n\r\n1000000")
        assert not any(wire.received for wire in announced)

    on_turned_clock(scenario())


def test_chunks_and_heads_take_nothing_of_the_reserve() -> None:
    async def scenario() -> None:
        app = with_a_reserve()
        await app.client().send(head(REST), b"x" * REST)
        # Who sends chunks may send any number of them.
        chunks = app.client()
        await chunks.send(head(None), b"1\r\nx\r\n")
        assert chunks.received.startswith(b"HTTP/1.1 503 ")
        long_head = connected(app, most_connections=1000, in_flight=app.in_flight)
        await long_head.send(b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 8000)
        assert long_head.received.startswith(b"HTTP/1.1 503 ")
        assert app.in_flight.count == REST

    on_turned_clock(scenario())


def test_an_older_body_that_needs_more_refuses_no_small_one() -> None:
    async def scenario() -> None:
        app = with_a_reserve()
        app.may_answer.set()
        oldest, other, small = app.client(), app.client(), app.client()
        await oldest.send(head(REST), b"x" * (REST - NAMES))
        await other.send(head(2 * NAMES), b"x" * NAMES)
        await small.send(head(NAMES), b"x" * (NAMES - 1))
        await oldest.send(b"x" * NAMES)
        assert oldest.received.endswith(b"\r\n\r\n%d" % REST)
        assert other.received.startswith(b"HTTP/1.1 503 ")
        await small.send(b"x")
        assert small.received.endswith(b"\r\n\r\n1000000")

    on_turned_clock(scenario())


@pytest.mark.parametrize(
    ("limits", "reserved"),
    [(Limits(16, 64), 4), (Limits(64, 64), 0), (Limits(62, 64), 2), (Limits(100, 64), 0)],
)
def test_a_sixteenth_is_reserved_unless_a_body_may_need_it(limits: Limits, reserved: int) -> None:
    assert limits.reserved_bytes == reserved
