"""One HTTP/1.1 connection: turns a client's bytes into calls of an ASGI application, in order.

httptools parses the bytes. ``HttpConnection`` limits what a client may send and how long the client
may take, and answers requests in the order in which they came: a request that cannot be read is
refused in its turn. uvicorn's server only makes an ``HttpConnection`` for each connection, and
calls its ``shutdown`` when the server shuts down.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Scope
from uvicorn.server import ServerState

from kubextend.server.connection.asgi_extension import CONNECTION
from kubextend.server.connection.body_reader import BodyReceiver
from kubextend.server.connection.bytes_in_flight import BytesInFlight
from kubextend.server.connection.deadlines import Deadline, Deadlines
from kubextend.server.connection.exchange import Exchange
from kubextend.server.connection.phases import AnswerPhase, Reading
from kubextend.server.connection.request_byte_limits import (
    FREE_BYTES,
    MOST_FRAMING_BYTES,
    MOST_HEAD_BYTES,
    RequestBytes,
)
from kubextend.server.reply import RefusedError, refuse

__all__ = ["ConnectionSettings", "HttpConnection"]

_MOST_WAITING: Final = 100
# How many bytes of a body are read before the application takes them.
_MOST_UNTAKEN_BYTES: Final = 64 * 1024
# What up to 64 large bodies together read before the event loop looks at the other connections
# again: about two milliseconds of its time. As much may be held beyond the limit, because a read is
# counted after it came. Each turn costs time as well, so that none is too small: more bodies than
# 64 read more together.
_MOST_TURN_BYTES: Final = 4 * 1024 * 1024
_LEAST_TURN_BYTES: Final = 64 * 1024
# The parser may keep so many bytes of the next request's head that nothing counts: no more than
# each connection may hold uncounted.
_MOST_PARSED_BYTES: Final = FREE_BYTES
# How long a client has to read an answer that does not fit beside what other requests hold.
_READ_WITHIN_S: Final = 1.0
_HEAD_TOO_LARGE: Final = f"the request's head is larger than {MOST_HEAD_BYTES} bytes"
_HEAD_TOO_SLOW: Final = "the request's head took too long"
_BODY_TOO_SLOW: Final = "the request's body took too long"
_TOO_MUCH_FRAMING: Final = (
    f"the request's body has more than {MOST_FRAMING_BYTES} bytes of trailers and chunk framing;"
    " send larger chunks"
)
_NOT_HTTP: Final = "what was sent is no valid HTTP request"
_NOT_ONE_HOST: Final = "a request needs one Host field, and no second one"
_OTHER_CODING: Final = "no Transfer-Encoding other than chunked is taken"
_UPGRADE_WITH_BODY: Final = "a request that asks for another protocol has no body"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings that all connections of a listener share.

    Attributes:
        app: the ASGI application that answers.
        deadlines: how long a client may take.
        in_flight: counts the bytes that requests hold.
        keep_alive_s: how many seconds an idle connection stays open.
        most_connections: how many connections may be open; one more replaces the connection that
            is idle for the longest time, or is closed immediately if none is idle.
        is_draining: returns whether each connection is to end after the next answer on it.
        on_refused: called with the status of each request that the connection refuses itself.
        on_full: called when a connection is closed because too many are open.
        idle: open connections on which no answer is due, the longest idle first. The client may
            still send, or read the end of an answer.
    """

    app: ASGIApp
    deadlines: Deadlines
    in_flight: BytesInFlight
    keep_alive_s: float
    most_connections: int
    is_draining: Callable[[], bool]
    on_refused: Callable[[HTTPStatus], object]
    on_full: Callable[[], object]
    idle: "OrderedDict[HttpConnection, None]" = field(default_factory=OrderedDict)


