"""Counts and limits the bytes that all requests of a listener hold together, request by request."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar, Final

from kubextend import core
from kubextend.metrics import ScrapedGauge
from kubextend.server.reply import RefusedError

__all__ = ["BytesInFlight", "Room", "Share"]

_SMALL_BYTES: Final = 1024 * 1024
"""The most bytes of a small body: as many as a request with the names of 15,000 nodes has."""

# kube-scheduler ignores Retry-After; other clients obey it. Most requests are answered within 1 s.
_RETRY_AFTER_S: Final = 1


class BytesInFlight:
    """Counts the bytes that all requests of a listener hold; use it on the event loop only.

    A part of the limit is reserved for bodies whose declared length is at most 1 MiB.

    Args:
        most_bytes: the limit, which the count never passes.
        set_by: the field of the configuration that sets ``most_bytes``; empty if no field does.
        reserved_bytes: the part of ``most_bytes`` that only bodies of at most 1 MiB take.

    Attributes:
        most_bytes: the argument ``most_bytes``.
        common: the counter of all other bytes, and of small bodies when the reserve is used up.
    """

    most_bytes: int
    METRICS: ClassVar[tuple["ScrapedGauge[BytesInFlight]", ...]] = (
        ScrapedGauge(
            "kubextend_requests_in_flight_bytes",
            "Bytes that requests hold which are not yet answered to their end.",
            lambda in_flight: in_flight.count,
        ),
        ScrapedGauge(
            "kubextend_requests_in_flight_limit_bytes",
            "The most bytes that requests may hold: server.maxInFlightBytes.",
            lambda in_flight: in_flight.most_bytes,
        ),
    )

    def __init__(self, most_bytes: int, set_by: str = "", reserved_bytes: int = 0) -> None:
        limit = f"{most_bytes} bytes" + (f" ({set_by})" if set_by else "")
        self.most_bytes = most_bytes
        self.common = Room(most_bytes - reserved_bytes, limit)
        self._reserve = Room(reserved_bytes, limit)

    @property
    def count(self) -> int:
        """The bytes of all requests whose body is in use or whose answer is not sent yet."""
        return self.common.count + self._reserve.count

    @property
    def incoming(self) -> int:
        """How many bodies are still coming, apart from those that came in one piece."""
        return self.common.incoming + self._reserve.incoming

    def highest_count(self) -> int:
        """Return an upper bound of what ``count`` was since the last call, in bytes."""
        return self.common.highest_count() + self._reserve.highest_count()

    def room_for(self, length: int) -> "Room":
        """Return the ``Room`` (a counter with a limit) for a body of ``length`` bytes; 0: unknown.

        Raises: RefusedError: 503; the body and what other requests hold would pass the limit.
        """
        if not 0 < length <= _SMALL_BYTES:
            self.common.make(length)
            return self.common
        if self._reserve.has(length):
            return self._reserve
        with suppress(RefusedError):
            self.common.make(length)
            return self.common
        self._reserve.make(length)
        return self._reserve


class Room:
    """Counts the bytes that requests hold, up to a limit.

    No request is refused because of bytes that other clients have not sent yet: an incomplete body
    counts with its whole buffer while the limit allows that, and else with the received bytes. If
    the received bytes are too many, the body whose reading began last is refused, so that the
    oldest body always goes on.

    Args:
        most_bytes: the limit, which the count never passes.
        limit: how the message of a 503 names the limit.

    Attributes:
        count: bytes that are held now.
    """

    def __init__(self, most_bytes: int, limit: str) -> None:
        self._most_bytes = most_bytes
        self._limit = limit
        self.count = 0
        self._highest_count = 0
        # Shares whose bodies are still coming, in the order in which their reading began.
        self._incoming: dict[Share, None] = {}
        # The shares in ``_incoming`` that count a whole buffer.
        self._lent: dict[Share, None] = {}

    @property
    def incoming(self) -> int:
        """How many bodies in this room are still coming."""
        return len(self._incoming)

    def highest_count(self) -> int:
        """Return the highest ``count`` since the last call, in bytes."""
        highest, self._highest_count = self._highest_count, self.count
        return highest

    def has(self, size: int) -> bool:
        """Return whether ``size`` more bytes fit the limit."""
        return self.count + size <= self._most_bytes

    def has_trimmed(self, size: int) -> bool:
        """Return whether ``size`` more bytes fit the limit, after trimming buffers if necessary.

        To trim a buffer is to count only those of its bytes that have been received.
        """
        while self._lent and not self.has(size):
            self._lent.popitem()[0].keep_what_came()
        return self.has(size)

    def take(self, size: int, share: "Share | None" = None) -> None:
        """Add ``size`` bytes to the count; ``share``: the request that needs the bytes.

        Raises: RefusedError: 503; the limit would be passed, and the count stays as it was.
        """
        self.make(size, share)
        self.count += size
        self._highest_count = max(self._highest_count, self.count)

    def give_back(self, size: int) -> None:
        """Subtract ``size`` bytes from the count."""
        self.count -= size

    def make(self, size: int, share: "Share | None" = None) -> None:
        """Make ``size`` more bytes fit the limit: trim buffers, then refuse newer bodies.

        To trim a buffer is to count only those of its bytes that have been received.

        Args:
            size: how many bytes to free.
            share: the request that needs the bytes; only bodies whose reading began after that of
                this request's body are refused. None: no body is refused.

        Raises: RefusedError: 503; ``size`` bytes cannot be freed.
        """
        while not self.has_trimmed(size):
            youngest = next(reversed(self._incoming), None)
            if youngest is None or youngest is share or share not in self._incoming:
                raise self.refusal()
            youngest.refuse()

    def refusal(self) -> RefusedError:
        """Return the error 503 for a request whose bytes would pass the limit."""
        message = f"there is no room beside the requests in flight, which may hold {self._limit}"
        return RefusedError(503, message, retry_after_s=_RETRY_AFTER_S)

    def move(self, share: "Share", size: int, to: "Room") -> None:
        """Move the count of a share's ``size`` bytes to another room, where the bytes fit.

        In the other room the share's body counts as the body whose reading began first, because it
        is small.
        """
        to.take(size)
        self.give_back(size)
        if share in self._incoming:
            to._incoming = {share: None} | to._incoming  # noqa: SLF001  of the same class
        if share in self._lent:
            to._lent[share] = None  # noqa: SLF001
        self.end(share)

    def begin(self, share: "Share", *, lent: bool) -> None:
        """Record that a share's body is still coming; ``lent``: its whole buffer counts."""
        self._incoming[share] = None
        if lent:
            self._lent[share] = None

    def end(self, share: "Share") -> None:
        """Record that the body of a share is complete or given up."""
        self._incoming.pop(share, None)
        self._lent.pop(share, None)


