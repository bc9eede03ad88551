"""uvicorn's HTTP connection, with limits on clients, and large bodies read past the HTTP parser.

``Connection`` stands between uvicorn's protocol, whose members ``tests/contract`` pins, and the
application, which finds it in the scope of each request.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar, Final, NamedTuple

import httptools
from starlette.requests import ClientDisconnect
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Connection", "ConnectionSettings", "connection_of"]

_KEY: Final = "kubextend.connection"
_HEAD_S: Final = 10.0
_READ_S: Final = 30.0
# A request that is on its way when the server begins to end.
_LAST_REQUEST_S: Final = 0.5
_MOST_HEAD_BYTES: Final = 64 * 1024
# What Python needs for a field of a head besides its text.
_FIELD_BYTES: Final = 200
_MOST_DROPPED_BYTES: Final = 16 * 1024 * 1024
# What up to 64 large bodies together read before the event loop looks at the other connections: a
# few milliseconds of its time, 3 ms for each MiB of fresh memory. A turn costs 25 us by itself, so
# that none is too small.
_TURN_BYTES: Final = 2 * 1024 * 1024
_LEAST_TURN_BYTES: Final = 32 * 1024


class ConnectionSettings(NamedTuple):
    """What all connections of a listener share.

    Attributes:
        most: how many may be open; one more is closed at once.
        sends_away: returns whether each connection is to end with its next answer.
    """

    most: int
    sends_away: Callable[[], bool]


class Reading(Enum):
    """The part of a request to which the next byte from the client belongs."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


def connection_of(scope: Scope) -> "Connection | None":
    """Return the connection of a request; None if another server than kubextend's received it."""
    connection: Connection | None = scope.get(_KEY)
    return connection


