"""Calls to the API that nobody waits for: one thread, a rate, and another try where it may help."""

from __future__ import annotations

import heapq
import logging
import threading
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.call import CONFLICT, NOT_FOUND, RefusedError, UnreachableError
from kubextend.cluster.turns import Turns
from kubextend.errors import TruncatedPodError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.call import Call
    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod
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
class Letter:
    """A call that is to be made.

    Attributes:
        key: tells calls apart.
        write: makes the call when its time has come, anew for each attempt.
        namespace: of the pod that the call is about.
        pod_name: of that pod.
        group: pods with equal labels have the same, as those of a gang and of a controller.
        attempt: how often it will have been tried then.
    """

    key: str
    write: Callable[[], Call]
    namespace: str
    pod_name: str
    group: int
    attempt: int = 1

    @classmethod
    def about(cls, pod: Pod, key: str, write: Callable[[], Call]) -> Letter:
        """A call about a pod, which is not kept: whoever creates a pod chooses its size."""
        return cls(key, write, pod.namespace, pod.name, _group_of(pod))


def _group_of(pod: Pod) -> int:
    """A number that pods with equal labels share; pods kept without labels are one group."""
    try:
        return hash(frozenset(pod.labels.items()))
    except TruncatedPodError:
        return 0


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


class Letters:
    """Which call is made next, and when; one call for each key. Not safe for threads.

    Calls whose time has come take turns by the namespace and the group of their pods: nobody's pod
    waits for all that another tenant has.

    Args:
        bucket: the rate.
        interval_s: the least time between two calls with one key.
        clock: seconds, monotonic.
    """

    def __init__(self, bucket: TokenBucket, interval_s: float, clock: Callable[[], float]) -> None:
        self._bucket = bucket
        self._interval_s = interval_s
        self._clock = clock
        self._keys: set[str] = set()
        self._ready = Turns[Letter]()
        self._later: list[tuple[float, int, Letter]] = []
        self._sent_at: dict[str, float] = {}
        self._order = count()

    def put(self, letter: Letter, pause_s: float = 0.0) -> Letter | None:
        """The call is made after the pause.

        Where a call with its key waits already, that one is made and this one is not.

        Returns: the call that is dropped where too many wait: one of the namespace with the most.
        """
        if letter.key in self._keys:
            return None
        self._keys.add(letter.key)
        now = self._clock()
        sent_at = self._sent_at.get(letter.key, float("-inf"))
        due_at = max(now + pause_s, sent_at + self._interval_s)
        heapq.heappush(self._later, (due_at, next(self._order), letter))
        self._line_up(now)
        if len(self._keys) <= MAX_WAITING:
            return None
        dropped = self._ready.drop() if self._ready else self._later.pop()[2]
        self._keys.discard(dropped.key)
        return dropped

    def take(self) -> Letter | float | None:
        """The call to make now; else the seconds until there may be one; None: there is none."""
        now = self._clock()
        self._line_up(now)
        if not self._ready:
            return self._later[0][0] - now if self._later else None
        wait_s = self._bucket.take()
        return wait_s or self._taken(now)

    def _taken(self, now: float) -> Letter:
        letter = self._ready.take()
        self._keys.discard(letter.key)
        if len(self._sent_at) > MAX_WAITING:
            recent = now - self._interval_s
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[letter.key] = now
        return letter

    def _line_up(self, now: float) -> None:
        """Calls whose time has come have their turn."""
        while self._later and self._later[0][0] <= now:
            letter = heapq.heappop(self._later)[2]
            self._ready.put(letter.namespace, letter.group, letter)


class Outbox:
    """Sends from one thread of its own, which begins with the first call.

    Args:
        cluster: the API.
        name: of the thread.
        trouble: what it means that calls fail, said once until one succeeds; and that calls are
            dropped, said once until none waits.
        letters: the calls that wait; nobody else touches them.
    """

    def __init__(self, cluster: Cluster, letters: Letters, *, name: str, trouble: str) -> None:
        self.stats = OutboxStats()
        self._cluster = cluster
        self._trouble = trouble
        self._changed = threading.Condition()
        self._letters = letters
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        self._failing = False
        self._full = False

    def put(self, letter: Letter) -> None:
        """The call is made soon; where one with its key already waits, that one is. Never waits."""
        with self._changed:
            self._put(letter)
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

    def _put(self, letter: Letter, pause_s: float = 0.0) -> None:
        dropped = self._letters.put(letter, pause_s)
        if dropped is None:
            return
        self.stats.dropped += 1
        if not self._full:
            self._full = True
            log.warning(
                "%s: %d calls wait already; the first one dropped is about pod %s/%s",
                self._trouble,
                MAX_WAITING,
                dropped.namespace,
                dropped.pod_name,
            )

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

    def _next(self) -> Letter | None:
        """The next call whose time has come, within the rate; None once stopped."""
        with self._changed:
            while not self._stopped:
                found = self._letters.take()
                if isinstance(found, Letter):
                    return found
                self._full = self._full and found is not None
                self._changed.wait(found)
        return None

    def _failed(self, letter: Letter, error: RefusedError | UnreachableError) -> None:
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
            self._put(replace(letter, attempt=letter.attempt + 1), pause_s)


def _gone(error: ClusterError) -> bool:
    """Whether the pod is not there: deleted, or another one of its name (422 on its UID)."""
    other = error.status == INVALID and "metadata.uid" in str(error)
    return other or error.status in {NOT_FOUND, CONFLICT}