class HttpConnection(asyncio.Protocol):
    """Reads the requests of one client within limits, and writes the answers in order.

    Args:
        settings: the settings of the listener.
        server: uvicorn's list of connections and tasks, which its shutdown waits for.
    """

    __slots__ = (
        "_answer_deadline",
        "_body_length",
        "_body_receiver",
        "_bytes",
        "_client",
        "_exchanges",
        "_headers",
        "_idle_deadline",
        "_incoming",
        "_last_active_s",
        "_loop",
        "_opened_s",
        "_parser",
        "_reading",
        "_reading_is_paused",
        "_request_deadline",
        "_scheme",
        "_server",
        "_settings",
        "_target",
        "_transport",
        "_unwritten_bytes",
        "_writable",
    )

    def __init__(self, settings: ConnectionSettings, server: ServerState) -> None:
        self._settings = settings
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._client: tuple[str, int] | None = None
        self._scheme = "http"
        self._parser = httptools.HttpRequestParser(self)
        self._reading = Reading.REQUEST
        self._reading_is_paused = False
        self._bytes = RequestBytes(settings.in_flight.common)
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        # The first exchange is being answered, the others wait for their turn.
        self._exchanges: list[Exchange] = []
        # The exchange whose body is being read, which may be answered already.
        self._incoming: Exchange | None = None
        # The length of the body that is being read; 0: unknown.
        self._body_length = 0
        self._body_receiver: BodyReceiver | None = None
        self._writable: asyncio.Event | None = None
        # The bytes of answers that are counted because the client does not read them.
        self._unwritten_bytes = 0
        self._opened_s = self._last_active_s = self._loop.time()
        self._idle_deadline = Deadline(self._loop)
        self._request_deadline = Deadline(self._loop)
        self._answer_deadline = Deadline(self._loop)

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for requests; if the listener has too many connections, end one.

        Without this limit, clients that only stay connected would keep out all other clients.
        """
        self._transport = cast("asyncio.Transport", transport)
        # Bytes beyond this limit are counted.
        self._transport.set_write_buffer_limits(high=FREE_BYTES)
        if peer := transport.get_extra_info("peername"):
            # The address of an IPv6 peer has four parts.
            self._client = peer[:2]
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._idle_deadline.start(self._settings.keep_alive_s, self._end_idle, self._busy_s)
        if len(self._server.connections) > self._settings.most_connections:
            self._settings.on_full()
            idle = self._settings.idle
            (next(iter(idle)) if idle else self).give_place()
        self._note_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application of each unanswered request that the client is gone."""
        del exc
        self._server.connections.discard(self)
        self._end_part(Reading.NOTHING)
        for deadline in (self._idle_deadline, self._answer_deadline):
            deadline.cancel()
        for exchange in self._exchanges:
            exchange.withdraw()
            self._bytes.let_go(exchange.held_bytes)
        self._let_go_of_written()
        self._release_writers()
        # The exchanges and the parser refer to this object, which only a garbage collection would
        # free otherwise.
        self._exchanges.clear()
        self._incoming = None
        del self._parser

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the client, and refuse a request that is no HTTP or too large."""
        if self._reading is Reading.NOTHING:
            self._drop(len(data))
            return
        self._last_active_s = self._loop.time()
        try:
            self._parse(memoryview(data))
        except httptools.HttpParserUpgrade:
            # Nothing is read any more, as nobody can tell which protocol follows.
            pass
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, RefusedError) else RefusedError(400, _NOT_HTTP))
        except RefusedError as error:
            self._refuse(error)

    def pause_writing(self) -> None:
        """Start a deadline for the client to read the answer, since the write buffer is full."""
        self._writable = asyncio.Event()
        unread = self._unread_bytes()
        self._answer_deadline.start(
            self._settings.deadlines.answer_s,
            self._transport.abort,
            lambda: self._earned_s(unread - self._unread_bytes()),
        )

    def resume_writing(self) -> None:
        """Let the application go on, because the client has read most of the written bytes."""
        self._let_go_of_written()
        self._release_writers()
        self._end_answer_deadline()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request, unless the connection ends with the request before."""
        if self._reading is Reading.NOTHING:
            raise httptools.HttpParserError
        self._reading = Reading.HEAD
        self._bytes.begin()
        self._target = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        """Add a piece of the request target, which is the path and query of the URL."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; drop a trailer, because no application reads trailers."""
        in_head = self._reading is Reading.HEAD
        self._bytes.field(name, value)
        if self._bytes.head_bytes(self._target) > MOST_HEAD_BYTES:
            raise RefusedError(431, _HEAD_TOO_LARGE if in_head else _TOO_MUCH_FRAMING)
        if in_head:
            # RFC 9110, 5.5; the parser strips white space before the value alone.
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Queue the request, whose head is complete, behind the connection's earlier requests."""
        head_bytes = self._bytes.head_bytes(self._target)
        if head_bytes > MOST_HEAD_BYTES:
            raise RefusedError(431, _HEAD_TOO_LARGE)
        if len(self._exchanges) > _MOST_WAITING:
            # A client that asks without reading would not read a refusal in its turn either.
            self._end_part(Reading.NOTHING)
            self._settings.on_refused(HTTPStatus.BAD_REQUEST)
            self._transport.abort()
            raise httptools.HttpParserError
        exchange = self._exchange(self._scope(), head_bytes)
        self._end_part(Reading.BODY)
        self._bytes.hold(head_bytes)
        self._incoming = exchange
        self._enqueue(exchange)

    def on_chunk_header(self) -> None:
        """Refuse a body of too many small chunks, because each chunk costs time, however small."""
        if self._reading is Reading.BODY and not self._bytes.chunk():
            raise RefusedError(431, _TOO_MUCH_FRAMING)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the request's body, or drop it if the request is answered already."""
        self._bytes.data(len(body))
        exchange = self._incoming
        if exchange is None or exchange.answer is AnswerPhase.COMPLETE:
            self._drop(len(body))
            return
        if exchange is not self._exchanges[0]:
            self._bytes.hold(len(body))
            exchange.held_bytes += len(body)
        exchange.add_body(body)
        self.read_on()

    def on_message_complete(self) -> None:
        """Mark the request that is being read as completely received."""
        exchange, self._incoming = self._incoming, None
        if exchange is None:
            # The request was refused, and nothing is read after it.
            return
        self._end_part(Reading.REQUEST if exchange.keep_alive else Reading.NOTHING)
        exchange.complete_body()

    # What uvicorn and the service call.

    def shutdown(self) -> None:
        """End the connection: now if no answer is due, else after the last answer."""
        if self._exchanges:
            self._exchanges[-1].keep_alive = False
        else:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now, even if bytes of an answer are still to be written."""
        self._transport.abort()

    # What a body receiver calls.

    def turn_bytes(self) -> int:
        """Return how much of a large body may be read before other connections have their turn."""
        share = _MOST_TURN_BYTES // max(1, self._settings.in_flight.incoming)
        return max(share, _LEAST_TURN_BYTES)

    def let_others_read(self) -> None:
        """Read no more of this connection until the event loop has looked at all others.

        Otherwise uvloop reads up to 32 times before it looks at the next connection.
        """
        if not self._reading_is_paused:
            self._transport.pause_reading()
            self._loop.call_soon(self._read_after_others)

    def body_is_received(self) -> None:
        """Parse the next request with a new parser; the old one has not seen the last body."""
        self._parser = httptools.HttpRequestParser(self)
        self._transport.set_protocol(self)
        self.on_message_complete()

    # What an exchange and the application call.

    def default_headers(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the headers that every answer has: the date."""
        return self._server.default_headers

    def write(self, *pieces: bytes | bytearray | memoryview) -> None:
        """Send bytes to the client, if possible by a single system call."""
        self._transport.writelines(pieces)

    async def writable(self) -> None:
        """Wait until the client has read most of the bytes that were written."""
        if self._writable is not None:
            await self._writable.wait()

    def read_on(self) -> None:
        """Resume reading from the client, or pause while requests wait or body bytes pile up.

        Without the pause, the connection would read more requests after each answer, however many
        are waiting.
        """
        pause = len(self._exchanges) > 1 or (
            len(self._exchanges) == 1 and self._exchanges[0].untaken_bytes > _MOST_UNTAKEN_BYTES
        )
        if pause is not self._reading_is_paused and not self._transport.is_closing():
            self._reading_is_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def answered(self) -> None:
        """Remove the request whose answer is complete; start the next, or close the connection."""
        exchange = self._exchanges.pop(0)
        self._bytes.let_go(exchange.held_bytes)
        self._last_active_s = self._loop.time()
        if self._writable is None:
            self._end_answer_deadline()
        self._count_unwritten()
        if not exchange.keep_alive:
            self._end_part(Reading.NOTHING)
            self._transport.close()
        elif self._exchanges and not self._transport.is_closing():
            self._start(self._exchanges[0])
        self._note_idle()
        self.read_on()

    def peer_certificate(self) -> Any:
        """Return the client's certificate as ``ssl.SSLSocket.getpeercert`` does."""
        return self._transport.get_extra_info("peercert")

    async def fill(self, buffer: memoryview, on_received: Callable[[int], None]) -> None:
        """Fill the buffer with the body of the request that is being answered, without the parser.

        Args:
            buffer: as long as the body.
            on_received: called once before and after each read, with the number of body bytes
                received so far.

        Raises: ClientDisconnect: the client went away before the end of the body.
        """
        if not self._exchanges or self._transport.is_closing():
            raise ClientDisconnect
        exchange = self._exchanges[0]
        begun = exchange.take_body()
        buffer[: len(begun)] = begun
        on_received(len(begun))
        if exchange.body_is_complete:
            if len(begun) < len(buffer):
                # The rest of the buffer has bytes of other requests.
                raise ClientDisconnect
        elif exchange is not self._incoming:
            # The first of the connection is the refusal of the request by now.
            raise ClientDisconnect
        else:
            exchange.allow_body()
            await self._receive_body(exchange, buffer, len(begun), on_received)

    async def _receive_body(
        self,
        exchange: Exchange,
        buffer: memoryview,
        begun: int,
        on_received: Callable[[int], None],
    ) -> None:
        receiver = BodyReceiver(self, buffer, begun, on_received)
        self._body_receiver = receiver
        self._transport.set_protocol(receiver)
        self.read_on()
        try:
            await receiver.wait()
        except asyncio.CancelledError:
            # No parser knows where the rest of the body ends.
            self._end_part(Reading.NOTHING)
            exchange.keep_alive = False
            self._transport.set_protocol(self)
            raise
        finally:
            self._body_receiver = None

    def _read_after_others(self) -> None:
        if not self._reading_is_paused:
            self._transport.resume_reading()

    # Requests in their turn.

    def _scope(self) -> Scope:
        url = httptools.parse_url(self._target)
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self._parser.get_http_version(),
            "method": self._parser.get_method().decode("ascii"),
            "scheme": self._scheme,
            "path": unquote(url.path.decode("ascii")),
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            CONNECTION: self,
        }

    def _exchange(self, scope: Scope, head_bytes: int) -> Exchange:
        """Return a new ``Exchange`` (a request with its answer) for a request whose head has come.

        Raises: RefusedError: 400 for several Host fields, or for none in HTTP/1.1 (RFC 9112, 3.2),
            and for an upgrade with a body; 501 for a Transfer-Encoding other than chunked (RFC
            9112, 6.1).
        """
        names = [name for name, _ in self._headers]
        is_new = scope["http_version"] == "1.1"
        hosts = names.count(b"host")
        if hosts > 1 or (is_new and not hosts):
            raise RefusedError(400, _NOT_ONE_HOST)
        is_chunked = b"transfer-encoding" in names
        if is_chunked and self._fields(b"transfer-encoding") != [b"chunked"]:
            raise RefusedError(501, _OTHER_CODING)
        length = int(next(iter(self._fields(b"content-length")), 0))
        if self._parser.should_upgrade() and (is_chunked or length):
            # The parser would report the end of the body before its first byte.
            raise RefusedError(400, _UPGRADE_WITH_BODY)
        self._body_length = 0 if is_chunked else length
        return Exchange(
            self,
            self._settings.app,
            scope,
            keep_alive=(
                is_new
                and self._parser.should_keep_alive()
                and not self._parser.should_upgrade()
                and not self._settings.is_draining()
            ),
            expects_continue=is_new
            and b"expect" in names
            and b"100-continue" in self._fields(b"expect"),
            is_chunked=is_chunked,
            held_bytes=head_bytes,
        )

    def _fields(self, wanted: bytes) -> list[bytes]:
        return [value.lower() for name, value in self._headers if name == wanted]

    def _enqueue(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)
        self._note_idle()
        if len(self._exchanges) == 1:
            self._start(exchange)
        self.read_on()

    def _start(self, exchange: Exchange) -> None:
        # The application's reading counts the bytes of the body that came while the request waited.
        waited = exchange.untaken_bytes
        exchange.held_bytes -= waited
        self._bytes.let_go(waited)
        task = self._loop.create_task(exchange.run())
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _refuse(self, error: RefusedError) -> None:
        """Refuse the request being read, after the answers to earlier requests; read no further.

        If the answer to the request has begun, the connection is closed instead.
        """
        if self._reading is Reading.NOTHING:
            return
        # Nothing is kept of what cannot be read.
        self._parser = httptools.HttpRequestParser(self)
        self._headers = []
        self._end_part(Reading.NOTHING)
        self._settings.on_refused(HTTPStatus(error.status))
        if self._answer_is_begun():
            self._end_in_answer()
            return
        if self._incoming is not None:
            self._incoming.withdraw()
            self._bytes.let_go(self._incoming.held_bytes)
            self._incoming = None
            self._exchanges.pop()
        scope = {"type": "http", "method": "", "path": "", "headers": []}

        async def refusal(_scope: Scope, _receive: object, send: Any) -> None:
            await refuse(send, error)

        self._enqueue(Exchange(self, refusal, scope, keep_alive=False))

    def _drop(self, size: int) -> None:
        """Drop bytes from the client that no application reads; beyond 16 MiB, end the connection.

        A client that still sends may miss the answer if the connection is closed at once. Others
        have their turn after each piece.
        """
        if self._bytes.drop(size):
            self.let_others_read()
        else:
            self._transport.close()

    def _answer_is_begun(self) -> bool:
        """Return whether the request that is being read already has an answer, or a part of one."""
        incoming = self._incoming
        return incoming is not None and incoming.answer in {AnswerPhase.BEGUN, AnswerPhase.COMPLETE}

    def _end_in_answer(self) -> None:
        if self._exchanges:
            self._transport.abort()
        else:
            self._transport.close()

    # Bytes and time.

    def _parse(self, rest: memoryview) -> None:
        """Pass received bytes to the parser, unless the connection reads no more requests."""
        while rest and self._reading is not Reading.NOTHING:
            part = rest[: max(_MOST_PARSED_BYTES, self._body_bytes_left())]
            rest = rest[len(part) :]
            self._bytes.read(len(part))
            self._parser.feed_data(part)
            self._check_incomplete_request()

    def _body_bytes_left(self) -> int:
        """Return how many bytes of the body are still to come; 0: unknown, or no body is read."""
        if self._reading is not Reading.BODY:
            return 0
        return max(0, self._body_length - self._bytes.body_bytes)

    def _count_unwritten(self, *, last_try: bool = False) -> None:
        """Count the bytes of complete answers until the client has read them.

        If all requests together would hold too many bytes, the client has a second to read the
        answers; then the connection is closed.
        """
        if self._writable is None:
            return
        self._let_go_of_written()
        size = self._transport.get_write_buffer_size()
        try:
            self._bytes.hold(size)
        except RefusedError as error:
            if last_try:
                self._settings.on_refused(HTTPStatus(error.status))
                self._transport.abort()
            else:
                self._loop.call_later(_READ_WITHIN_S, partial(self._count_unwritten, last_try=True))
        else:
            self._unwritten_bytes = size

    def _let_go_of_written(self) -> None:
        self._bytes.let_go(self._unwritten_bytes)
        self._unwritten_bytes = 0

    def _end_part(self, next_part: Reading) -> None:
        self._reading = next_part
        self._bytes.end_part()
        self._request_deadline.cancel()
        self._note_idle()

    def _check_incomplete_request(self) -> None:
        """Start the deadline for an incomplete request, and check how many bytes it takes.

        Raises: RefusedError: 431: the request's head or chunk framing is too large; 503: all
            requests together hold too many bytes.
        """
        if self._reading is Reading.NOTHING:
            return
        if self._reading is Reading.REQUEST and self._bytes.has_framing:
            # Empty lines may stand before a request, and are a part of its head.
            self._reading = Reading.HEAD
        if self._bytes.framing_is_too_large:
            in_head = self._reading is Reading.HEAD
            raise RefusedError(431, _HEAD_TOO_LARGE if in_head else _TOO_MUCH_FRAMING)
        self._bytes.count_held()
        if self._reading is not Reading.REQUEST:
            self._begin_request_deadline()

    def _begin_request_deadline(self) -> None:
        deadlines = self._settings.deadlines
        if self._reading is Reading.HEAD:
            self._request_deadline.start(deadlines.head_s, self._end_late_request)
        else:
            self._request_deadline.start(
                deadlines.body_s,
                self._end_late_request,
                lambda: self._earned_s(self._body_bytes()),
            )

    def _end_late_request(self) -> None:
        if self._reading_is_paused:
            # The client may have sent it long ago: this server does not read on.
            self._begin_request_deadline()
        elif self._answer_is_begun() or (self._reading is Reading.HEAD and self._exchanges):
            # The client would take a refusal for another answer that is due.
            self._transport.abort()
        else:
            message = _HEAD_TOO_SLOW if self._reading is Reading.HEAD else _BODY_TOO_SLOW
            self._refuse(RefusedError(408, message))

    def _note_idle(self) -> None:
        """List the connection as idle while it is open and no answer is due.

        A body that comes after its answer keeps no place: a client could send one without end.
        """
        if self in self._server.connections and not self._exchanges:
            self._settings.idle[self] = None
        else:
            self._settings.idle.pop(self, None)

    def give_place(self) -> None:
        """Close the connection now in favour of another, and stop counting it as open."""
        self._server.connections.discard(self)
        self._end_part(Reading.NOTHING)
        self._transport.abort()

    def _end_idle(self) -> None:
        if self._transport.get_write_buffer_size():
            # Nobody will ever read the end of the last answer.
            self._transport.abort()
        else:
            self._transport.close()

    def _busy_s(self) -> float:
        """Return the seconds from the connection's start to the last activity on it."""
        is_busy = self._exchanges or self._reading in {Reading.HEAD, Reading.BODY}
        return (self._loop.time() if is_busy else self._last_active_s) - self._opened_s

    def _body_bytes(self) -> int:
        receiver = self._body_receiver
        return self._bytes.body_bytes if receiver is None else receiver.received

    def _unread_bytes(self) -> int:
        """Return how many bytes of answers are not sent yet, in a buffer or still to be written."""
        unsent = self._exchanges[0].unsent_bytes if self._exchanges else 0
        return self._transport.get_write_buffer_size() + unsent

    def _earned_s(self, moved_bytes: int) -> float:
        return moved_bytes / self._settings.deadlines.slowest_bytes

    def _end_answer_deadline(self) -> None:
        """End the deadline for reading an answer, if the application has sent the whole answer."""
        if not (self._exchanges and self._exchanges[0].unsent_bytes):
            self._answer_deadline.cancel()

    def _release_writers(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None
