"""Keeps a store equal to the API's objects of one kind: one stream of all, then watches.

The reflector hands the API's bytes to the store, which parses them. A fresh start asks for the
initial events, so that all objects come as events of a watch. Readers see an object as it was until
a newer state of it comes, and never a store that is empty meanwhile. While the API cannot be
reached, the store keeps its last content, and ``age_s`` grows.

Source: KEP-3157; kube-apiserver has it since 1.34.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import orjson

from kubextend.cluster.api_call import (
    GATEWAY,
    GONE,
    NOT_FOUND,
    ONLY_METADATA,
    SERVER_ERROR,
    UNAUTHORIZED,
    Call,
    RefusedError,
    UnreachableError,
)
from kubextend.cluster.debounce import Debounce
from kubextend.errors import ClusterError, WireError
from kubextend.metrics import ScrapedCounter, ScrapedGauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kubextend.cluster.client import Cluster, Stream

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and name of an object; the namespace is empty for a resource without namespaces."""

LIST_SILENCE_S = 30.0
WATCH_S = (40, 50)
"""Least and most seconds of a watch. kube-apiserver sends a bookmark, an event without an object,
about once a minute and 2 s before a watch's end, so a watch of less than a minute limits how long
kube-apiserver sends nothing."""
WATCH_SILENCE_S = 55.0
"""Seconds without a byte after which the connection counts as broken; longer than any watch."""
MIN_WATCH_S = 1.0
IN_A_ROW = 3
"""Each third failure in a row starts afresh: the API may be unable to go on from the version, or it
was set back to an earlier state (etcd restored), and would send nothing until it has caught up."""

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
SHORT_PAUSE_S = 3.0
"""Longest pause in seconds between two attempts while the API cannot be reached. The pause is
short, so that kubextend is ready within five seconds of the API's return: kube-scheduler waits for
kubextend until then."""
EXPIRED = frozenset({400, GONE})
"""Statuses of a watch from a version that the API no longer knows, or does not know yet."""
JOIN_S = 2.0

