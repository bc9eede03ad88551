"""uvicorn's HTTP/1.1 protocol, with bounds on what it reads without an application's leave.

Also tells of the connection what ASGI does not, and keeps little of it: a bind that a Permit plugin
holds keeps its connection open for minutes, along with many others.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kubextend.server.connection import CONNECTION

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BoundedProtocol"]

_MOST_HEAD_BYTES = 64 * 1024
_MOST_DROPPED_BYTES = 16 * 1024 * 1024
_HEAD_TOO_LARGE = b"""{"Error":"the request's head is larger than 65536 bytes"}"""


class BoundedProtocol(HttpToolsProtocol):
    """Refuses heads without end, and hangs up on bodies that go on after their refusal.

    It is the ``Connection`` of its requests.

    Attributes:
        when_gone: called when the client goes away.
    """

    # With these in its dictionary too it would have more fields than Python keeps in a compact one,
    # and each connection would cost a KB more.
    __slots__ = ("_dropped_bytes", "_head_bytes", "_in_head", "when_gone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Hardly anybody sends a request before the last one is answered.
        self.pipeline = _Pipeline()  # type: ignore[assignment]
        self.when_gone: Callable[[], object] | None = None
        self._in_head = False
        self._head_bytes = 0
        self._dropped_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client is there."""
        super().connection_made(transport)
        self.flow = _Flow(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, and whoever wants to know is told."""
        super().connection_lost(exc)
        if self.when_gone is not None:
            self.when_gone()

    def peer_certificate(self) -> Any:
        """As ``ssl.SSLSocket.getpeercert`` has it."""
        return self.transport.get_extra_info("peercert")

    def data_received(self, data: bytes) -> None:
        """The bytes are parsed; a head that is still not whole and too large ends it all."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """A request line has begun."""
        self._in_head = True
        self._head_bytes = self._dropped_bytes = 0
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()
        self.cycle.message_event = _Event(self.loop)  # type: ignore[assignment]
        # The application may drop those of the scope.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """A piece of the body: dropped once the request is answered, but not for ever.

        Hanging up at once could take the refusal from the client along with the connection.
        """
        if self.cycle.response_complete:
            self._dropped_bytes += len(body)
            if self._dropped_bytes > _MOST_DROPPED_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def _refuse_head(self) -> None:
        self._in_head = False
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (len(_HEAD_TOO_LARGE), _HEAD_TOO_LARGE)
        )
        self.transport.close()


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
    """Makes its event when a client reads too slowly, which few ever do."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = False
        self.write_paused = False
        self._writable: asyncio.Event | None = None

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
