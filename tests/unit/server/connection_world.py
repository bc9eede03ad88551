"""Runs ``HttpConnection`` in memory, on an event loop that skips the time in which all wait."""

import asyncio
import selectors
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from kubextend.server import Deadlines
from kubextend.server.connection.bytes_in_flight import BytesInFlight
from kubextend.server.connection.http_connection import ConnectionSettings, HttpConnection

T = TypeVar("T")
KEEP_ALIVE_S = 120
# As asyncio's own transports have it.
HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024


class Turning(selectors.SelectSelector):
    """A selector that does not wait, but moves its clock forward by the time to be waited."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits for something that will never happen"
            self.now_s += max(timeout, 0.0)
        return ready


class TurnedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock skips all time in which every task waits."""

    def __init__(self) -> None:
        self._turning = Turning()
        super().__init__(self._turning)

    def time(self) -> float:
        return self._turning.now_s


def on_turned_clock(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a ``TurnedLoop``, and return its result."""
    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        return runner.run(scenario)


class Wire(asyncio.Transport):
    """A transport in memory, and the client at its other end.

    Args:
        protocol: the server's protocol.
        reads_at_once: whether the client reads all bytes when they are written, or by ``read``.

    Attributes:
        received: the bytes that the client has read.
        closed: whether the connection is over; the client has read everything unless ``aborted``.
        written_in_vain: how often the server wrote to a connection that was over already.
    """

    def __init__(self, protocol: HttpConnection, *, reads_at_once: bool = True) -> None:
        super().__init__()
        self.received = b""
        self.closed = self.aborted = False
        self.written_in_vain = 0
        self._protocol: asyncio.BaseProtocol = protocol
        self._reads_at_once = reads_at_once
        self._unread = b""
        self._held_back = b""
        self._high_water, self._low_water = HIGH_WATER, LOW_WATER
        self._closing = self._reading_paused = self._writing_paused = self._hung_up = False
        protocol.connection_made(self)

    # What the client does.

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, each of which the server reads on its own unless its reading is paused."""
        for piece in pieces:
            self._held_back += piece
            self._hand_over()
            await settled()

    async def read(self, most: int) -> None:
        """Let the client read at most so many of the bytes that the server has written."""
        self.received += self._unread[:most]
        self._unread = self._unread[most:]
        if self._writing_paused and len(self._unread) <= self._low_water:
            self._writing_paused = False
            self._protocol.resume_writing()
        self._end_if_all_is_read()
        await settled()

    async def leave(self) -> None:
        """Let the client reset the connection."""
        self._end(ConnectionResetError())
        await settled()

    async def hang_up(self) -> None:
        """Let the client close the connection, which only a server that reads can notice."""
        self._hung_up = True
        self._hand_over()
        await settled()

    # What the server asks of a transport.

    def write(self, data: Any) -> None:
        if self.closed:
            self.written_in_vain += 1
        elif self._reads_at_once:
            self.received += bytes(data)
        else:
            self._unread += bytes(data)
            if len(self._unread) > self._high_water and not self._writing_paused:
                self._writing_paused = True
                self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = HIGH_WATER if high is None else high
        self._low_water = self._high_water // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def close(self) -> None:
        self._closing = True
        asyncio.get_running_loop().call_soon(self._end_if_all_is_read)

    def abort(self) -> None:
        self.aborted = self._closing = True
        self._unread = b""
        asyncio.get_running_loop().call_soon(self._end, None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        asyncio.get_running_loop().call_soon(self._hand_over)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def _hand_over(self) -> None:
        while self._held_back and not (self._reading_paused or self._closing):
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = memoryview(self._protocol.get_buffer(-1))
                taken = min(len(buffer), len(self._held_back))
                buffer[:taken] = self._held_back[:taken]
                self._held_back = self._held_back[taken:]
                self._protocol.buffer_updated(taken)
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                data, self._held_back = self._held_back, b""
                self._protocol.data_received(data)
        if self._hung_up and not (self._held_back or self._reading_paused):
            self._end(None)

    def _end_if_all_is_read(self) -> None:
        if self._closing and not self._unread:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = self._closing = True
            self._protocol.connection_lost(error)


async def settled() -> None:
    """Run all tasks as far as they can go, without letting time pass."""
    for _ in range(20):
        await asyncio.sleep(0)


def protocol(
    app: ASGIApp,
    deadlines: Deadlines | None = None,
    refused: list[int] | None = None,
    **more: Any,
) -> HttpConnection:
    """Make the server's side of a connection, on the running loop.

    Args:
        app: the ASGI application that answers.
        deadlines: the deadlines for the client; None: those of production.
        refused: a list to which the status of each refusal by the connection itself is added.
        more: other fields of ``ConnectionSettings``, and the ``state`` of the server.
    """
    told = [] if refused is None else refused
    state = more.pop("state", None) or ServerState()
    settings = ConnectionSettings(
        app,
        deadlines or Deadlines(),
        more.pop("in_flight", None) or BytesInFlight(1 << 30),
        KEEP_ALIVE_S,
        more.pop("most_connections", 1),
        is_draining=lambda: False,
        on_refused=lambda status: told.append(int(status)),
        on_full=more.pop("on_full", lambda: None),
        idle=more.pop("idle", OrderedDict()),
    )
    assert not more
    return HttpConnection(settings, state)


def connected(app: ASGIApp, deadlines: Deadlines | None = None, **more: Any) -> Wire:
    """Make a client whose connection to the server has just been made."""
    reads_at_once = more.pop("reads_at_once", True)
    return Wire(protocol(app, deadlines, **more), reads_at_once=reads_at_once)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def post(path: str, length: int) -> bytes:
    """Return the head of a POST whose body has ``length`` bytes."""
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


async def answer(send: Send, body: bytes, status: int = 200, *, pieces: int = 1) -> None:
    """Send an answer of equal pieces, each once the client has read enough of those before."""
    length = [(b"content-length", b"%d" % (len(body) * pieces))]
    await send({"type": "http.response.start", "status": status, "headers": length})
    for left in reversed(range(pieces)):
        await send({"type": "http.response.body", "body": body, "more_body": left > 0})


def says(body: bytes) -> bytes:
    """Return the bytes with which an answer of ``answer`` with this body ends."""
    return b"content-length: %d\r\n\r\n%b" % (len(body), body)


async def received(receive: Receive) -> bytes:
    """Receive the whole body of a request."""
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


class Echo:
    """Answers each request with its path and the size of its body.

    Args:
        before: awaited with the path, when the whole body is read and before the answer is sent.
    """

    def __init__(self, before: Callable[[str], Awaitable[object]] | None = None) -> None:
        self._before = before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = len(await received(receive))
        if self._before is not None:
            await self._before(scope["path"])
        await answer(send, self.of(scope["path"], size))

    @staticmethod
    def of(path: str, size: int = 0) -> bytes:
        return f"{path} {size}".encode()