class Connection(HttpToolsProtocol):
    """One client of a listener.

    Args:
        settings: the settings of the listener.
        named: what uvicorn gives each connection.
    """

    # With these in the instance's dict, the dict would be of its own: 2 KB.
    __slots__ = ("_field_bytes", "_late_s", "_loose_bytes", "_reading", "_settings", "_until_read")

    def __init__(self, settings: ConnectionSettings, **named: Any) -> None:
        super().__init__(**named)
        self._settings = settings
        self._reading = Reading.NOTHING
        # ``_loose_bytes`` came of the present request, besides the body that the application reads.
        self._field_bytes = self._loose_bytes = 0
        self._until_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for requests, unless too many connections are open."""
        super().connection_made(transport)
        if len(self.connections) > self._settings.most:
            transport.abort()
        self._limit_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that the client is gone."""
        super().connection_lost(exc)
        for timer in filter(None, (self.timeout_keep_alive_task, self._until_read)):
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse a head, framing or trailers, or a refused body, that are too long."""
        self._loose_bytes += len(data)
        super().data_received(data)
        is_dropped = self._is_answered() and self._reading is Reading.BODY
        most_bytes = _MOST_DROPPED_BYTES if is_dropped else _MOST_HEAD_BYTES
        if self._loose_bytes > most_bytes and not self.transport.is_closing():
            self.send_400_response(f"More than {most_bytes} bytes are of no use.")
        if self._is_answered() or self.transport.is_closing():
            self._limit_wait()

    def on_message_begin(self) -> None:
        """Begin a request: its head has to be complete in 10 s."""
        super().on_message_begin()
        self.scope[_KEY] = self  # type: ignore[typeddict-unknown-key]
        self._reading = Reading.HEAD
        self._late_s = self.loop.time() + _HEAD_S
        self._field_bytes = self._loose_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; uvicorn answers 400 to what raises here."""
        self._field_bytes += len(name) + len(value) + _FIELD_BYTES
        if self._field_bytes > _MOST_HEAD_BYTES:
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer the request, unless one before it is not answered yet."""
        # Nobody can tell which protocol follows an upgrade. uvicorn would read no further behind a
        # request that waits, and not notice that the client goes away.
        if self.parser.should_upgrade() or not self._is_answered():
            raise ValueError
        self._reading = Reading.BODY
        self._loose_bytes = 0
        super().on_headers_complete()
        self.cycle.keep_alive = self.cycle.keep_alive and not self._settings.sends_away()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body, or drop it if the request is answered already."""
        if not self.cycle.response_complete:
            self._loose_bytes = max(0, self._loose_bytes - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Mark the request as completely received."""
        self._reading = Reading.NOTHING
        self._loose_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or until the client has read its last answer."""
        super().on_response_complete()
        if self.transport.is_closing() and self.timeout_keep_alive_task is None:
            self._limit_wait()

    def pause_writing(self) -> None:
        """Wait 30 s for a client that does not read its answer."""
        super().pause_writing()
        self._until_read = self.loop.call_later(_READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        if self._until_read is not None:
            self._until_read.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection; nobody will read what is left of the last answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Close the connection after the present answer, or after a request that is on its way.

        A connection that is closed with a request unread is reset, and kube-scheduler does not
        repeat a POST.
        """
        # uvicorn gives call_later whole seconds, which takes any.
        self.timeout_keep_alive = _LAST_REQUEST_S  # type: ignore[assignment]
        # While an answer is due, nothing limits the wait.
        if self.timeout_keep_alive_task is None:
            super().shutdown()
        else:
            self.timeout_keep_alive_task.cancel()
            self._limit_wait()

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _limit_wait(self) -> None:
        """Close the connection later: no answer is due, and the client may send or read nothing."""
        is_in_head = self._reading is Reading.HEAD
        wait_s = self._late_s - self.loop.time() if is_in_head else self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_later(wait_s, self.timeout_keep_alive_handler)

    async def fill(self, buffer: memoryview) -> None:
        """Fill the buffer, which is as long as the body, with the body that is being received.

        Raises: ClientDisconnect: the client went away before the end of the body.
        """
        begun, self.cycle.body = self.cycle.body, bytearray()
        if self.cycle.waiting_for_100_continue:
            self.cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        receiver = _BodyReceiver(self, buffer, begun)
        self.transport.set_protocol(receiver)
        self.flow.resume_reading()
        try:
            await receiver.ended.wait()
        except asyncio.CancelledError:
            # No parser knows where the rest of the body ends.
            self.cycle.keep_alive = False
            self.transport.set_protocol(self)
            raise
        finally:
            _BodyReceiver.under_way -= 1
        if receiver.left_bytes:
            raise ClientDisconnect


class _BodyReceiver(asyncio.BufferedProtocol):
    """Reads the rest of a body directly into a buffer; no byte behind the body is read.

    Args:
        connection: the connection.
        buffer: as long as the body.
        begun: the part of the body that has come already.

    Attributes:
        under_way: how many bodies are being received.
        ended: set when the body is complete or the client is gone.
        left_bytes: how many bytes are still to come.
    """

    under_way: ClassVar[int] = 0

    def __init__(self, connection: Connection, buffer: memoryview, begun: bytearray) -> None:
        self._connection = connection
        self._buffer = buffer
        self._turn_bytes = 0
        _BodyReceiver.under_way += 1
        buffer[: len(begun)] = begun
        self.left_bytes = len(buffer) - len(begun)
        self.ended = asyncio.Event()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return what may be filled before other connections have their turn."""
        del sizehint
        at = len(self._buffer) - self.left_bytes
        self._turn_bytes = max(_TURN_BYTES // _BodyReceiver.under_way, _LEAST_TURN_BYTES)
        return self._buffer[at : at + self._turn_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Count bytes; the end of the body gives the connection back to its parser."""
        self.left_bytes -= nbytes
        if not self.left_bytes:
            self.ended.set()
            # The old parser has not seen this body.
            self._connection.parser = httptools.HttpRequestParser(self._connection)
            self._connection.transport.set_protocol(self._connection)
            self._connection.on_message_complete()
        elif nbytes == self._turn_bytes:
            # The event loop looks at all other connections before it reads on.
            self._connection.flow.pause_reading()
            self._connection.loop.call_soon(self._connection.flow.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits for the body, and the connection."""
        self.ended.set()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Tell the connection that the client reads too slowly."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection that the client reads again."""
        self._connection.resume_writing()
