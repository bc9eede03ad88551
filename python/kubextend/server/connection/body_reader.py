"""Reads the body of a request within limits: from the HTTP parser, or directly into a buffer."""

import asyncio
from collections.abc import Callable
from email.message import Message as MimeHeader
from io import BytesIO
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from kubextend import core
from kubextend.server.connection.asgi_extension import connection_of
from kubextend.server.connection.bytes_in_flight import BytesInFlight, Share
from kubextend.server.reply import RefusedError
from kubextend.verbs.answer import Body

if TYPE_CHECKING:
    from kubextend.server.connection.http_connection import HttpConnection

__all__ = ["BodyReader", "BodyReceiver"]

_JSON: Final = b"application/json"
# Python's parser of MIME types takes a second for some that are longer.
_MOST_TYPE_CHARS: Final = 256

# From this size on, a body is read without the HTTP parser, which cuts and copies bodies.
_LARGE_BYTES: Final = 64 * 1024


class BodyReader:
    """Reads the JSON bodies of requests, within a limit of bytes.

    Args:
        most_bytes: the limit; a larger body is refused.
        pool: lends the memory of bodies of 64 KiB or more; None: every body is ``bytes``.
        limit: the field of the configuration that sets ``most_bytes``; empty if no field does.
    """

    def __init__(self, most_bytes: int, pool: core.BodyPool | None = None, limit: str = "") -> None:
        self._most_bytes = most_bytes
        self._pool = pool
        self._limit = limit

    async def read(self, scope: Scope, receive: Receive, share: Share | None = None) -> Body:
        """Return the whole body of a request; count its bytes in ``share`` if that is not None.

        Raises:
            RefusedError: 415 if the Content-Type is not JSON or the body is compressed; 413 if the
                body is longer than the limit; 503 if the bodies of all requests together take too
                many bytes. A body that has a Content-Length may be refused before it is read, and
                every body while it comes.
            ClientDisconnect: the client disconnected.
        """
        headers = dict(scope["headers"])
        if headers.get(b"content-type") != _JSON or b"content-encoding" in headers:
            _check_type(Headers(scope=scope))
        length = int(headers.get(b"content-length", 0))
        if length > self._most_bytes:
            raise self._too_large()
        share = share or Share(BytesInFlight(self._most_bytes))
        try:
            body = await self._read(scope, receive, share, length)
        except BaseException:
            if not share.end():
                raise
        else:
            if not share.end():
                return body
        # Raised while another error is handled, this one would refer to the frames of that error,
        # and to the buffer, until a client that reads slowly has its answer.
        raise share.refusal()

    async def _read(self, scope: Scope, receive: Receive, share: Share, length: int) -> Body:
        share.expect(length)
        if length >= _LARGE_BYTES and self._pool is not None:
            connection = connection_of(scope)
            if connection is not None:
                return await _read_at_once(connection, share.lend(length, self._pool), share)
        return await self._read_pieces(receive, share)

    async def _read_pieces(self, receive: Receive, share: Share) -> bytes:
        """Return a body read in pieces from the ASGI ``receive``; count each piece in ``share``."""
        # Joining a list of pieces would hold all of the body twice.
        whole = BytesIO()
        while True:
            piece, more = await _piece(receive)
            if whole.tell() + len(piece) > self._most_bytes:
                raise self._too_large()
            share.take(len(piece))
            whole.write(piece)
            if not more:
                return whole.getvalue()
            share.begin()

    def _too_large(self) -> RefusedError:
        set_by = f" ({self._limit})" if self._limit else ""
        return RefusedError(413, f"the body is larger than {self._most_bytes} bytes{set_by}")


class BodyReceiver(asyncio.BufferedProtocol):
    """Reads the body of a request from a connection directly into a buffer, until it is full.

    Args:
        carrier: the connection.
        buffer: as long as the body; no byte behind the body is read.
        received: how many bytes of the body are in the buffer already; the attribute of this name
            counts on.
        on_received: called with ``received`` after each read.
    """

    def __init__(
        self,
        carrier: "HttpConnection",
        buffer: memoryview,
        received: int,
        on_received: Callable[[int], None],
    ) -> None:
        self.received = received
        self._carrier = carrier
        self._buffer = buffer
        self._on_received = on_received
        self._turn_ends_at = received + carrier.turn_bytes()
        self._complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Wait until the buffer holds the whole body.

        Raises: ClientDisconnect: the client disconnected before.
        """
        if not await self._complete:
            # An exception that the future kept would keep the buffer too, by its traceback.
            raise ClientDisconnect

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the part of the buffer that may be filled before other connections are read."""
        del sizehint
        return self._buffer[self.received : self._turn_ends_at]

    def buffer_updated(self, nbytes: int) -> None:
        """Record ``nbytes`` more received bytes, and tell the connection of the body's end."""
        self.received = received = self.received + nbytes
        self._on_received(received)
        if received == len(self._buffer):
            self._carrier.body_is_received()
            self._settle(complete=True)
        elif received == self._turn_ends_at:
            self._turn_ends_at += self._carrier.turn_bytes()
            self._carrier.let_others_read()

    def eof_received(self) -> None:
        """Let the transport close: a client that sends no more leaves the body incomplete."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Let ``wait`` raise ClientDisconnect unless the body is complete: the client is gone."""
        self._settle(complete=False)
        self._carrier.connection_lost(exc)

    def pause_writing(self) -> None:
        """Tell the connection that the client reads too slowly."""
        self._carrier.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection that the client reads again."""
        self._carrier.resume_writing()

    def _settle(self, *, complete: bool) -> None:
        if not self._complete.done():
            self._complete.set_result(complete)


async def _read_at_once(
    connection: "HttpConnection", body: core.BodyBuffer, share: Share
) -> core.BodyBuffer:
    with memoryview(body) as view:
        await connection.fill(view, share.came)
    return body


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """Return the next piece of a request's body, and whether more is to come."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


def _check_type(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        shown = encoding[:_MOST_TYPE_CHARS]
        message = f"Content-Encoding: {shown!r} is not taken; send the body as it is"
        raise RefusedError(415, message)
    given = headers.get("content-type", "")
    if len(given) > _MOST_TYPE_CHARS:
        message = f"Content-Type has more than {_MOST_TYPE_CHARS} characters; send application/json"
        raise RefusedError(415, message)
    mime = MimeHeader()
    mime["content-type"] = given or "none/none"
    if mime.get_content_type() == "application/json" and _is_utf8(mime.get_content_charset()):
        return
    message = f"Content-Type: {given!r} is not taken; send application/json"
    raise RefusedError(415, message)


def _is_utf8(charset: str | None) -> bool:
    return charset in {None, "utf-8", "utf8"}
