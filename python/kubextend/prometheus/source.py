"""Repeats one Prometheus query on a thread of its own, and keeps the last successful result."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kubextend.prometheus.endpoint import Endpoint, PrometheusError
from kubextend.prometheus.vector import Dropped, NodeLabel, Vector, read_vector

__all__ = ["Asks", "Query", "Source"]

_LOGGER = logging.getLogger(__name__)

_LONGEST_BACKOFF_S = 30.0
_LARGEST_EXPONENT = 16
_JITTER = 0.1
_STOP_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Query:
    """A Prometheus query, with the address of Prometheus and the interval between queries.

    Equal queries share one ``Source``.

    Attributes:
        address: the URL of Prometheus, as ``PrometheusArgs`` has checked it.
        promql: PromQL that yields an instant vector with one series for each node.
        label: how a series names its node.
        interval_s: seconds from the start of a refresh to the start of the next.
        timeout_s: the most seconds for a whole response.
        bearer_token_file: a file with a bearer token for the Authorization header; None: no token.
        ca_file: a file with CA certificates for https; None: the system's CAs.
    """

    address: str
    promql: str
    label: NodeLabel
    interval_s: float
    timeout_s: float
    bearer_token_file: str | None = None
    ca_file: str | None = None


class Asks(Protocol):
    """The interface by which a ``Source`` queries Prometheus; ``Endpoint`` implements it."""

    def query(self, promql: str, timeout_s: float) -> bytes:
        """Send an instant query, and return the body of the successful response. Blocks.

        Raises: PrometheusError: there was no successful response within ``timeout_s`` seconds.
        """

    def interrupt(self) -> None:
        """Make a call of ``query`` that is under way on another thread fail immediately."""


class Source:
    """Repeats one query on a thread, and keeps the last successful result for any thread to read.

    A new result replaces the last one as a whole, and reading never waits. Several plugins may
    start one ``Source``: its thread runs from the first ``start`` until each of these plugins has
    called ``stop``.

    Args:
        query: the query.
        endpoint: sends the query; None: an ``Endpoint`` for the query's address.
        clock: returns the present time in monotonic seconds.

    Attributes:
        query: the query.
        refreshes: the number of queries since the start, by result: ``ok`` and ``failed``.
        dropped: the number of series that were left out since the start, by reason.
    """

    def __init__(
        self,
        query: Query,
        endpoint: Asks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.query = query
        self.refreshes: Counter[str] = Counter(ok=0, failed=0)
        self.dropped: Counter[Dropped] = Counter()
        self._endpoint = endpoint or Endpoint(
            query.address, bearer_token_file=query.bearer_token_file, ca_file=query.ca_file
        )
        self._clock = clock
        self._latest: tuple[Vector, float] | None = None
        self._failures = 0
        self._complaint = ""
        self._lock = threading.Lock()
        self._users = 0
        self._thread: _Refreshing | None = None

    def start(self) -> None:
        """Start the thread that queries Prometheus, unless it runs already; never waits."""
        with self._lock:
            if not self._users:
                # The system may refuse a thread: whoever starts again is then the first again.
                thread = _Refreshing(self)
                thread.start()
                self._thread = thread
            self._users += 1

    def stop(self) -> None:
        """Stop querying Prometheus, if every plugin that called ``start`` has called ``stop``."""
        with self._lock:
            self._users = max(self._users - 1, 0)
            if self._users:
                return
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def latest(self, time_to_live_s: float) -> Vector | None:
        """Return the last successful query's result; None: no query succeeded, or it is too old.

        Args:
            time_to_live_s: the age in seconds up to which a result is returned.
        """
        latest = self._latest
        if latest is None or self._clock() - latest[1] > time_to_live_s:
            return None
        return latest[0]

    def age_s(self) -> float | None:
        """Return the seconds since the last successful query was sent; None before the first."""
        latest = self._latest
        return None if latest is None else self._clock() - latest[1]

    def nodes(self) -> int:
        """Return the number of nodes for which the last successful query has a number."""
        latest = self._latest
        return 0 if latest is None else len(latest[0].by_node)

    def refresh(self) -> bool:
        """Send the query once on the calling thread; return whether the query succeeded."""
        # A result is as old as its query: it lacks everything that happened since.
        asked_at = self._clock()
        query = self.query
        try:
            body = self._endpoint.query(query.promql, query.timeout_s)
            vector = read_vector(body, query.label)
        except PrometheusError as error:
            self._failed(str(error))
            return False
        except Exception as error:
            _LOGGER.exception("a refresh from %s failed unexpectedly", query.address)
            self._failed(f"{type(error).__name__}: {error}")
            return False
        self._latest = (vector, asked_at)
        self._succeeded(vector)
        return True

    def turn(self) -> float:
        """Send the query once on the calling thread; return the seconds until the next query."""
        began_s = self._clock()
        self.refresh()
        return max(self.pause_s() - (self._clock() - began_s), 0.0)

    def pause_s(self) -> float:
        """Return the seconds from one query to the next, with a jitter of 10 percent.

        Without failures the result is the query's interval. From the second failure of the query in
        a row on, the time doubles with each failure, up to 30 s or the interval, whichever is
        longer.
        """
        interval_s = self.query.interval_s
        exponent = min(max(self._failures - 1, 0), _LARGEST_EXPONENT)
        longest_s = max(interval_s, _LONGEST_BACKOFF_S)
        pause_s = min(interval_s * 2.0**exponent, longest_s)
        return pause_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  no secret

    def interrupt(self) -> None:
        """Make this source's query fail immediately if it is under way on another thread."""
        self._endpoint.interrupt()

    def _succeeded(self, vector: Vector) -> None:
        self.refreshes["ok"] += 1
        self._failures = 0
        self.dropped.update(vector.dropped)
        left_out = ", ".join(sorted(vector.dropped))
        complaint = f"series left out: {left_out}" if left_out else ""
        if not vector.by_node:
            complaint = f"no node has a number; {complaint or 'the answer has no series'}"
        if complaint != self._complaint:
            _LOGGER.log(
                logging.WARNING if complaint else logging.INFO,
                "Prometheus answers: %s",
                complaint or f"{len(vector.by_node)} nodes have a number",
                extra=self._facts(),
            )
        self._complaint = complaint

    def _failed(self, complaint: str) -> None:
        self.refreshes["failed"] += 1
        self._failures += 1
        if complaint != self._complaint:
            _LOGGER.warning("no answer from Prometheus: %s", complaint, extra=self._facts())
        self._complaint = complaint

    def _facts(self) -> dict[str, object]:
        return {"address": self.query.address, "query": self.query.promql}


class _Refreshing:
    """The thread that repeats the query of one ``Source`` until ``stop`` is called."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._stopping = threading.Event()
        # A daemon, because looking up the name of a host can be neither bounded nor interrupted.
        self._thread = threading.Thread(target=self._run, name="prometheus-refresh", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._source.interrupt()
        self._thread.join(_STOP_WITHIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stopping.wait(self._source.turn())
