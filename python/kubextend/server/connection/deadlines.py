"""How long a client is waited for: while it sends a head or a body, and while it reads its answer.

A client has some seconds, and a second more for every so many bytes that have moved since. So a
large body may come over a slow link, while one that trickles ends almost as soon as one that rests.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Deadlines", "Patience"]

# A client just below the slowest pace would be looked at ever more often.
_LEAST_WAIT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Deadlines:
    """What a client has time for.

    Attributes:
        head_s: from the first byte of a request to the end of its head.
        body_s: from there to the end of the body, and a second more for each ``slowest_bytes``.
        answer_s: the same for the client that reads its answer.
        slowest_bytes: a pace, in bytes a second, that is slow enough for any link and too fast for
            those who only mean to hold a connection.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    answer_s: float = 30.0
    slowest_bytes: int = 64 * 1024


class Patience:
    """Waits for one thing, and tells when it took too long.

    Args:
        loop: where it waits.
        allowed_s: what is granted even if nothing moves.
        over: called when the time is over; nothing happens any more after that.
        moved_s: seconds that were earned by what has moved since.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        allowed_s: float,
        over: Callable[[], None],
        moved_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._loop = loop
        self._deadline_s = loop.time() + allowed_s
        self._over = over
        self._moved_s = moved_s
        self._next = loop.call_later(allowed_s, self._look)

    def end(self) -> None:
        """Nobody is waited for any more."""
        self._next.cancel()

    def _look(self) -> None:
        left_s = self._deadline_s + self._moved_s() - self._loop.time()
        if left_s < _LEAST_WAIT_S:
            self._over()
        else:
            self._next = self._loop.call_later(left_s, self._look)
