"""Keeps a store equal to the API's objects of one kind: lists once, then watches, on one thread.

The reflector hands the API's bytes to the store, which parses them. While the API cannot be
reached, the store keeps its last content, and ``age_s`` grows.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from kubextend.cluster.api_call import (
    GONE,
    METADATA_LIST,
    NOT_FOUND,
    ONLY_METADATA,
    SERVER_ERROR,
    UNAUTHORIZED,
    Call,
    RefusedError,
    TooLongError,
    UnreachableError,
)
from kubextend.cluster.debounce import Debounce
from kubextend.errors import ClusterError, WireError
from kubextend.metrics import ScrapedCounter, ScrapedGauge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubextend.cluster.client import Cluster
    from kubextend.cluster.stream import Stream
log = logging.getLogger(__name__)

PAGE_ITEMS = 500
MOST_PAGE_BYTES = 12 << 20
"""The most bytes of one page of a list. 500 usual objects take less, but a user may create pods of
1.5 MB each."""
FEWER = 8
"""The divisor of the number of objects in a page, once a page was longer than ``MOST_PAGE_BYTES``;
a page has at least one object."""
PAGED_ATTEMPTS = 2
"""How often in a row a list's ``continue`` token or a watch's version may expire before the next
list is requested without pages."""
LIST_SILENCE_S = 30.0
WATCH_S = (40, 50)
"""Least and most seconds of a watch. kube-apiserver sends a bookmark, an event without an object,
about once a minute and 2 s before a watch's end, so a watch of less than a minute limits how long
kube-apiserver sends nothing."""
WATCH_SILENCE_S = 55.0
"""Seconds without a byte after which the connection counts as broken; longer than any watch."""
SILENT_WATCHES = 3
"""How many whole watches in a row may bring no event or bookmark before the reflector lists anew:
the API may have been set back to an earlier state (etcd restored), and would send nothing until it
has caught up."""
BROKEN_WATCHES = 3
"""How many watches in a row may end in an error without an event before the reflector lists anew:
the API may be unable to continue from the resourceVersion, though its error is not 410."""
MIN_WATCH_S = 1.0

FIRST_PAUSE_S = 0.5
REFUSED_PAUSE_S = 30.0
UNREACHABLE_PAUSE_S = 3.0
"""Longest pause in seconds between two attempts while the API cannot be reached. The pause is
short, so that kubextend is ready within five seconds of the API's return: kube-scheduler waits for
kubextend until then."""
GATEWAY = frozenset({502, 503, 504})
BAD_REQUEST = 400
JOIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of Kubernetes objects that a reflector lists and watches.

    Attributes:
        noun: the plural name of the objects, for log lines.
        path: the API path of all objects of the kind.
        field_selector: selects the objects to list and watch; empty selects all.
        metadata_only: whether only the metadata of the objects is wanted.
    """

    noun: str
    path: str
    field_selector: str = ""
    metadata_only: bool = False

    def call(self, timeout_s: float, query: Mapping[str, str], **more: Any) -> Call:
        """Return the call that lists or watches the objects."""
        if self.metadata_only:
            more["accept"] = ONLY_METADATA if "watch" in query else METADATA_LIST
        if self.field_selector:
            query = {"fieldSelector": self.field_selector, **query}
        right = f"list and watch on {self.path.rpartition('/')[2]}"
        return Call("GET", self.path, timeout_s, query, right=right, **more)


NODES: Final = Kind("nodes", "/api/v1/nodes")


class Page(Protocol):
    """The metadata of one page of a list, such as ``core.ListPage``."""

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the list."""

    @property
    def continue_token(self) -> str:
        """The token of the next page; empty on the last page."""


class Relist(Protocol):
    """A list that is read page by page; a store shows no object of the list before ``commit``."""

    def page(self, list_bytes: bytes, /) -> Page:
        """Parse one page of the list, and return its continue token and resourceVersion."""

    def commit(self) -> object:
        """Replace the objects of the store with the objects of all pages of the list."""


class Store(Protocol):
    """A store that a reflector fills, such as ``core.NodeStore`` and ``core.PodStore``."""

    def relist(self) -> Relist:
        """Begin a list that is read page by page; its ``commit`` replaces the store's content."""

    def apply(self, event_bytes: bytes, /) -> Any:
        """Parse one watch event, apply it to the store, and return the parsed event."""

    def __len__(self) -> int:
        """Return how many objects the store holds."""