_ALL: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
_ALL_ARE_SENT: Final = b'"k8s.io/initial-events-end"'


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of Kubernetes objects that a reflector follows.

    Attributes:
        noun: the plural name of the objects, for log lines.
        path: the API path of all objects of the kind.
        keys: returns namespace and name of each object of a store of this kind.
        field_selector: selects the objects; empty selects all.
        metadata_only: whether only the metadata of the objects is wanted.
    """

    noun: str
    path: str
    keys: Callable[[Any], Iterable[Key]]
    field_selector: str = ""
    metadata_only: bool = False

    def call(self, timeout_s: float, query: Mapping[str, str]) -> Call:
        """Return the call that lists or watches the objects."""
        if self.field_selector:
            query = {"fieldSelector": self.field_selector, **query}
        accept = ONLY_METADATA if self.metadata_only else "application/json"
        right = f"list and watch on {self.path.rpartition('/')[2]}"
        return Call("GET", self.path, timeout_s, query, accept=accept, right=right)


class Store(Protocol):
    """A store that a reflector fills, such as ``core.NodeStore`` and ``core.PodStore``."""

    def apply(self, event_bytes: bytes, /) -> Any:
        """Parse one watch event, apply it to the store, and return the parsed event."""

    def __len__(self) -> int:
        """Return how many objects the store holds."""


class Listener:
    """Gets a call for each list and each watch event of a reflector; must not wait.

    An exception is logged.
    """

    def list_begins(self) -> None:
        """React to the begin of a list, just before the reflector requests it from the API."""

    def list_ends(self) -> None:
        """React to the end of a list, before the store drops what the list did not have."""

    def listed(self) -> None:
        """React to a whole list, which the store equals now."""

    def applied(self, event: Any) -> None:
        """React to a watch event that the store has applied."""


_Store = TypeVar("_Store", bound=Store)


class Reflector(Generic[_Store]):
    """Keeps one store equal to the API's objects of one kind.

    Args:
        cluster: the connection to the Kubernetes API.
        store: the store to fill; only this reflector may fill it.
        on_change: called on a thread of its own soon after each list, and soon after a change of a
            field that plugins read, once for many changes.
        kind: the objects to follow.
        listener: called on the reflector's thread for every list and every watch event.
    """

    events: int
    """How many events of watches the store has applied, bookmarks included."""
    failures: int
    """How many lists and watches have failed, expired versions included."""
    synced: bool
    """Whether the store has had a complete list; stays True while the API is unreachable."""
    missing: bool
    """Whether the API answered the last attempt with 404: it does not serve the resource."""
    last_error: str | None
    """The error of the last failed list or watch; None if a watch has succeeded since then."""
    # Scraped with the label ``resource``.
    METRICS: ClassVar[tuple[ScrapedGauge[Reflector[Any]], ...]] = (
        ScrapedCounter("kubextend_reflector_events", "Events taken in.", lambda each: each.events),
        ScrapedCounter(
            "kubextend_reflector_failures",
            "Lists and watches that failed.",
            lambda each: each.failures,
        ),
        ScrapedGauge(
            "kubextend_reflector_synced",
            "1 after the first list, unless the API no longer serves the objects.",
            lambda each: each.synced and not each.missing,
        ),
        ScrapedGauge(
            "kubextend_reflector_age_seconds",
            "Since the API last sent any of the objects.",
            lambda each: each.age_s(),
        ),
    )

    def __init__(
        self,
        cluster: Cluster,
        store: _Store,
        on_change: Callable[[], object] = lambda: None,
        *,
        kind: Kind,
        listener: Listener | None = None,
    ) -> None:
        self.events = self.failures = 0
        self.store = store
        self.synced = False
        self.missing = False
        self.last_error = None
        self._cluster = cluster
        self._kind = kind
        self._listeners = [listener or Listener()]
        self._changes = Debounce(on_change, f"kubextend-{kind.noun}-changes")
        self._stopped = threading.Event()
        self._rng = random.Random()  # noqa: S311 - jitter
        self._thread = threading.Thread(
            target=self._run, name=f"kubextend-{kind.noun}", daemon=True
        )
        self._opening = threading.Lock()
        self._stream: Stream | None = None
        self._version: str | None = None
        self._contact_at: float | None = None
        self._lost_at: float | None = None
        self._row = 0
        self._is_away = False
        self._brought_events = False

    def age_s(self) -> float | None:
        """Return the seconds since the API last sent an object or a bookmark; None: not yet.

        On a quiet, healthy cluster the age is at most about 50 s. The begin of a watch does not
        make the age 0.
        """
        return None if self._contact_at is None else time.monotonic() - self._contact_at

    def has_seen(self, version: int) -> bool:
        """Return whether the store shows every change of its kind up to a resourceVersion.

        Source: Kubernetes API concepts, "Resource versions": those of one resource are ordered as
        numbers, as every kube-apiserver makes them.
        """
        seen = self._version
        return seen is not None and seen.isdecimal() and int(seen) >= version

    def listen(self, listener: Listener) -> None:
        """Call a further listener for every list and event; call this before ``start``."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start the reflector's thread, once; the Kubernetes API need not be reachable yet."""
        if self._thread.ident is None:
            self._changes.start()
            self._thread.start()

    def stop(self) -> None:
        """End the reflector's watch and its thread; the store keeps its content."""
        with self._opening:
            self._stopped.set()
            if self._stream is not None:
                self._stream.shut()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._changes.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause_s = self._attempt()
            if pause_s > 0:
                self._stopped.wait(pause_s)

    def _attempt(self) -> float:
        """List or watch the objects once, and return the seconds until the next list or watch."""
        self._brought_events = False
        try:
            if self._version is None:
                self._list()
                return 0.0
            return self._watch(self._version)
        except BaseException as error:  # noqa: BLE001 - a panic too: the store must not go stale
            return 0.0 if self._stopped.is_set() else self._pause_after(error)

    def _list(self) -> None:
        """Take in all objects as events, and then drop those that the API did not send."""
        self._tell(lambda each: each.list_begins())
        call = self._kind.call(LIST_SILENCE_S, _WATCH | _ALL)
        listed = set[Key]()
        for line in self._lines(call):
            event = self._applied(line)
            self._contact_at = time.monotonic()
            if event.type == "BOOKMARK":
                if _ALL_ARE_SENT in line:
                    self._listed(listed, event.resource_version)
                    return
            elif event.type == "DELETED":
                listed.discard(_key(event))
                self._tell(methodcaller("applied", event))
            else:
                listed.add(_key(event))
        raise UnreachableError(call, "the API ended the list before it was whole")

    def _listed(self, listed: set[Key], version: str) -> None:
        if not version:
            message = f"a list of {self._kind.noun} without a resourceVersion"
            raise ClusterError(message)
        self._tell(lambda each: each.list_ends())
        self._drop_others(listed)
        self._tell(lambda each: each.listed())
        self.missing = False
        self._version = version
        if not self.synced:
            self.synced = True
            noun = self._kind.noun
            log.info("%s of %s are known: %d", noun, self._cluster.host, len(self.store))
        self._changes.notify()

    def _drop_others(self, listed: set[Key]) -> None:
        """Drop from the store what the list did not have."""
        for namespace, name in {*self._kind.keys(self.store)} - listed:
            gone = {"metadata": {"namespace": namespace, "name": name}}
            self.store.apply(orjson.dumps({"type": "DELETED", "object": gone}))

    def _watch(self, version: str) -> float:
        """Watch from a resourceVersion until the API ends the watch; return seconds to pause.

        Each event moves ``_version`` on, so that after an error the next watch begins behind the
        last applied event. Because of the pause, two watches begin at least 1 s apart, even if the
        API ends them early.
        """
        began = time.monotonic()
        seconds = str(self._rng.randint(*WATCH_S))
        query = _WATCH | {"resourceVersion": version, "timeoutSeconds": seconds}
        for line in self._lines(self._kind.call(WATCH_SILENCE_S, query)):
            event = self._applied(line)
            self._tell(methodcaller("applied", event))
            self._version = event.resource_version or self._version
            self._brought_events = True
            self.events += 1
            self._contact_at = time.monotonic()
            self._recovered()
            if event.changed:
                self._changes.notify()
        self._recovered()
        lasted = time.monotonic() - began
        if self._brought_events or lasted < WATCH_S[0]:
            self._row = 0
        elif self._count(is_away=False) % IN_A_ROW == 0:
            self._version = None
        return max(0.0, MIN_WATCH_S - lasted)

    def _lines(self, call: Call) -> Iterator[bytes]:
        """Send a call, and yield the lines of its response as they come."""
        stream = self._cluster.stream(call)
        try:
            with self._opening:
                self._stream = stream
                if self._stopped.is_set():
                    stream.shut()
            yield from stream.lines()
        finally:
            with self._opening:
                self._stream = None
            stream.close()

    def _applied(self, line: bytes) -> Any:
        """Apply an event to the store; raise RefusedError if it is an ERROR."""
        event = self.store.apply(line)
        if event.type == "ERROR":
            call = replace(self._kind.call(WATCH_SILENCE_S, {}), method="WATCH")
            raise RefusedError(call, event.code, event.message)
        return event

    def _tell(self, what: Callable[[Listener], object]) -> None:
        """Tell each listener something; one that raises stops no watch."""
        for each in self._listeners:
            try:
                what(each)
            except Exception:
                log.exception("what follows the %s failed", self._kind.noun)

    def _recovered(self) -> None:
        self.last_error = None
        if self._lost_at is not None:
            lost_s = time.monotonic() - self._lost_at
            log.info("%s are followed again after %.0f s", self._kind.noun, lost_s)
            self._lost_at = None

    def _pause_after(self, error: BaseException) -> float:
        """Count and log a failure; return the seconds to wait before the next list or watch.

        ``_version`` becomes None if the next attempt must be a list.
        """
        status = error.status if isinstance(error, RefusedError) else 0
        self.failures += 1
        self.missing = self.missing or status == NOT_FOUND
        if not isinstance(error, ClusterError | WireError):
            log.error("the watch of %s failed unexpectedly", self._kind.noun, exc_info=error)
        starts_afresh, longest_s = _rule_of(error)
        is_expired = status in EXPIRED
        failures = self._count(is_away=isinstance(error, UnreachableError), is_expired=is_expired)
        is_server_error = status >= SERVER_ERROR and status not in GATEWAY
        if starts_afresh or (is_server_error and failures % IN_A_ROW == 0):
            self._version = None
        # The API may have just returned to serve, or ended a list, after the first failure.
        self._lost(error, is_news=bool(self.last_error) or not self.synced)
        # One expiry is normal; further ones pause, because a list is the most expensive call.
        doublings = failures - 1 if is_expired else failures
        pause_s = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(doublings - 1, 16))
        asked_s = (error.retry_after_s if isinstance(error, RefusedError) else 0.0) or 0.0
        return max(asked_s, self._rng.uniform(0.0, pause_s if doublings else 0.0))

    def _count(self, *, is_away: bool, is_expired: bool = False) -> int:
        """Count a failure or a silent watch, and return how many came in a row.

        A watch that brought events ends the row, unless its version expired: the API may expire
        each version right after it sent some. An answer after none begins a new row.
        """
        goes_on = is_away is self._is_away and (is_expired or not self._brought_events)
        self._row = self._row + 1 if goes_on else 1
        self._is_away = is_away
        return self._row

    def _lost(self, error: BaseException, *, is_news: bool) -> None:
        """Note an error, and log once until a watch succeeds that the objects cannot be followed.

        After the first list has succeeded, the first of several failures in a row is not logged.
        """
        said = str(error) or type(error).__name__
        noun = self._kind.noun
        if isinstance(error, RefusedError) and error.status == NOT_FOUND:
            said += f"; the API serves no {noun}: is its definition installed?"
        self.last_error = said
        if is_news and self._lost_at is None:
            self._lost_at = time.monotonic()
            kept = len(self.store)
            log.warning("%s cannot be followed, trying again: %s (%d kept)", noun, said, kept)


_WATCH: Final = {"watch": "1", "allowWatchBookmarks": "true"}


def _key(event: Any) -> Key:
    """Return namespace and name of an event's object; events of nodes have no namespace."""
    return getattr(event, "namespace", ""), event.name


def _rule_of(error: BaseException) -> tuple[bool, float]:
    """Return whether a failure asks for a fresh start, and the longest pause after it."""
    status = error.status if isinstance(error, RefusedError) else None
    if isinstance(error, UnreachableError) or status in {UNAUTHORIZED, *GATEWAY}:
        return False, SHORT_PAUSE_S
    return status is None or status in {*EXPIRED, NOT_FOUND}, LONGEST_PAUSE_S
