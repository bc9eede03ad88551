"""A queue of Kubernetes API calls about pods; one thread sends them at a limited rate."""

from __future__ import annotations

import heapq
import logging
import threading
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from kubextend.cluster.api_call import CONFLICT, NOT_FOUND, RefusedError, UnreachableError
from kubextend.cluster.fair_order import Turns
from kubextend.errors import TruncatedPodError
from kubextend.metrics import ScrapedCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod
    from kubextend.errors import ClusterError

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
ATTEMPTS = 4
JOIN_S = 2.0


@dataclass(slots=True)
class WriteStats:
    """Counts of a write queue's calls since the start, for metrics.

    Attributes:
        sent: calls that the API accepted.
        gone: calls about a pod that no longer exists.
        failed: calls that failed and were not sent again.
        dropped: calls that were never sent, or not sent again, because the queue was full or
            because a URL cannot contain the pod's names.
    """

    sent: int = 0
    gone: int = 0
    failed: int = 0
    dropped: int = 0


def writes_counted(name: str, what: str) -> tuple[ScrapedCounter[WriteStats]]:
    """Return the metric family of a write queue's calls, by their result.

    Args:
        name: the name of the family.
        what: what the calls write.
    """
    text = f"{what}: sent, gone (with their pod), failed, dropped (never tried)."
    return (ScrapedCounter(name, text, asdict, ("result",)),)


@dataclass(frozen=True, slots=True)
class Write:
    """An API call about a pod, to be sent by a write queue.

    Attributes:
        key: identifies the call; of calls with equal keys, only one waits at a time.
        make: returns the call to send, or None if it is not needed any more; called before each
            attempt.
        namespace: namespace of the pod that the call is about.
        pod_name: name of the pod that the call is about.
        group: a number that is equal for pods with equal labels, such as those of one controller.
        attempt: number of the next attempt, from 1.
    """

    key: str
    make: Callable[[], Call | None]
    namespace: str
    pod_name: str
    group: int
    attempt: int = 1

    @classmethod
    def about(cls, pod: Pod, key: str, make: Callable[[], Call | None]) -> Write:
        """Return an API call about a pod; the call keeps the pod's names, not the whole pod.

        Pods may be large, and up to 10,000 calls wait in a queue.

        Args:
            pod: the pod.
            key: identifies the call; of calls with equal keys, only one waits at a time.
            make: returns the call to send, or None if it is not needed any more; called before
                each attempt.
        """
        return cls(key, make, pod.namespace, pod.name, group_of(pod))


def group_of(pod: Pod) -> int:
    """Return a hash of a pod's labels; 0 if the labels were too large for the store to keep."""
    try:
        return hash(frozenset(pod.labels.items()))
    except TruncatedPodError:
        return 0


class TokenBucket:
    """A token bucket: gives ``rate`` tokens a second on average, up to ``burst`` without a pause.

    Args:
        rate: tokens a second.
        burst: the most tokens that the bucket holds; the bucket begins full.
        clock: returns the present time in monotonic seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    def take(self) -> float:
        """Take a token and return 0, or return the seconds until the bucket has a token."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._rate
        self._tokens -= 1.0
        return 0.0


