"""How many bytes of requests are held at the same time, so that a burst cannot take all memory."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from kubextend.server.reply import RefusedError

__all__ = ["Admission", "Share"]

# kube-scheduler does not read it; others wait that long. Most requests are answered within it.
_RETRY_AFTER_S: Final = 1


class Admission:
    """Counts the bytes of bodies in flight; used on the event loop alone.

    Args:
        most_bytes: beyond this, requests are refused.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._in_flight_bytes = 0

    @property
    def in_flight_bytes(self) -> int:
        """Of all requests whose body is held, or whose answer is not yet with the client."""
        return self._in_flight_bytes

    def take(self, size: int) -> None:
        """So many bytes more are in flight.

        Raises: RefusedError: 503, and none of them is.
        """
        if self._in_flight_bytes + size > self._most_bytes:
            message = (
                "with the requests in flight it would be more than "
                f"{self._most_bytes} bytes (server.maxInFlightBytes)"
            )
            raise RefusedError(503, message, retry_after_s=_RETRY_AFTER_S)
        self._in_flight_bytes += size

    def give_back(self, size: int) -> None:
        """So many of them are no longer."""
        self._in_flight_bytes -= size


class Share:
    """What one request has of the bytes in flight; nobody's once all that hold it let go.

    Args:
        admission: where they are counted.
    """

    __slots__ = ("_admission", "_bytes", "_held", "_holders")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._bytes = 0
        self._held = True
        self._holders = 1

    def take(self, size: int) -> None:
        """So many bytes more.

        Raises: RefusedError: 503; the share is as it was.
        """
        self._admission.take(size)
        self._bytes += size

    def keep_until(self, done: Future[Any]) -> None:
        """Something else holds the bytes too until this is done, in whatever thread that is."""
        loop = asyncio.get_running_loop()
        self._holders += 1

        def tell(_done: Future[Any]) -> None:
            # A thread may come back after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._let_go)

        done.add_done_callback(tell)

    def give_back(self) -> None:
        """The request itself holds nothing any more; told again, nothing changes."""
        if self._held:
            self._held = False
            self._let_go()

    def _let_go(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._admission.give_back(self._bytes)
            self._bytes = 0
