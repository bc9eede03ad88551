"""What all requests of a listener hold together, and the share that each of them has in it."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from kubextend import core
from kubextend.server.reply import RefusedError

__all__ = ["BytesInFlight", "Room", "Share"]

_SMALL_BYTES: Final = 1024 * 1024
"""Bound on a small body: the names of 15,000 nodes, which a kube-scheduler sends, need as much."""

# kube-scheduler ignores Retry-After; other clients obey it. Most requests are answered within 1 s.
_RETRY_AFTER_S: Final = 1


class BytesInFlight:
    """Counts the bytes that all requests of a listener hold; used on the event loop alone.

    Large bodies never take all of the room: a part is reserved for bodies that say to be small.

    Args:
        most_bytes: what the count never passes.
        set_by: the field of the configuration that sets ``most_bytes``; empty where none does.
        reserved_bytes: what of ``most_bytes`` bodies of at most 1 MiB take alone.

    Attributes:
        common: the room of everything else, and of small bodies where the reserve has none left.
    """

    def __init__(self, most_bytes: int, set_by: str = "", reserved_bytes: int = 0) -> None:
        limit = f"{most_bytes} bytes" + (f" ({set_by})" if set_by else "")
        self.common = Room(most_bytes - reserved_bytes, limit)
        self._reserve = Room(reserved_bytes, limit)

    @property
    def count(self) -> int:
        """Bytes of all requests whose body is held or whose answer is not yet with the client."""
        return self.common.count + self._reserve.count

    def highest_count(self) -> int:
        """Return a count that was not passed since the last call."""
        return self.common.highest_count() + self._reserve.highest_count()

    def room_for(self, length: int) -> "Room":
        """Return the room in which a body of this length counts; 0: nobody knows the length.

        Raises: RefusedError: 503; the body does not fit beside what others hold.
        """
        if 0 < length <= _SMALL_BYTES:
            with suppress(RefusedError):
                self._reserve.make(length)
                return self._reserve
        self.common.make(length)
        return self.common


class Room:
    """Counts bytes up to a limit.

    Nobody is refused for bytes that others have only announced: a body that is still coming counts
    as long as its buffer while there is room, and then as long as what has come. Where that is too
    much, the youngest of the bodies that are still coming is refused, so the oldest always goes on.

    Args:
        most_bytes: what the count never passes.
        limit: the limit as refusals name it.

    Attributes:
        count: bytes that are held now.
    """

    def __init__(self, most_bytes: int, limit: str) -> None:
        self._most_bytes = most_bytes
        self._limit = limit
        self.count = 0
        self._highest_count = 0
        # Shares whose bodies are still coming, the oldest first.
        self._incoming: dict[Share, None] = {}
        # Those of them that count a whole buffer.
        self._lent: dict[Share, None] = {}

    def highest_count(self) -> int:
        """Return the highest count since the last call."""
        highest, self._highest_count = self._highest_count, self.count
        return highest

    def take(self, size: int, share: "Share | None" = None) -> None:
        """Count these bytes too.

        Raises: RefusedError: 503; the limit would be passed, and the count stays as it was.
        """
        self.make(size, share)
        self.count += size
        self._highest_count = max(self._highest_count, self.count)

    def give_back(self, size: int) -> None:
        """Count these bytes no longer."""
        self.count -= size

    def make(self, size: int, share: "Share | None" = None) -> None:
        """Take from bodies that are still coming what these bytes need.

        Args:
            size: how many bytes.
            share: whose they are; bodies that began before are not refused for it.

        Raises: RefusedError: 503; there is no such room.
        """
        while self.count + size > self._most_bytes:
            if self._lent:
                self._lent.popitem()[0].keep_what_came()
                continue
            youngest = next(reversed(self._incoming), None)
            if youngest is None or youngest is share or share not in self._incoming:
                raise self.refusal()
            youngest.refuse()

    def refusal(self) -> RefusedError:
        """Return what refuses a request for which there is no room."""
        message = f"there is no room beside the requests in flight, which may hold {self._limit}"
        return RefusedError(503, message, retry_after_s=_RETRY_AFTER_S)

    def begin(self, share: "Share", *, lent: bool) -> None:
        """Note that the body of this share is still coming, and whether it has a buffer."""
        self._incoming[share] = None
        if lent:
            self._lent[share] = None

    def end(self, share: "Share") -> None:
        """Note that the body of this share is complete, or will never be."""
        self._incoming.pop(share, None)
        self._lent.pop(share, None)


class Share:
    """One request's part of the bytes in flight, counted until its last holder lets go.

    Args:
        in_flight: where the bytes are counted.
    """

    __slots__ = (
        "_buffer",
        "_bytes",
        "_came_bytes",
        "_held",
        "_holders",
        "_in_flight",
        "_is_refused",
        "_reader",
        "_room",
    )

    def __init__(self, in_flight: BytesInFlight) -> None:
        self._in_flight = in_flight
        self._room = in_flight.common
        self._bytes = self._came_bytes = 0
        self._held = True
        self._holders = 1
        # Of a body that is still coming: the task that reads the body, and its buffer.
        self._reader: asyncio.Task[Any] | None = None
        self._buffer: core.BodyBuffer | None = None
        self._is_refused = False

    def expect(self, length: int) -> None:
        """Refuse a body of this length where there is no room for it; 0: nobody knows the length.

        Raises: RefusedError: 503; the body does not fit beside what others hold.
        """
        self._room = self._in_flight.room_for(length)

    def take(self, size: int) -> None:
        """Add bytes to the share.

        Raises: RefusedError: 503; the share stays as it was.
        """
        self._room.take(size, self)
        self._bytes += size

    def lend(self, size: int, pool: core.BodyPool) -> core.BodyBuffer:
        """Return a buffer for the body, which counts as a whole until others need the room.

        Raises: RefusedError: 503; there is no room for the body beside what others hold.
        """
        self.take(size)
        self._buffer = pool.take(size)
        self.begin()
        return self._buffer

    def begin(self) -> None:
        """Let this task's reading of the body be ended in favour of older bodies."""
        if self._reader is None:
            self._reader = asyncio.current_task()
            self._room.begin(self, lent=self._buffer is not None)

    def came(self, size: int) -> None:
        """Count what has come of the body by now into its buffer; maybe refuse the body."""
        self._came_bytes = size
        if size > self._bytes and not self._is_refused:
            try:
                self.take(size - self._bytes)
            except RefusedError:
                self.refuse()

    def keep_what_came(self) -> None:
        """Count of the buffer no more than what has come, and give the memory behind it back."""
        if self._buffer is not None:
            self._buffer.discard_behind(self._came_bytes)
            self._room.give_back(self._bytes - self._came_bytes)
            self._bytes = self._came_bytes

    def refuse(self) -> None:
        """End the reading of the body; ``end`` raises in the task that reads."""
        self._room.end(self)
        self._room.give_back(self._bytes)
        self._bytes = 0
        self._is_refused = True
        if self._reader is not None:
            self._reader.cancel()

    def end(self) -> None:
        """Note that the body is complete, or will never be.

        Raises: RefusedError: 503; the body was refused, which cancelled its task.
        """
        self._room.end(self)
        self._buffer = None
        reader, self._reader = self._reader, None
        if self._is_refused and reader is not None:
            reader.uncancel()
            raise self._room.refusal() from None

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
            self._room.give_back(self._bytes)
            self._bytes = 0
