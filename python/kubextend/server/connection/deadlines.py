"""Deadlines for a client: to send a head and a body, to read its answer, to ask again.

A client has some seconds, and one second more for each ``slowest_bytes`` that move, but never more
than those seconds ahead. A large body may come over a slow link, a client that trickles ends almost
as soon as one that rests, and nobody rests for long on what moved before.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Deadline", "Deadlines"]

# A client just below the slowest pace would be looked at ever more often.
_LEAST_WAIT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a client may take.

    Attributes:
        head_s: from the first byte of a request to the end of its head.
        body_s: from the end of the head to the end of the body, and 1 s more for each
            ``slowest_bytes``.
        answer_s: to read an answer, and 1 s more for each ``slowest_bytes``.
        slowest_bytes: a pace in bytes a second: slow enough for any link, too fast for a client
            that only means to hold a connection.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    answer_s: float = 30.0
    slowest_bytes: int = 64 * 1024


class Deadline:
    """Calls back once when something takes too long.

    Args:
        loop: where the time passes.
    """

    __slots__ = (
        "_loop",
        "_next_look",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_look: asyncio.TimerHandle | None = None

    def start(
        self,
        allowed_s: float,
        on_over: Callable[[], None],
        earned_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Let the time run, unless it runs already.

        Args:
            allowed_s: seconds that are allowed in any case, and the most that a look allows ahead.
            on_over: called when the time is over.
            earned_s: seconds earned since the start, asked when the time seems to be over.
        """
        if self._next_look is None:
            deadline_s = self._loop.time() + allowed_s
            self._look_after(allowed_s, deadline_s, 0.0, allowed_s, on_over, earned_s)

    def cancel(self) -> None:
        """Stop the time; nothing is called any more."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look_after(self, wait_s: float, *terms: Any) -> None:
        # Kept in the timer alone: a cancelled timer refers to nothing, a closure to itself.
        self._next_look = self._loop.call_later(wait_s, self._look, *terms)

    def _look(
        self,
        deadline_s: float,
        seen_s: float,
        allowed_s: float,
        on_over: Callable[[], None],
        earned_s: Callable[[], float],
    ) -> None:
        """Ask what was earned since the last look, of which ``seen_s`` is known already."""
        earned = earned_s()
        left_s = min(deadline_s + earned - seen_s - self._loop.time(), allowed_s)
        if left_s < _LEAST_WAIT_S:
            self._next_look = None
            on_over()
        else:
            deadline_s = self._loop.time() + left_s
            self._look_after(left_s, deadline_s, earned, allowed_s, on_over, earned_s)