class Listener:
    """Gets a call for each list and each watch event of a reflector; must not wait or raise."""

    def list_begins(self) -> None:
        """React to the begin of a list, just before the reflector requests it from the API."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Call ``commit``, which replaces the store's content, and react to the complete list."""
        commit()

    def applied(self, event: Any) -> None:
        """React to a watch event that the store has applied."""


_Store = TypeVar("_Store", bound=Store)


@dataclass(slots=True)
class ReflectorStats:
    """Counts of a reflector since its start, for metrics.

    Attributes:
        lists: lists that were begun.
        watches: watches that were begun.
        events: watch events that the store applied, bookmarks included.
        failures: lists and watches that failed, expired versions included.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Streaks:
    """Numbers of consecutive failures of a reflector, by kind of failure.

    Attributes:
        unreachable: attempts without a complete response of the API.
        refused: attempts that the API refused, or whose response could not be read.
        expired: resourceVersions and continue tokens that had expired (status 410 or 400).
        silent_watches: watches that ended without an event or bookmark.
        broken_watches: watches that ended in an error of the API before any event.
    """

    unreachable: int = 0
    refused: int = 0
    expired: int = 0
    silent_watches: int = 0
    broken_watches: int = 0

    @property
    def failures(self) -> int:
        return self.unreachable + self.refused


class Reflector(Generic[_Store]):
    """Keeps one store equal to the API's objects of one kind, by list and watch.

    Args:
        cluster: the connection to the Kubernetes API.
        store: the store to fill; only this reflector may fill it.
        on_change: called on a thread of its own soon after each list, and soon after a change of a
            field that plugins read, once for many changes.
        kind: the objects to list and watch.
        listener: called on the reflector's thread for every list and every watch event.
        clock: returns the present time in monotonic seconds.
    """

    stats: ReflectorStats
    # Scraped with the label ``resource``.
    METRICS: ClassVar[tuple[ScrapedGauge[Reflector[Any]], ...]] = (
        ScrapedCounter("kubextend_reflector_lists", "Lists begun.", lambda each: each.stats.lists),
        ScrapedCounter(
            "kubextend_reflector_watches", "Watches begun.", lambda each: each.stats.watches
        ),
        ScrapedCounter(
            "kubextend_reflector_events", "Events taken in.", lambda each: each.stats.events
        ),
        ScrapedCounter(
            "kubextend_reflector_failures",
            "Lists and watches that failed.",
            lambda each: each.stats.failures,
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
        kind: Kind = NODES,
        listener: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = ReflectorStats()
        self._cluster = cluster
        self._store = store
        self._kind = kind
        self._listener = listener or Listener()
        self._changes = Debounce(on_change, f"kubextend-{kind.noun}-changes")
        self._clock = clock
        self._stopped = threading.Event()
        self._rng = random.Random()  # noqa: S311 - jitter
        self._thread = threading.Thread(
            target=self._run, name=f"kubextend-{kind.noun}", daemon=True
        )
        self._opening = threading.Lock()
        self._stream: Stream | None = None
        self._version: str | None = None
        self._page_items = PAGE_ITEMS
        self._synced = False
        self._contact_at: float | None = None
        self._missing = False
        self._last_error: str | None = None
        self._lost_at: float | None = None
        self._streaks = _Streaks()

    @property
    def store(self) -> _Store:
        """The store that this reflector fills."""
        return self._store

    @property
    def synced(self) -> bool:
        """Whether the store has had a complete list; stays True while the API is unreachable."""
        return self._synced

    @property
    def missing(self) -> bool:
        """Whether the API answered the last attempt with 404: it does not serve the resource."""
        return self._missing

    @property
    def last_error(self) -> str | None:
        """The error of the last failed list or watch; None if a watch has succeeded since then."""
        return self._last_error

    def age_s(self) -> float | None:
        """Return the seconds since the API last sent a page of a list or an event; None: not yet.

        On a quiet, healthy cluster the age is at most about 50 s. The begin of a watch does not
        make the age 0.
        """
        return None if self._contact_at is None else self._clock() - self._contact_at

    def has_seen(self, version: int) -> bool:
        """Return whether the store shows every change of its kind up to a resourceVersion.

        Source: Kubernetes API concepts, "Resource versions": those of one resource are ordered as
        numbers, as every kube-apiserver makes them.
        """
        seen = self._version
        return seen is not None and seen.isdecimal() and int(seen) >= version

    def start(self) -> None:
        """Start the reflector's thread; the Kubernetes API need not be reachable yet."""
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
        try:
            if self._version is None:
                self._list()
                return 0.0
            return self._watch(self._version)
        except BaseException as error:  # noqa: BLE001 - a panic too: the store must not go stale
            if self._stopped.is_set():
                return 0.0
            return self._pause_after(error)

    def _list(self) -> None:
        """List all objects page by page, and then replace the store's content with them."""
        self.stats.lists += 1
        self._listener.list_begins()
        relist = self._store.relist()
        query = dict[str, str]()
        most_bytes = None
        if self._streaks.expired < PAGED_ATTEMPTS:
            query["limit"] = str(self._page_items)
            most_bytes = MOST_PAGE_BYTES
        while True:
            call = self._kind.call(LIST_SILENCE_S, query, most_bytes=most_bytes)
            page = relist.page(self._cluster.request(call))
            self._heard()
            if not page.continue_token:
                break
            query["continue"] = page.continue_token
        if not page.resource_version:
            message = f"{call}: a list without a resourceVersion"
            raise ClusterError(message)
        self._listener.swap(relist.commit)
        self._missing = False
        self._version = page.resource_version
        self._streaks.unreachable = self._streaks.refused = self._streaks.silent_watches = 0
        if not self.synced:
            self._synced = True
            noun = self._kind.noun
            log.info("%s of %s are known: %d", noun, self._cluster.host, len(self._store))
        self._changes.notify()

    def _watch(self, version: str) -> float:
        """Watch from a resourceVersion until the API ends the watch; return seconds to pause.

        Because of the pause, two watches begin at least 1 s apart, even if the API ends them early.
        """
        self.stats.watches += 1
        began = self._clock()
        events = self.stats.events
        stream = self._open(version)
        try:
            for lines in stream.batches():
                self._apply(lines)
        finally:
            with self._opening:
                self._stream = None
            stream.close()
        self._recovered()
        self._streaks = _Streaks(silent_watches=self._streaks.silent_watches)
        lasted = self._clock() - began
        if self.stats.events == events and lasted >= WATCH_S[0]:
            self._unheard()
        return max(0.0, MIN_WATCH_S - lasted)

    def _open(self, version: str) -> Stream:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(self._rng.randint(*WATCH_S)),
        }
        stream = self._cluster.stream(self._kind.call(WATCH_SILENCE_S, query))
        with self._opening:
            self._stream = stream
            if self._stopped.is_set():
                stream.shut()
        return stream

    def _apply(self, lines: list[bytes]) -> None:
        """Apply a batch of watch events to the store.

        Each event moves ``_version`` on, so that after an error the next watch begins behind the
        last applied event.
        """
        apply = self._store.apply
        changed = False
        taken = 0
        try:
            for line in lines:
                if not line:
                    continue
                event = apply(line)
                if event.type == "ERROR":
                    call = replace(self._kind.call(WATCH_SILENCE_S, {}), method="WATCH")
                    raise RefusedError(call, event.code, event.message)
                self._listener.applied(event)
                self._version = event.resource_version or self._version
                changed = event.changed or changed
                taken += 1
        finally:
            if changed:
                self._changes.notify()
            if taken:
                self.stats.events += taken
                streaks = self._streaks
                streaks.unreachable = streaks.refused = 0
                streaks.silent_watches = streaks.broken_watches = 0
                self._heard()
                self._recovered()

    def _unheard(self) -> None:
        """Count a watch without events or bookmarks; after 3 in a row, request a new list."""
        self._streaks.silent_watches += 1
        if self._streaks.silent_watches >= SILENT_WATCHES:
            self._version = None

    def _heard(self) -> None:
        self._contact_at = self._clock()

    def _recovered(self) -> None:
        self._last_error = None
        if self._lost_at is not None:
            lost_s = self._clock() - self._lost_at
            log.info("%s are followed again after %.0f s", self._kind.noun, lost_s)
            self._lost_at = None

    def _pause_after(self, error: BaseException) -> float:
        """Count and log a failure; return the seconds to wait before the next list or watch.

        ``_version`` becomes None if the next attempt must be a list.
        """
        if isinstance(error, TooLongError) and self._page_items > 1:
            # By the API's documentation, no parameter but `continue` may change within a list.
            self._page_items = max(1, self._page_items // FEWER)
            log.debug("%s are listed anew in shorter pages: %s", self._kind.noun, error)
            return 0.0
        self.stats.failures += 1
        self._last_error = self._sentence(error)
        if isinstance(error, RefusedError) and error.status in {GONE, BAD_REQUEST}:
            return self._expired(error)
        if isinstance(error, UnreachableError):
            self._streaks.unreachable += 1
            self._streaks.refused = 0
            pause_s = self._jitter(self._streaks.unreachable, UNREACHABLE_PAUSE_S)
        else:
            self._streaks.refused += 1
            self._streaks.unreachable = 0
            pause_s = self._refused(error)
        self._lost()
        return pause_s

    def _expired(self, error: RefusedError) -> float:
        """Count an expired resourceVersion or continue token; return seconds to wait before a list.

        One expiry is normal and has no pause. Further expiries in a row have growing pauses,
        because a list is the most expensive call; only a watch that ends without an error ends the
        row.
        """
        self._version = None
        self._streaks.expired += 1
        log.debug("%s are listed anew: %s", self._kind.noun, error)
        if self._streaks.expired == 1:
            return 0.0
        if self._streaks.expired > PAGED_ATTEMPTS:
            self._lost()
        return self._jitter(self._streaks.expired - 1, REFUSED_PAUSE_S)

    def _refused(self, error: BaseException) -> float:
        if not isinstance(error, RefusedError):
            if not isinstance(error, (ClusterError, WireError)):
                noun = self._kind.noun
                log.error("the watch of %s failed unexpectedly", noun, exc_info=error)
            self._version = None
            return self._jitter(self._streaks.refused, REFUSED_PAUSE_S)
        if error.status == NOT_FOUND:
            self._missing = True
            if self._version is not None:
                # The objects of a resource that is served anew are not those that the store has.
                self._streaks.broken_watches += 1
                self._version = None
        self._count_broken_watch(error.status)
        failures = max(self._streaks.refused, self._streaks.broken_watches)
        is_short = error.status in {UNAUTHORIZED, *GATEWAY}
        limit_s = UNREACHABLE_PAUSE_S if is_short else REFUSED_PAUSE_S
        return max(error.retry_after_s or 0.0, self._jitter(failures, limit_s))

    def _count_broken_watch(self, status: int) -> None:
        """Count a watch that ended in an error of the API; after 3 in a row, request a new list.

        A successful list does not reset the count. Statuses 400 to 499, 502, 503 and 504 do not
        count: after an overload or refused rights, a watch can continue from the same version.
        """
        passes = status in GATEWAY or BAD_REQUEST <= status < SERVER_ERROR
        if self._version is None or passes:
            return
        self._streaks.broken_watches += 1
        if self._streaks.broken_watches >= BROKEN_WATCHES:
            self._version = None

    def _lost(self) -> None:
        """Log that the reflector cannot list or watch, once until a watch succeeds again.

        After the first list has succeeded, the first of several failures in a row is not logged.
        """
        if self._lost_at is not None or (self.synced and self._streaks.failures == 1):
            return
        self._lost_at = self._clock()
        log.warning(
            "%s cannot be followed, trying again: %s (%d kept)",
            self._kind.noun,
            self._last_error,
            len(self._store),
        )

    def _sentence(self, error: BaseException) -> str:
        said = str(error) or type(error).__name__
        if isinstance(error, RefusedError) and error.status == NOT_FOUND:
            return f"{said}; the API serves no {self._kind.noun}: is its definition installed?"
        return said

    def _jitter(self, failures: int, limit_s: float) -> float:
        doubled = FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16)
        return self._rng.uniform(0.0, min(limit_s, doubled))
