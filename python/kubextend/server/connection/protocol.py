"""uvicorn's HTTP/1.1 protocol with bounds on sizes and times, and a way past its parser.

A parser copies a body four times before a verb sees it. An application that knows how long it is
asks for ``fill`` instead, and the transport reads the rest of it right into the buffer.

It keeps little: a bind that a Permit plugin holds keeps its connection open for minutes, along with
many others.
"""

import asyncio
from collections.abc import Callable, Sized
from http import HTTPStatus
from typing import Any

import httptools
import orjson
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from kubextend.server.connection.asgi_extension import CONNECTION
from kubextend.server.connection.deadlines import Deadlines, Patience
from kubextend.server.connection.whole_body import WholeBody

__all__ = ["BoundedProtocol"]

_MOST_HEAD_BYTES = 64 * 1024
# Python keeps about this much for each field of a head besides its bytes.
_FIELD_BYTES = 200
# As Go's server counts what is in a chunked body besides its data.
_MOST_FRAMING_BYTES = 64 * 1024
_CHUNK_FRAMING_BYTES = 16
_FRAMING_PER_BODY_BYTE = 2
_MOST_WAITING = 100
_MOST_DROPPED_BYTES = 16 * 1024 * 1024
_HEAD_TOO_LARGE = f"the request's head is larger than {_MOST_HEAD_BYTES} bytes"
_HEAD_TOO_SLOW = "the request's head took too long"
_BODY_TOO_SLOW = "the request's body took too long"
_TOO_MUCH_FRAMING = (
    f"the request's body has more than {_MOST_FRAMING_BYTES} bytes of trailers and chunk framing"
)
_NOT_HTTP = "what was sent is no valid HTTP request"


