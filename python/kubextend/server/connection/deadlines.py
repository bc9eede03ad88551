"""Deadlines by which a client must send a head and a body, read an answer, send a new request.

A deadline begins at a number of seconds. Each ``slowest_bytes`` bytes transferred move the deadline
one second later, but never further from the present than the number of seconds at the beginning. A
large body may therefore come over a slow link. A client that sends or reads fewer than
``slowest_bytes`` a second is cut off almost as soon as a client that does nothing, and no client
gains a long pause by an earlier transfer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Deadline", "Deadlines"]

# Without this bound a client just below the slowest pace would be checked ever more often.
_LEAST_WAIT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How many seconds a client may take to send a request and to read its answer.

    Attributes:
        head_s: seconds from the first byte of a request to the end of its head.
        body_s: seconds from the end of the head to the end of the body, and 1 s more for each
            ``slowest_bytes`` received.
        answer_s: seconds to read an answer, and 1 s more for each ``slowest_bytes`` read.
        slowest_bytes: a pace in bytes a second: slow enough for any link, too fast for a client
            that only means to hold a connection.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    answer_s: float = 30.0
    slowest_bytes: int = 64 * 1024


class Deadline:
    """A timer that calls back once when a client takes too long; progress of the client extends it.

    Args:
        loop: the event loop whose clock counts.
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
        """Start the timer, unless the timer runs already.

        Args:
            allowed_s: seconds allowed without progress; progress never moves the deadline further
                than these seconds from the present.
            on_over: called when the time is over.
            earned_s: returns the seconds that progress has earned since the start; called when the
                time seems to be over.
        """
        if self._next_look is None:
            deadline_s = self._loop.time() + allowed_s
            self._look_after(allowed_s, deadline_s, 0.0, allowed_s, on_over, earned_s)

    def cancel(self) -> None:
        """Stop the timer, so that ``on_over`` is not called any more."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _look_after(self, wait_s: float, *terms: Any) -> None:
        # Only the timer keeps these arguments: a cancelled timer refers to nothing, a closure to
        # itself.
        self._next_look = self._loop.call_later(wait_s, self._look, *terms)

    def _look(
        self,
        deadline_s: float,
        seen_s: float,
        allowed_s: float,
        on_over: Callable[[], None],
        earned_s: Callable[[], float],
    ) -> None:
        """Extend the timer by newly earned seconds, or call ``on_over`` if there are none.

        Args:
            deadline_s: the present deadline, in seconds of the event loop's clock.
            seen_s: the earned seconds by which the deadline was extended already.
            allowed_s: the most seconds from now to the deadline.
            on_over: called when the time is over.
            earned_s: returns the seconds that progress has earned since the start.
        """
        earned = earned_s()
        left_s = min(deadline_s + earned - seen_s - self._loop.time(), allowed_s)
        if left_s < _LEAST_WAIT_S:
            self._next_look = None
            on_over()
        else:
            deadline_s = self._loop.time() + left_s
            self._look_after(left_s, deadline_s, earned, allowed_s, on_over, earned_s)
