"""Limits on the bytes of the HTTP request that a connection reads."""

from typing import Final

from kubextend.server.connection.bytes_in_flight import Room
from kubextend.server.reply import RefusedError

__all__ = ["FREE_BYTES", "MOST_FRAMING_BYTES", "MOST_HEAD_BYTES", "RequestBytes"]

MOST_HEAD_BYTES: Final = 64 * 1024
"""The most bytes of a request's head, with the memory of its fields and empty lines before it."""
MOST_FRAMING_BYTES: Final = 64 * 1024
"""The most bytes of a chunked body besides data and usual framing; as in Go's server."""
FREE_BYTES: Final = 4 * 1024
"""Bytes besides bodies that a connection may hold uncounted: enough for a usual request's head."""

# What a chunk costs, in bytes of data: without it a client would send chunks of one byte.
_CHUNK_BYTES: Final = 64
# Python needs about 200 bytes for each field of a head besides its text.
_FIELD_BYTES: Final = 200
_CHUNK_FRAMING_BYTES: Final = 16
_FRAMING_PER_BODY_BYTE: Final = 2
_MOST_DROPPED_BYTES: Final = 16 * 1024 * 1024


class RequestBytes:
    """Counts the bytes of the request that a connection reads, and what the connection holds.

    Received bytes count as framing, as chunk sizes do, until the HTTP parser reports that they are
    body data or that a head or body is complete.

    Args:
        room: a counter with a limit, which counts what the connection holds beyond 4 KiB.

    Attributes:
        body_bytes: data of the body that the parser has reported.
    """

    __slots__ = (
        "_chunk_debt",
        "_counted_bytes",
        "_dropped_bytes",
        "_field_bytes",
        "_framing_bytes",
        "_held_bytes",
        "_room",
        "body_bytes",
    )

    def __init__(self, room: Room) -> None:
        self._room = room
        self._framing_bytes = self._held_bytes = self._counted_bytes = 0
        self.begin()

    def begin(self) -> None:
        """Begin to count a request; the empty lines before the request stay counted."""
        self._chunk_debt = 0
        self._field_bytes = self._dropped_bytes = self.body_bytes = 0

    def read(self, size: int) -> None:
        """Count bytes from the client as framing, before the HTTP parser gets them.

        The methods ``data`` and ``end_part`` later stop counting as framing what the parser finds
        to be body data or a complete head.
        """
        self._framing_bytes += size

    def field(self, name: bytes, value: bytes) -> None:
        """Count the memory of a field of the head, or of a trailer."""
        self._field_bytes += len(name) + len(value) + _FIELD_BYTES

    def chunk(self) -> bool:
        """Count one more chunk of the body; return False if there are too many small chunks."""
        self._chunk_debt += _CHUNK_BYTES
        return self._chunk_debt <= MOST_FRAMING_BYTES

    def data(self, size: int) -> None:
        """Count body data; no longer count the data and its usual chunk framing as framing."""
        self.body_bytes += size
        self._chunk_debt = max(0, self._chunk_debt - size)
        allowed = size * (1 + _FRAMING_PER_BODY_BYTE) + _CHUNK_FRAMING_BYTES
        self._framing_bytes = max(0, self._framing_bytes - allowed)

    def drop(self, size: int) -> bool:
        """Count bytes that no application reads; return whether at most 16 MiB came so far."""
        self._dropped_bytes += size
        return self._dropped_bytes <= _MOST_DROPPED_BYTES

    def end_part(self) -> None:
        """Stop counting the fields and the framing of a head or body that has ended."""
        self._field_bytes = self._framing_bytes = 0
        self.count_held()

    @property
    def has_framing(self) -> bool:
        """Whether bytes came that the parser has not reported as body data or a complete head."""
        return self._framing_bytes > 0

    @property
    def framing_is_too_large(self) -> bool:
        """Whether an incomplete head, or the framing of a body, has more bytes than it may have."""
        return self._framing_bytes > MOST_FRAMING_BYTES

    def head_bytes(self, target: bytes) -> int:
        """Return the memory of the head's fields so far and of the request target, in bytes."""
        return self._field_bytes + len(target)

    def hold(self, size: int) -> None:
        """Count ``size`` bytes of a head or of a waiting request's body, until ``let_go``.

        Raises: RefusedError: 503; all requests together would hold too many bytes.
        """
        self._held_bytes += size
        try:
            self.count_held()
        except RefusedError:
            self._held_bytes -= size
            raise

    def let_go(self, size: int) -> None:
        """Stop counting ``size`` bytes of a request that ``hold`` has counted."""
        self._held_bytes -= size
        self.count_held()

    def count_held(self) -> None:
        """Update ``room`` to the bytes of heads, waiting bodies and framing beyond 4 KiB.

        Raises: RefusedError: 503; all requests together would hold too many bytes.
        """
        held = self._held_bytes + self._field_bytes + self._framing_bytes - FREE_BYTES
        more = max(held, 0) - self._counted_bytes
        if more > 0:
            self._room.take(more)
        elif more < 0:
            self._room.give_back(-more)
        self._counted_bytes += more