class BoundedProtocol(HttpToolsProtocol):
    """Refuses heads without end, hangs up on bodies without end and on clients without haste.

    It is the ``Connection`` of its requests.

    Args:
        args: uvicorn's.
        deadlines: how long a client may take.
        ending: whether connections are to end with their next answer.
        on_refused: called with the status of a request that no application sees.
        most_connections: that the listener may have; one more is closed at once.
        on_full: called then.
        kwargs: uvicorn's.

    Attributes:
        when_gone: called when the client goes away.
    """

    # With these in its dictionary too it would have more fields than Python keeps in a compact one,
    # and each connection would cost a KB more.
    __slots__ = (
        "_active_s",
        "_answering",
        "_body_bytes",
        "_deadlines",
        "_deaf",
        "_dropped_bytes",
        "_ending",
        "_field_bytes",
        "_framing_bytes",
        "_in_body",
        "_in_head",
        "_last_words",
        "_most_connections",
        "_on_full",
        "_on_refused",
        "_reading",
        "_whole_body",
        "_writing",
        "when_gone",
    )

    def __init__(
        self,
        *args: Any,
        deadlines: Deadlines,
        ending: Callable[[], bool],
        on_refused: Callable[[int], None],
        most_connections: int,
        on_full: Callable[[], object],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        # Hardly anybody sends a request before the last one is answered.
        self.pipeline = _Pipeline()  # type: ignore[assignment]
        self.when_gone: Callable[[], object] | None = None
        self._deadlines = deadlines
        self._ending = ending
        self._on_refused = on_refused
        self._most_connections = most_connections
        self._on_full = on_full
        self._in_head = False
        self._in_body = False
        self._field_bytes = 0
        self._framing_bytes = 0
        self._body_bytes = 0
        self._dropped_bytes = 0
        self._deaf = False
        self._last_words = b""
        self._active_s = 0.0
        self._whole_body: WholeBody | None = None
        self._reading: Patience | None = None
        self._writing: Patience | None = None
        # The cycle of uvicorn's is the newest, which may have to wait for this one.
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there; it may take its time until it asks for something."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._active_s = self.loop.time()
        self._wait_while_idle(self.timeout_keep_alive)
        if len(self.connections) > self._most_connections:
            self._deaf = True
            self._on_full()
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more, and whoever wants to know is told."""
        self._stop_reading_patience()
        self._stop_writing_patience()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        if self._answering is not None and not self._answering.response_complete:
            # uvicorn tells the newest, and one that others wait behind would go on writing.
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        if self.when_gone is not None:
            self.when_gone()

    def peer_certificate(self) -> Any:
        """As ``ssl.SSLSocket.getpeercert`` has it."""
        return self.transport.get_extra_info("peercert")

    async def fill(self, buffer: memoryview) -> None:
        """The buffer holds the body of the request that is being answered.

        Raises: ClientDisconnect: the client went away before the end of it.
        """
        cycle = self._answering
        if cycle is None or cycle.disconnected or self.transport.is_closing():
            raise ClientDisconnect
        came = len(cycle.body)
        buffer[:came] = cycle.body
        cycle.body = bytearray()
        if cycle.more_body:
            # So the body is the last thing that was read of, and the cycle is the current one.
            await self._read_rest(buffer, came)
        else:
            # Only who reads on sees that a client goes away.
            self.flow.resume_reading()

    def data_received(self, data: bytes) -> None:
        """The bytes are parsed; a head or a framing of a body that is too large ends it all."""
        if self._deaf:
            return
        self._active_s = self.loop.time()
        self._framing_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # What follows is in another protocol, or in ours: nobody can tell.
            self._deaf = True
            return
        except httptools.HttpParserError:
            if not self._deaf:
                self._refuse(HTTPStatus.BAD_REQUEST, _NOT_HTTP)
            return
        if self._framing_bytes and not self._in_body:
            # Empty lines may stand before a request, and count as a part of its head.
            self._in_head = True
        if self._framing_bytes > _MOST_FRAMING_BYTES:
            message = _HEAD_TOO_LARGE if self._in_head else _TOO_MUCH_FRAMING
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
        elif self._reading is None and (self._in_head or self._in_body):
            self._wait_for_the_rest()

    def on_message_begin(self) -> None:
        """A request line has begun."""
        self._in_head = True
        self._field_bytes = self._body_bytes = self._dropped_bytes = 0
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head is kept; a trailer is not, since no verb reads any."""
        if self._in_head:
            self._field_bytes += len(name) + len(value) + _FIELD_BYTES
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_is_whole()
        super().on_headers_complete()
        self.cycle.message_event = _Event(self.loop)  # type: ignore[assignment]
        # The application may drop those of the scope.
        self.headers = []
        if self._ending() or self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A piece of the body: dropped once the request is answered, but not for ever.

        Hanging up at once could take the refusal from the client along with the connection.
        """
        self._body_bytes += len(body)
        allowed = len(body) * (1 + _FRAMING_PER_BODY_BYTE) + _CHUNK_FRAMING_BYTES
        self._framing_bytes = max(0, self._framing_bytes - allowed)
        if self.cycle.response_complete:
            self._dropped_bytes += len(body)
            if self._dropped_bytes > _MOST_DROPPED_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is whole."""
        self._body_came()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered: it has some time to do so."""
        super().pause_writing()
        if self._writing is None:
            unread = self._unread_bytes()
            self._writing = Patience(
                self.loop,
                self._deadlines.answer_s,
                self.transport.abort,
                lambda: self._worth_s(unread - self._unread_bytes()),
            )

    def resume_writing(self) -> None:
        """The client has read nearly everything that was handed out so far."""
        if self._unwritten_bytes() == 0:
            self._stop_writing_patience()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """The next request that waits is begun, or the one that was refused behind it hears so."""
        self.server_state.total_requests += 1
        self._active_s = self.loop.time()
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_words:
            self._hang_up(self._last_words)
        self.flow.resume_reading()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing was asked for a long time; an answer that is still unread will never be."""
        idle_s = 0.0 if self._is_busy() else self.loop.time() - self._active_s
        if idle_s < self.timeout_keep_alive:
            self._wait_while_idle(self.timeout_keep_alive - idle_s)
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _wait_while_idle(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _is_busy(self) -> bool:
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self._in_head or self._in_body

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    async def _read_rest(self, buffer: memoryview, received: int) -> None:
        cycle = self.cycle
        if cycle.waiting_for_100_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            cycle.waiting_for_100_continue = False
        self._whole_body = WholeBody(self, buffer, received, self._body_is_whole)
        self.transport.set_protocol(self._whole_body)
        self.flow.resume_reading()
        try:
            await self._whole_body.wait()
        except asyncio.CancelledError:
            self._go_deaf()
            raise
        finally:
            self._whole_body = None

    def _body_is_whole(self) -> None:
        """What comes next is a request, and this protocol's again."""
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn has it.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.transport.set_protocol(self)
        self.on_message_complete()

    def _go_deaf(self) -> None:
        """The rest of a body is nobody's, and no parser knows where it ends."""
        self._deaf = True
        self._stop_reading_patience()
        self.cycle.keep_alive = False
        self.transport.set_protocol(self)

    def _head_is_whole(self) -> None:
        """The body is next.

        Raises: httptools.HttpParserError: the request is refused, and nothing more is parsed.
        """
        if self._field_bytes + len(self.url) > _MOST_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _HEAD_TOO_LARGE)
            raise httptools.HttpParserError
        if len(self.pipeline) >= _MOST_WAITING:
            # Whoever asks without reading would not read a refusal in its turn either.
            self._deaf = True
            self._on_refused(HTTPStatus.BAD_REQUEST)
            self.transport.abort()
            raise httptools.HttpParserError
        self._framing_bytes = 0
        self._in_head = False
        self._in_body = True
        self._stop_reading_patience()

    def _body_came(self) -> None:
        self._framing_bytes = 0
        self._in_body = False
        self._stop_reading_patience()

    def _wait_for_the_rest(self) -> None:
        deadlines = self._deadlines
        if self._in_head:
            self._reading = Patience(self.loop, deadlines.head_s, self._too_slow)
        else:
            self._reading = Patience(
                self.loop,
                deadlines.body_s,
                self._too_slow,
                lambda: self._worth_s(self._received_bytes()),
            )

    def _unread_bytes(self) -> int:
        """Of the answer: what the transport holds, and what it was not given yet."""
        return self.transport.get_write_buffer_size() + self._unwritten_bytes()

    def _unwritten_bytes(self) -> int:
        return 0 if self._answering is None else self._answering.expected_content_length

    def _received_bytes(self) -> int:
        return self._body_bytes if self._whole_body is None else self._whole_body.received

    def _worth_s(self, moved_bytes: int) -> float:
        return moved_bytes / self._deadlines.slowest_bytes

    def _too_slow(self) -> None:
        self._reading = None
        if self.flow.read_paused:
            # It may have been sent long ago: it is us who do not read on.
            self._wait_for_the_rest()
        elif self._another_answer_is_due():
            self.transport.abort()
        else:
            what = _HEAD_TOO_SLOW if self._in_head else _BODY_TOO_SLOW
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, what)

    def _another_answer_is_due(self) -> bool:
        """Whether a refusal now would be taken for the answer to something else."""
        if self.cycle is None or self.cycle.response_complete:
            # Of the body of a request that is refused already the rest is as good as an answer.
            return self._in_body and self.cycle is not None
        return self._in_head or self.cycle.response_started or bool(self.pipeline)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """The request that is being read is refused in its turn, and nothing is read after it."""
        self._deaf = True
        self._stop_reading_patience()
        self._on_refused(status)
        if self._in_body and self._is_answered_in_part():
            return
        body = orjson.dumps({"Error": message})
        words = (
            b"%b"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (STATUS_LINE[status], len(body), body)
        )
        if self._in_body and self.pipeline:
            # The newest is the one that is refused.
            del self.pipeline[0]
        elif self._in_body:
            self._forget_answer()
        if self._answering is not None and not self._answering.response_complete:
            self._last_words = words
        else:
            self._hang_up(words)

    def _is_answered_in_part(self) -> bool:
        """Whether the request that is being read has (some of) its answer; no more will follow."""
        if self.pipeline or self._answering is None or not self._answering.response_started:
            return False
        if self._answering.response_complete:
            self.transport.close()
        else:
            self.transport.abort()
        return True

    def _forget_answer(self) -> None:
        """The application writes nothing any more, and hears that its client is gone."""
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
            self._answering = None

    def _hang_up(self, words: bytes) -> None:
        self.transport.write(words)
        self.transport.close()

    def _stop_reading_patience(self) -> None:
        if self._reading is not None:
            self._reading.end()
            self._reading = None

    def _stop_writing_patience(self) -> None:
        if self._writing is not None:
            self._writing.end()
            self._writing = None


class _Pipeline(list[Any]):
    """A queue that is mostly empty; the first block of a deque takes 600 bytes."""

    __slots__ = ()

    def appendleft(self, waiting: Any) -> None:
        self.insert(0, waiting)


class _Event:
    """An ``asyncio.Event`` without a deque for the few that wait for it."""

    __slots__ = ("_is_set", "_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiters: tuple[asyncio.Future[None], ...] = ()

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = ()

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        if not self._is_set:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters = (*self._waiters, waiter)
            await waiter


class _Flow(FlowControl):
    """Reads no further while requests wait: each answer would bring in as many as fit one read.

    Makes its event when a client reads too slowly, which few ever do.

    Args:
        transport: what is read.
        waiting: requests behind the one that is being answered.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        self._transport = transport
        self._waiting = waiting
        self.read_paused = False
        self.write_paused = False
        self._writable: asyncio.Event | None = None

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def pause_writing(self) -> None:
        if self._writable is None:
            self.write_paused = True
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self.write_paused = False
            self._writable.set()
            self._writable = None