class Share:
    """The bytes that one request holds, counted until the request and all work on it are done.

    Args:
        in_flight: counts the bytes of all requests.
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
        # The task that reads the body, and the buffer of the body, while the body is still coming.
        self._reader: asyncio.Task[Any] | None = None
        self._buffer: core.BodyBuffer | None = None
        self._is_refused = False

    def expect(self, length: int) -> None:
        """Raise if a body of ``length`` bytes would pass the limit; 0: the length is not known.

        Raises: RefusedError: 503; the body and what other requests hold would pass the limit.
        """
        self._room = self._in_flight.room_for(length)

    def take(self, size: int) -> None:
        """Count ``size`` more bytes as held by this share's request.

        Raises: RefusedError: 503; all requests together would hold more than the limit, so the
            bytes are not counted.
        """
        room, common = self._room, self._in_flight.common
        if room is not common and not room.has_trimmed(size):
            with suppress(RefusedError):
                common.make(self._bytes + size)
                room.move(self, self._bytes, common)
                self._room = common
        self._room.take(size, self)
        self._bytes += size

    def lend(self, size: int, pool: core.BodyPool) -> core.BodyBuffer:
        """Return a buffer of ``size`` bytes for the body, and count all of its bytes.

        When other requests need bytes, only the received part of the buffer stays counted.

        Raises: RefusedError: 503; the body and what other requests hold would pass the limit.
        """
        self.take(size)
        self._buffer = pool.take(size)
        self.begin()
        return self._buffer

    def begin(self) -> None:
        """Record that the current task reads the body, so that ``refuse`` can cancel the task."""
        if self._reader is None:
            self._reader = asyncio.current_task()
            self._room.begin(self, lent=self._buffer is not None)

    def came(self, size: int) -> None:
        """Count ``size`` received bytes of the body; refuse a body that passes the limit."""
        self._came_bytes = size
        if size > self._bytes and not self._is_refused:
            try:
                self.take(size - self._bytes)
            except RefusedError:
                self.refuse()

    def keep_what_came(self) -> None:
        """Count only the received bytes of the body, and give back the rest of its buffer."""
        if self._buffer is not None:
            self._buffer.discard_behind(self._came_bytes)
            self._room.give_back(self._bytes - self._came_bytes)
            self._bytes = self._came_bytes

    def refuse(self) -> None:
        """Refuse the body: cancel the task that reads the body, so that ``end`` returns True."""
        self._room.end(self)
        self._room.give_back(self._bytes)
        self._bytes = 0
        self._is_refused = True
        if self._reader is not None:
            self._reader.cancel()

    def end(self) -> bool:
        """Record that the body is complete or given up; return whether ``refuse`` refused it.

        If ``refuse`` refused the body, this method undoes the cancellation of the task that read
        the body; the task is then to raise ``refusal()``.
        """
        self._room.end(self)
        self._buffer = None
        reader, self._reader = self._reader, None
        if reader is None or not self._is_refused:
            return False
        reader.uncancel()
        return True

    def refusal(self) -> RefusedError:
        """Return the error 503 for a body that was refused."""
        return self._room.refusal()

    def keep_until(self, done: Future[Any]) -> None:
        """Keep this request's bytes counted until the future ``done`` is done, on any thread."""
        loop = asyncio.get_running_loop()
        self._holders += 1

        def tell(_done: Future[Any]) -> None:
            # A thread may come back after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._let_go)

        done.add_done_callback(tell)

    def give_back(self) -> None:
        """Stop counting this request's bytes, once no future given to ``keep_until`` is pending.

        A second call changes nothing.
        """
        if self._held:
            self._held = False
            self._let_go()

    def _let_go(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._room.give_back(self._bytes)
            self._bytes = 0
