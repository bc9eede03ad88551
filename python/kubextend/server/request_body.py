"""Reads the bodies of requests, within limits on one body, on all bodies, and on time."""

import asyncio
import re
from concurrent.futures import Future
from contextlib import suppress
from io import BytesIO
from typing import Any, ClassVar, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from kubextend import core
from kubextend.metrics import ScrapedGauge
from kubextend.server.connection import connection_of
from kubextend.verbs.answer import Body

__all__ = ["BodyReader", "BytesInFlight", "Share"]

_MOST_TYPE_CHARS: Final = 256
# With any parameters but another charset.
_JSON: Final = re.compile(
    r'application/json *+(;(?! *+charset="?+(?!utf-?8)).{0,256})?', re.IGNORECASE
)
# From this size on, a body is read past the HTTP parser, which cuts and copies bodies.
_LARGE_BYTES: Final = 64 * 1024
# A body has these seconds, and one more for each 64 KiB of its Content-Length.
_BODY_S: Final = 30.0
_SLOWEST_BYTES: Final = 64 * 1024


class BytesInFlight:
    """Counts the bytes of bodies or answers of all requests; use it on the event loop only.

    Args:
        most_bytes: the limit, ``server.maxInFlightBytes``, which the count never passes.

    Attributes:
        count: the bytes that are held now.
        peak: the most bytes that were held since somebody lowered this number.
    """

    most_bytes: int
    count: int
    METRICS: ClassVar[tuple["ScrapedGauge[BytesInFlight]", ...]] = (
        ScrapedGauge(
            "kubextend_requests_in_flight_bytes", "Bytes requests hold.", lambda of: of.count
        ),
        ScrapedGauge(
            "kubextend_requests_in_flight_limit_bytes",
            "The most bytes of bodies that requests may hold: server.maxInFlightBytes.",
            lambda of: of.most_bytes,
        ),
    )

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.count = self.peak = 0

    def take(self, size: int) -> None:
        """Count ``size`` more bytes.

        Raises: HTTPException: 503; the limit would be passed, and the count stays as it was.
        """
        if self.count + size > self.most_bytes:
            message = (
                "there is no room beside the requests in flight, which may hold "
                f"{self.most_bytes} bytes (server.maxInFlightBytes)"
            )
            # kube-scheduler ignores Retry-After; other clients obey it.
            raise HTTPException(503, message, {"Retry-After": "1"})
        self.count += size
        self.peak = max(self.peak, self.count)


class Share:
    """The bytes that one request holds, counted until the request and all work on it are done.

    Args:
        in_flight: counts the bytes of all requests.
    """

    __slots__ = ("_bytes", "_holders", "_in_flight", "_is_held")

    def __init__(self, in_flight: BytesInFlight) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._is_held = True
        self._holders = 1

    def take(self, size: int) -> None:
        """Count ``size`` more bytes; raise HTTPException 503 if they are too many."""
        self._in_flight.take(size)
        self._bytes += size

    def take_in_all(self, size: int) -> None:
        """Count ``size`` bytes, or as many as before if they were more or do not count any more."""
        if self._is_held:
            self.take(max(0, size - self._bytes))

    def keep_until(self, done: Future[Any]) -> None:
        """Keep the bytes counted until the future ``done`` is done, on any thread."""
        loop = asyncio.get_running_loop()
        self._holders += 1

        def tell(_done: Future[Any]) -> None:
            # A thread may come back after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._let_go)

        done.add_done_callback(tell)

    def close(self) -> None:
        """Stop counting, once no future given to ``keep_until`` is pending; may be called twice."""
        if self._is_held:
            self._is_held = False
            self._let_go()

    def _let_go(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._in_flight.count -= self._bytes


class BodyReader:
    """Reads the JSON bodies of requests, within a limit of bytes.

    Args:
        most_bytes: the limit; a larger body is refused.
        pool: lends the memory of bodies of 64 KiB or more; None: every body is ``bytes``.
        limit: how a refusal names the field of the configuration that sets ``most_bytes``.
    """

    def __init__(self, most_bytes: int, pool: core.BodyPool | None = None, limit: str = "") -> None:
        self._most_bytes = most_bytes
        self._pool = pool
        self._limit = limit

    async def read(self, scope: Scope, receive: Receive, share: Share) -> Body:
        """Return the whole body of a request, and count its bytes in ``share``.

        Raises:
            HTTPException: 415: no plain JSON; 413: too long; 503: no room; 408: too slow.
            ClientDisconnect: the client went away.
        """
        headers = Headers(scope=scope)
        _check_type(headers)
        length = int(headers.get("content-length", 0))
        if length > self._most_bytes:
            raise self._too_large()
        share.take(length)
        connection = connection_of(scope)
        cycle = connection and connection.cycle
        if length and cycle and (not cycle.more_body or cycle.disconnected):
            # The whole body came with the head.
            whole: bytes = (await receive()).get("body", b"")
            if len(whole) < length:
                raise ClientDisconnect
            return whole
        try:
            async with asyncio.timeout(_BODY_S + length / _SLOWEST_BYTES):
                if length >= _LARGE_BYTES and self._pool and connection:
                    body = self._pool.take(length)
                    with memoryview(body) as view:
                        await connection.fill(view)
                    return body
                return await self._pieces(Request(scope, receive), share, length)
        except TimeoutError:
            message = "the request's body took too long"
            raise HTTPException(408, message, {"Connection": "close"}) from None

    async def _pieces(self, request: Request, share: Share, length: int) -> bytes:
        # Joining a list of pieces would hold all of the body twice.
        whole = BytesIO()
        async for piece in request.stream():
            if whole.tell() + len(piece) > self._most_bytes:
                raise self._too_large()
            if not length:
                share.take(len(piece))
            whole.write(piece)
        return whole.getvalue()

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the body is larger than {self._most_bytes} bytes{self._limit}")


def _check_type(headers: Headers) -> None:
    """Raise HTTPException 415 unless a body is JSON in UTF-8, and not compressed."""
    encoding = headers.get("content-encoding", "identity")
    given = headers.get("content-type", "")
    if encoding.lower() != "identity":
        refused = f"Content-Encoding: {encoding[:_MOST_TYPE_CHARS]!r} is not taken"
        raise HTTPException(415, f"{refused}; send the body as it is")
    if _JSON.fullmatch(given) is None:
        refused = f"Content-Type: {given[:_MOST_TYPE_CHARS]!r} is not taken"
        raise HTTPException(415, f"{refused}; send application/json")
