"""Calls to the API that nobody waits for: one thread, a rate, and another try where it may help."""

from __future__ import annotations

import heapq
import logging
import threading
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.call import CONFLICT, NOT_FOUND, RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.call import Call
    from kubextend.cluster.client import Cluster
    from kubextend.errors import ClusterError

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
ATTEMPTS = 4
JOIN_S = 2.0
INVALID = 422


@dataclass(slots=True)
class OutboxStats:
    """What happened since the start, for metrics.

    Attributes:
        sent: the API took it.
        gone: what it was about is not there any more.
        failed: given up.
        dropped: never tried.
    """

    sent: int = 0
    gone: int = 0
    failed: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Letter:
    key: str
    write: Callable[[], Call]
    attempt: int = 1


class TokenBucket:
    """At most ``rate`` a second, ``burst`` at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    def take(self) -> float:
        """0 and one token less, or the seconds until there is one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._rate
        self._tokens -= 1.0
        return 0.0


class Outbox:
    """Sends from one thread of its own, which begins with the first call.

    Args:
        cluster: the API.
        name: of the thread.
        trouble: what it means that calls fail, said once until one succeeds.
        bucket: the rate.
        interval_s: the least time between two calls with one key.
        clock: seconds, monotonic.
    """

    def __init__(  # noqa: PLR0913 - one argument for each limit
        self,
        cluster: Cluster,
        *,
        name: str,
        trouble: str,
        bucket: TokenBucket,
        interval_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.stats = OutboxStats()
        self._cluster = cluster
        self._trouble = trouble
        self._bucket = bucket
        self._interval_s = interval_s
        self._clock = clock
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, _Letter]] = []
        self._waiting: set[str] = set()
        self._sent_at: dict[str, float] = {}
        self._order = count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        self._failing = False

    def put(self, key: str, write: Callable[[], Call]) -> None:
        """The call is sent soon; where one with its key already waits, that one is. Never waits.

        Args:
            key: tells calls apart.
            write: makes the call when its time has come, anew for each attempt.
        """
        with self._changed:
            if key in self._waiting:
                return
            if len(self._due) >= MAX_WAITING:
                self.stats.dropped += 1
                return
            due_at = self._sent_at.get(key, float("-inf")) + self._interval_s
            self._push(max(due_at, self._clock()), _Letter(key, write))
            if not (self._stopped or self._thread.is_alive()):
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """No call begins after this; those that wait are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _push(self, due_at: float, letter: _Letter) -> None:
        self._waiting.add(letter.key)
        heapq.heappush(self._due, (due_at, next(self._order), letter))

    def _run(self) -> None:
        while (letter := self._next()) is not None:
            try:
                self._cluster.request(letter.write())
            except (RefusedError, UnreachableError) as error:
                self._failed(letter, error)
            except Exception:
                self.stats.failed += 1
                log.exception("%s, in a way that should not be", self._trouble)
            else:
                self.stats.sent += 1
                self._failing = False

    def _next(self) -> _Letter | None:
        """The next call whose time has come, within the rate; None once stopped."""
        with self._changed:
            while not self._stopped:
                wait_s = self._wait_s()
                if wait_s == 0.0:
                    return self._pop()
                self._changed.wait(wait_s)
        return None

    def _wait_s(self) -> float | None:
        if not self._due:
            return None
        early_s = self._due[0][0] - self._clock()
        return early_s if early_s > 0 else self._bucket.take()

    def _pop(self) -> _Letter:
        letter = heapq.heappop(self._due)[2]
        self._waiting.discard(letter.key)
        now = self._clock()
        if len(self._sent_at) > MAX_WAITING:
            recent = now - self._interval_s
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[letter.key] = now
        return letter

    def _failed(self, letter: _Letter, error: RefusedError | UnreachableError) -> None:
        if _gone(error):
            self.stats.gone += 1
            return
        if not self._failing:
            self._failing = True
            log.warning("%s: %s", self._trouble, error)
        again = isinstance(error, UnreachableError) or error.passes
        if not again or letter.attempt >= ATTEMPTS:
            self.stats.failed += 1
            return
        asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
        pause_s = max(asked_s or 0.0, 2.0 ** (letter.attempt - 1))
        with self._changed:
            if letter.key not in self._waiting:
                later = _Letter(letter.key, letter.write, letter.attempt + 1)
                self._push(self._clock() + pause_s, later)


def _gone(error: ClusterError) -> bool:
    """Whether the pod is not there: deleted, or another one of its name (422 on its UID)."""
    other = error.status == INVALID and "metadata.uid" in str(error)
    return other or error.status in {NOT_FOUND, CONFLICT}
