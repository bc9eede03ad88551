"""The API calls about pods that nobody waits for: one thread sends them at a limited rate."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

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
RATE: Final = 40.0
"""The highest mean number of calls a second."""
BURST: Final = 100
"""How many calls may be sent without a pause."""
INTERVAL_S: Final = 1.0
"""The least seconds between two calls of one key: kube-scheduler's own backoff begins at a second,
so that more patches of a pod have no effect."""
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


class Topic(Enum):
    """What calls are for; the value is how the log says that they fail."""

    WAKE_UP = "pods cannot be woken"
    MARK = "held pods cannot be marked"
    EVENT = "pods cannot be told what they wait for"


Lane: TypeAlias = tuple[Topic, str]
"""A topic and a namespace, whose calls have turns together."""


@dataclass(slots=True)
class Write:
    """An API call about a pod; it does not keep the pod, which may be large.

    Attributes:
        topic: what the call is for.
        namespace: namespace of the pod.
        key: identifies the call; of calls of one lane with equal keys, only one waits.
        make: returns the call to send, or None if it is not needed any more; called before each
            attempt.
        attempts: how often the call was sent.
    """

    topic: Topic
    namespace: str
    key: str
    make: Callable[[], Call | None]
    attempts: int = 0

    @property
    def lane(self) -> Lane:
        """The calls that the call has turns with."""
        return self.topic, self.namespace


class Outbox:
    """Sends API calls about pods on one thread, which starts with the first call.

    Topics and namespaces take turns, so that no pod waits for all pods of another namespace, nor a
    wake-up for all Events. A call that fails for a passing reason, such as the status 503, is sent
    up to four times. It is lost if the API refuses it for good, or if 10,000 calls of its topic and
    namespace wait. The log says that calls of a topic fail once until one succeeds.

    Args:
        cluster: the connection to the Kubernetes API.

    Attributes:
        stats: how many calls of each topic were sent, refused or dropped since the start.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.stats = {topic: OutboxStats() for topic in Topic}
        self._cluster = cluster
        self._next_at = float("-inf")
        self._changed = threading.Condition()
        # The keys of the calls that wait.
        self._keys: dict[Lane, set[str]] = {}
        self._later: list[tuple[float, int, Write]] = []
        # The calls that are due. A lane without calls keeps its place until its turn comes, so that
        # one that adds a call at a time is not always first.
        self._due: OrderedDict[Lane, deque[Write]] = OrderedDict()
        self._sent_at: dict[tuple[Topic, str], float] = {}
        self._order = count()
        self._thread = threading.Thread(target=self._run, name="kubextend-outbox", daemon=True)
        self._failing = set[Topic]()
        self._stopped = False

    def put(self, write: Write, pause_s: float = 0.0) -> None:
        """Queue a call, unless a call with an equal key waits in its lane. Never waits.

        Args:
            write: the call.
            pause_s: the least seconds until the call is sent.
        """
        with self._changed:
            keys = self._keys.setdefault(write.lane, set())
            if write.key in keys:
                return
            if len(keys) >= MAX_WAITING:
                self.stats[write.topic].dropped += 1
                return
            keys.add(write.key)
            sent_at = self._sent_at.get((write.topic, write.key), float("-inf"))
            due_at = max(time.monotonic() + pause_s, sent_at + INTERVAL_S)
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
        """Move each call that is due to its lane; a new lane is next."""
        while self._later and self._later[0][0] <= now:
            write = heapq.heappop(self._later)[2]
            if write.lane not in self._due:
                self._due[write.lane] = deque()
                self._due.move_to_end(write.lane, last=False)
            self._due[write.lane].append(write)

    def _run(self) -> None:
        while (write := self._next()) is not None:
            try:
                if (call := write.make()) is None:
                    continue
                self._cluster.request(call)
            except (RefusedError, UnreachableError) as error:
                self._failed(write, error)
            except Exception:
                self.stats[write.topic].failed += 1
                log.exception("%s: unexpected failure", write.topic.value)
            else:
                self.stats[write.topic].sent += 1
                self._failing.discard(write.topic)

    def _next(self) -> Write | None:
        """Wait for the next call that may be sent, and return it; None once stopped."""
        with self._changed:
            while not self._stopped:
                self._line_up(now := time.monotonic())
                while self._due and not next(iter(self._due.values())):
                    self._due.popitem(last=False)
                if not self._due:
                    self._changed.wait(self._later[0][0] - now if self._later else None)
                elif (wait_s := self._wait_s(now)) > 0:
                    self._changed.wait(wait_s)
                else:
                    return self._taken(now)
        return None

    def _wait_s(self, now: float) -> float:
        """Count a call and return 0, or return the seconds until one may be sent."""
        due_at = max(self._next_at, now - (BURST - 1) / RATE)
        if due_at > now:
            return due_at - now
        self._next_at = due_at + 1 / RATE
        return 0.0

    def _taken(self, now: float) -> Write:
        """Remove and return the first call of the lane whose turn it is."""
        lane, writes = next(iter(self._due.items()))
        self._due.move_to_end(lane)
        write = writes.popleft()
        keys = self._keys[lane]
        keys.discard(write.key)
        if not keys:
            del self._keys[lane]
        if len(self._sent_at) > MAX_WAITING:
            recent = now - INTERVAL_S
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[write.topic, write.key] = now
        return write

    def _failed(self, write: Write, error: RefusedError | UnreachableError) -> None:
        refused = error if isinstance(error, RefusedError) else None
        stats = self.stats[write.topic]
        if refused and (refused.is_of_another_pod or refused.status in {NOT_FOUND, CONFLICT}):
            stats.gone += 1
            return
        if write.topic not in self._failing:
            self._failing.add(write.topic)
            log.warning("%s: %s", write.topic.value, error)
        write.attempts += 1
        if (refused and not refused.passes) or write.attempts >= ATTEMPTS:
            stats.failed += 1
            return
        asked_s = (refused.retry_after_s if refused else None) or 0.0
        self.put(write, max(asked_s, 2.0 ** (write.attempts - 1)))
