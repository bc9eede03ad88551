"""Limits on bytes: those of the request that a connection reads, and those of all requests held."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from kubextend.server.reply import RefusedError

__all__ = ["MOST_FRAMING_BYTES", "MOST_HEAD_BYTES", "BytesInFlight", "RequestBytes", "Share"]

MOST_HEAD_BYTES: Final = 64 * 1024
"""Bound on a head: its bytes, the memory of its fields, and the empty lines before the head."""
MOST_FRAMING_BYTES: Final = 64 * 1024
"""Bound on a chunked body beyond data and ordinary framing; Go's server has the same limit."""

# What a chunk costs, in bytes of data: without it a client would send chunks of one byte.
_CHUNK_BYTES: Final = 64
# Python needs about 200 bytes for each field of a head besides its text.
_FIELD_BYTES: Final = 200
_CHUNK_FRAMING_BYTES: Final = 16
_FRAMING_PER_BODY_BYTE: Final = 2
_MOST_DROPPED_BYTES: Final = 16 * 1024 * 1024
# kube-scheduler ignores Retry-After; other clients obey it. Most requests are answered within 1 s.
_RETRY_AFTER_S: Final = 1


class RequestBytes:
    """Counts the bytes of the request that a connection reads.

    A read counts as framing until the parser reports what its bytes are.

    Attributes:
        body_bytes: data of the body that the parser has reported.
    """

    __slots__ = ("_chunk_debt", "_dropped_bytes", "_field_bytes", "_framing_bytes", "body_bytes")

    def __init__(self) -> None:
        self._framing_bytes = 0
        self.begin()

    def begin(self) -> None:
        """A request begins; the empty lines before it stay counted."""
        self._chunk_debt = 0
        self._field_bytes = self._dropped_bytes = self.body_bytes = 0

    def read(self, size: int) -> None:
        """Count bytes that the parser is about to get."""
        self._framing_bytes += size

    def field(self, name: bytes, value: bytes) -> None:
        """Count a field of the head, or a trailer."""
        self._field_bytes += len(name) + len(value) + _FIELD_BYTES

    def chunk(self) -> bool:
        """Count the begin of a chunk; whether the chunks were not too many for their data."""
        self._chunk_debt += _CHUNK_BYTES
        return self._chunk_debt <= MOST_FRAMING_BYTES

    def data(self, size: int) -> None:
        """Count data of the body, and allow the framing that such data may have."""
        self.body_bytes += size
        self._chunk_debt = max(0, self._chunk_debt - size)
        allowed = size * (1 + _FRAMING_PER_BODY_BYTE) + _CHUNK_FRAMING_BYTES
        self._framing_bytes = max(0, self._framing_bytes - allowed)

    def drop(self, size: int) -> bool:
        """Count data that nobody reads; whether that is still within its limit."""
        self._dropped_bytes += size
        return self._dropped_bytes <= _MOST_DROPPED_BYTES

    def end_part(self) -> None:
        """End the head or the body, whose fields and framing no longer count."""
        self._field_bytes = 0
        self._framing_bytes = 0

    @property
    def has_framing(self) -> bool:
        """Whether bytes came that the parser has not reported as a complete part."""
        return self._framing_bytes > 0

    @property
    def framing_is_too_large(self) -> bool:
        """Whether an incomplete head, or the framing of a body, is over its limit."""
        return self._framing_bytes > MOST_FRAMING_BYTES

    def fields_are_too_large(self, target: bytes) -> bool:
        """Whether the fields so far, with this request target, are over the limit of a head."""
        return self._field_bytes + len(target) > MOST_HEAD_BYTES


class BytesInFlight:
    """Counts the bytes of all requests that are held; used on the event loop alone.

    Args:
        most_bytes: a request that would bring the count above this is refused.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._count = 0
        self._highest_count = 0

    @property
    def count(self) -> int:
        """Bytes of all requests whose body is held or whose answer is not yet with the client."""
        return self._count

    def highest_count(self) -> int:
        """Return the highest count since the last call."""
        highest, self._highest_count = self._highest_count, self._count
        return highest

    def take(self, size: int) -> None:
        """Count these bytes too.

        Raises: RefusedError: 503; the limit would be passed, and the count stays as it was.
        """
        if self._count + size > self._most_bytes:
            message = (
                "with the requests in flight it would be more than "
                f"{self._most_bytes} bytes (server.maxInFlightBytes)"
            )
            raise RefusedError(503, message, retry_after_s=_RETRY_AFTER_S)
        self._count += size
        self._highest_count = max(self._highest_count, self._count)

    def give_back(self, size: int) -> None:
        """Count these bytes no longer."""
        self._count -= size


class Share:
    """One request's part of the bytes in flight, counted until its last holder lets go.

    Args:
        in_flight: where the bytes are counted.
    """

    __slots__ = ("_bytes", "_held", "_holders", "_in_flight")

    def __init__(self, in_flight: BytesInFlight) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._held = True
        self._holders = 1

    def take(self, size: int) -> None:
        """Add bytes to the share.

        Raises: RefusedError: 503; the share stays as it was.
        """
        self._in_flight.take(size)
        self._bytes += size

    def keep_until(self, done: Future[Any]) -> None:
        """Hold the share until this work is done too, in whatever thread it ends."""
        loop = asyncio.get_running_loop()
        self._holders += 1

        def tell(_done: Future[Any]) -> None:
            # A thread may come back after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._let_go)

        done.add_done_callback(tell)

    def give_back(self) -> None:
        """End the request's own hold; a second call changes nothing."""
        if self._held:
            self._held = False
            self._let_go()

    def _let_go(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._in_flight.give_back(self._bytes)
            self._bytes = 0