class WaitingWrites:
    """The API calls that wait in a write queue; decides which call is sent next, and when.

    Of calls with equal keys, only one waits at a time. Calls that are due take turns by the
    namespace and the group of their pods, so that no pod waits for all pods of another namespace.
    Only one thread at a time may use an instance.

    Args:
        bucket: limits the rate of all writes.
        interval_s: the least seconds between two writes of one key.
        clock: returns the present time in monotonic seconds.
    """

    def __init__(self, bucket: TokenBucket, interval_s: float, clock: Callable[[], float]) -> None:
        self._bucket = bucket
        self._interval_s = interval_s
        self._clock = clock
        self._keys: set[str] = set()
        self._ready = Turns[Write]()
        self._later: list[tuple[float, int, Write]] = []
        self._sent_at: dict[str, float] = {}
        self._order = count()

    def put(self, write: Write, pause_s: float = 0.0) -> Write | None:
        """Queue a write, to be sent after ``pause_s`` seconds at the earliest.

        If a write with an equal key waits already, the new write is ignored.

        Returns: the write that was dropped because more than 10,000 wait, usually one of the
        namespace with the most; None if no write was dropped.
        """
        if write.key in self._keys:
            return None
        self._keys.add(write.key)
        now = self._clock()
        sent_at = self._sent_at.get(write.key, float("-inf"))
        due_at = max(now + pause_s, sent_at + self._interval_s)
        heapq.heappush(self._later, (due_at, next(self._order), write))
        self._line_up(now)
        if len(self._keys) <= MAX_WAITING:
            return None
        dropped = self._ready.drop() if self._ready else self._later.pop()[2]
        self._keys.discard(dropped.key)
        return dropped

    def take(self) -> Write | float | None:
        """Remove and return the write to send now, or return how long to wait for one.

        Returns: the write; or the seconds until a write may be due; or None if no write waits.
        """
        now = self._clock()
        self._line_up(now)
        if not self._ready:
            return self._later[0][0] - now if self._later else None
        wait_s = self._bucket.take()
        return wait_s or self._taken(now)

    def _taken(self, now: float) -> Write:
        write = self._ready.take()
        self._keys.discard(write.key)
        if len(self._sent_at) > MAX_WAITING:
            recent = now - self._interval_s
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[write.key] = now
        return write

    def _line_up(self, now: float) -> None:
        """Move every write whose time has come to the queue in which namespaces take turns."""
        while self._later and self._later[0][0] <= now:
            write = heapq.heappop(self._later)[2]
            self._ready.put(write.namespace, write.group, write)


class WriteQueue:
    """Sends API calls about pods on one thread, which starts with the first call.

    A call that fails for a passing reason, such as the status 503, is sent up to four times.

    Args:
        cluster: the connection to the Kubernetes API.
        writes: the waiting calls; no other object may use them.
        name: the name of the thread.
        trouble: the log line's words for failing calls, such as "pods cannot be woken"; logged once
            until a call succeeds, and for dropped calls once until no call waits.
    """

    def __init__(self, cluster: Cluster, writes: WaitingWrites, *, name: str, trouble: str) -> None:
        self.stats = WriteStats()
        self._cluster = cluster
        self._trouble = trouble
        self._changed = threading.Condition()
        self._writes = writes
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        self._failing = False
        self._full = False

    def put(self, write: Write, pause_s: float = 0.0) -> None:
        """Queue a call, unless a call with an equal key is queued already. Never waits.

        Args:
            write: the call.
            pause_s: the least seconds until the call is sent.
        """
        with self._changed:
            self._put(write, pause_s)
            if not (self._stopped or self._thread.is_alive()):
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """End the thread: send no further call, and drop the queued calls."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _put(self, write: Write, pause_s: float = 0.0) -> None:
        dropped = self._writes.put(write, pause_s)
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
        while (write := self._next()) is not None:
            try:
                if (call := write.make()) is None:
                    continue
                self._cluster.request(call)
            except (RefusedError, UnreachableError) as error:
                self._failed(write, error)
            except Exception:
                self.stats.failed += 1
                log.exception("%s: unexpected failure", self._trouble)
            else:
                self.stats.sent += 1
                self._failing = False

    def _next(self) -> Write | None:
        """Wait for the next write that may be sent, and return the write; None once stopped."""
        with self._changed:
            while not self._stopped:
                found = self._writes.take()
                if isinstance(found, Write):
                    return found
                self._full = self._full and found is not None
                self._changed.wait(found)
        return None

    def _failed(self, write: Write, error: RefusedError | UnreachableError) -> None:
        if _gone(error):
            self.stats.gone += 1
            return
        if not self._failing:
            self._failing = True
            log.warning("%s: %s", self._trouble, error)
        again = isinstance(error, UnreachableError) or error.passes
        if not again or write.attempt >= ATTEMPTS:
            self.stats.failed += 1
            return
        asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
        pause_s = max(asked_s or 0.0, 2.0 ** (write.attempt - 1))
        with self._changed:
            self._put(replace(write, attempt=write.attempt + 1), pause_s)


def _gone(error: ClusterError) -> bool:
    """Return whether an error means that a pod was deleted, or another pod has its name."""
    if not isinstance(error, RefusedError):
        return False
    return error.is_of_another_pod or error.status in {NOT_FOUND, CONFLICT}
