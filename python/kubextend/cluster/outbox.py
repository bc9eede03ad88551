"""The API calls about pods that nobody waits for: one thread sends them at a limited rate."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from kubextend.cluster.api_call import CONFLICT, NOT_FOUND, RefusedError, UnreachableError
from kubextend.metrics import ScrapedCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
"""The most calls of one namespace that wait: no neighbour is kept out by them."""
ATTEMPTS: Final = 4
JOIN_S: Final = 2.0


@dataclass(slots=True)
class OutboxStats:
    """Counts of an outbox's calls since the start, for metrics.

    Attributes:
        sent: calls that the API accepted.
        gone: calls about a pod that no longer exists.
        failed: calls that failed and were not sent again.
        dropped: calls that were never sent, or not sent again, because too many of their namespace
            waited or because a URL cannot contain the pod's names.
    """

    sent: int = 0
    gone: int = 0
    failed: int = 0
    dropped: int = 0


def writes_counted(name: str, what: str) -> tuple[ScrapedCounter[OutboxStats]]:
    """Return the metric family ``name`` of an outbox's calls, which write ``what``, by result."""
    text = f"{what}: sent, gone (with their pod), failed, dropped (never tried)."
    return (ScrapedCounter(name, text, asdict, ("result",)),)


class TokenBucket:
    """Lets ``rate`` calls a second pass on average, and up to ``burst`` without a pause."""

    def __init__(self, rate: float, burst: int) -> None:
        self._pause_s = 1.0 / rate
        self._burst_s = (burst - 1) / rate
        self._next_at = float("-inf")

    def take(self) -> float:
        """Let a call pass and return 0, or return the seconds until one may pass."""
        now = time.monotonic()
        due_at = max(self._next_at, now - self._burst_s)
        if due_at > now:
            return due_at - now
        self._next_at = due_at + self._pause_s
        return 0.0


@dataclass(slots=True)
class Write:
    """An API call about a pod; it does not keep the pod, which may be large.

    Attributes:
        key: identifies the call; of calls of one namespace with equal keys, only one waits.
        namespace: namespace of the pod.
        make: returns the call to send, or None if it is not needed any more; called before each
            attempt.
        attempts: how often the call was sent.
    """

    key: str
    namespace: str
    make: Callable[[], Call | None]
    attempts: int = 0


class Outbox:
    """Sends API calls about pods on one thread, which starts with the first call.

    Namespaces take turns, so that no pod waits for all pods of another namespace. A call that fails
    for a passing reason, such as the status 503, is sent up to four times. It is lost if the API
    refuses it for good, or if 10,000 calls of its namespace wait.

    Args:
        cluster: the connection to the Kubernetes API.

    Attributes:
        stats: how many calls were sent, refused or dropped since the start.
        rate: the highest mean number of calls a second.
        burst: how many calls may be sent without a pause.
        interval_s: the least seconds between two calls of one key.
        thread: the name of the thread.
        trouble: the log line's words for failing calls, such as "pods cannot be woken"; logged once
            until a call succeeds.
    """

    rate: ClassVar[float]
    burst: ClassVar[int]
    interval_s: ClassVar[float] = 0.0
    thread: ClassVar[str]
    trouble: ClassVar[str]

    def __init__(self, cluster: Cluster) -> None:
        self.stats = OutboxStats()
        self._cluster = cluster
        self._bucket = TokenBucket(self.rate, self.burst)
        self._changed = threading.Condition()
        # Namespace -> the keys of its calls that wait.
        self._keys: dict[str, set[str]] = {}
        self._later: list[tuple[float, int, Write]] = []
        # Namespace -> its calls that are due. A namespace without calls keeps its place until its
        # turn comes, so that one that adds a call at a time is not always first.
        self._due: OrderedDict[str, deque[Write]] = OrderedDict()
        self._sent_at: dict[str, float] = {}
        self._order = count()
        self._thread = threading.Thread(target=self._run, name=self.thread, daemon=True)
        self._stopped = self._failing = False

    def put(self, write: Write, pause_s: float = 0.0) -> None:
        """Queue a call, unless a call with an equal key waits already. Never waits.

        Args:
            write: the call.
            pause_s: the least seconds until the call is sent.
        """
        with self._changed:
            keys = self._keys.setdefault(write.namespace, set())
            if write.key in keys:
                return
            if len(keys) >= MAX_WAITING:
                self.stats.dropped += 1
                return
            keys.add(write.key)
            sent_at = self._sent_at.get(write.key, float("-inf"))
            due_at = max(time.monotonic() + pause_s, sent_at + self.interval_s)
            heapq.heappush(self._later, (due_at, next(self._order), write))
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

    def _line_up(self, now: float) -> None:
        """Move each call that is due to those of its namespace; a new namespace is next."""
        while self._later and self._later[0][0] <= now:
            write = heapq.heappop(self._later)[2]
            if write.namespace not in self._due:
                self._due[write.namespace] = deque()
                self._due.move_to_end(write.namespace, last=False)
            self._due[write.namespace].append(write)

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
                log.exception("%s: unexpected failure", self.trouble)
            else:
                self.stats.sent += 1
                self._failing = False

    def _next(self) -> Write | None:
        """Wait for the next call that may be sent, and return it; None once stopped."""
        with self._changed:
            while not self._stopped:
                self._line_up(now := time.monotonic())
                while self._due and not next(iter(self._due.values())):
                    self._due.popitem(last=False)
                if not self._due:
                    self._changed.wait(self._later[0][0] - now if self._later else None)
                elif wait_s := self._bucket.take():
                    self._changed.wait(wait_s)
                else:
                    return self._taken(now)
        return None

    def _taken(self, now: float) -> Write:
        """Remove and return the first call of the namespace whose turn it is."""
        namespace, writes = next(iter(self._due.items()))
        self._due.move_to_end(namespace)
        write = writes.popleft()
        keys = self._keys[namespace]
        keys.discard(write.key)
        if not keys:
            del self._keys[namespace]
        if len(self._sent_at) > MAX_WAITING:
            recent = now - self.interval_s
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[write.key] = now
        return write

    def _failed(self, write: Write, error: RefusedError | UnreachableError) -> None:
        refused = error if isinstance(error, RefusedError) else None
        if refused and (refused.is_of_another_pod or refused.status in {NOT_FOUND, CONFLICT}):
            self.stats.gone += 1
            return
        if not self._failing:
            self._failing = True
            log.warning("%s: %s", self.trouble, error)
        write.attempts += 1
        if (refused and not refused.passes) or write.attempts >= ATTEMPTS:
            self.stats.failed += 1
            return
        asked_s = (refused.retry_after_s if refused else None) or 0.0
        self.put(write, max(asked_s, 2.0 ** (write.attempts - 1)))
