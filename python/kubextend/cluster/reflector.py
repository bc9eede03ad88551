"""Keeps a store equal to the API's nodes, or its pods: list once, then watch, on one thread.

Bytes go from the socket into the store, which alone reads them. The reflector evicts nothing by
itself: while the API is away the store keeps its last content, and ``age_s`` grows.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from kubextend.cluster.api_call import (
    GONE,
    SERVER_ERROR,
    Call,
    RefusedError,
    TooLongError,
    UnreachableError,
)
from kubextend.cluster.debounce import Debounce
from kubextend.errors import ClusterError, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster
    from kubextend.cluster.stream import Stream
    from kubextend.core import ListPage

log = logging.getLogger(__name__)

PAGE_ITEMS = 500
MOST_PAGE_BYTES = 12 << 20
"""500 usual objects take less. Whoever may create pods can make each of them 1.5 MB large."""
FEWER = 8
"""After a page that was too long, the next pages have 8 times fewer objects, at least one."""
PAGED_ATTEMPTS = 2
"""After pages have expired twice, they are too slow for the API: the list comes in one piece."""
LIST_SILENCE_S = 30.0
WATCH_S = (40, 50)
"""Bookmarks come about once a minute and 2 s before a watch's end, so a shorter watch bounds
silence without relying on them."""
WATCH_SILENCE_S = 55.0
"""Longer than any watch: a connection that is silent for so long is dead."""
SILENT_WATCHES = 3
"""Whole watches without even a bookmark: the API may have been set back to an earlier state (etcd
restored), and would send nothing until it has caught up."""
BROKEN_WATCHES = 3
"""Watches in a row that ended in an error without an event: the API may be unable to continue from
this version, though its error is not 410."""
MIN_WATCH_S = 1.0

FIRST_PAUSE_S = 0.5
REFUSED_PAUSE_S = 30.0
UNREACHABLE_PAUSE_S = 3.0
"""Low, because an attempt costs an absent API nothing, and the whole scheduler waits for us: we are
ready within five seconds of the API's return."""
GATEWAY = frozenset({502, 503, 504})
BAD_REQUEST = 400
FORBIDDEN = 403
JOIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The objects that are listed and watched.

    Attributes:
        noun: the plural, for messages.
        path: the path of the whole collection.
        field_selector: leaves out what no store needs; empty for all.
    """

    noun: str
    path: str
    field_selector: str = ""


NODES: Final = Kind("nodes", "/api/v1/nodes")


class Relist(Protocol):
    """A list in the making: the store shows nothing of it before it is committed."""

    def page(self, list_bytes: bytes, /) -> ListPage:
        """Take one page in."""

    def commit(self) -> object:
        """Swap the whole list in at once."""


class Store(Protocol):
    """A store that a reflector fills, such as ``core.NodeStore`` and ``core.PodStore``."""

    def relist(self) -> Relist:
        """Begin a list."""

    def apply(self, event_bytes: bytes, /) -> Any:
        """Apply one watch event, and return what it was."""

    def __len__(self) -> int:
        """Return how many objects the store holds."""


class Listener(Protocol):
    """Hears of each step on the watch's own thread, so it must be quick and never raise."""

    def list_begins(self) -> None:
        """Note that a list is requested now, newer than whatever was known before."""

    def swap(self, commit: Callable[[], object]) -> None:
        """Call ``commit``, which swaps a whole list in."""

    def applied(self, event: Any) -> None:
        """Note that the store has applied this event."""


class _NoListener:
    def list_begins(self) -> None:
        """Do nothing."""

    def swap(self, commit: Callable[[], object]) -> None:
        commit()

    def applied(self, event: Any) -> None:
        """Do nothing."""


_Store = TypeVar("_Store", bound=Store)


@dataclass(slots=True)
class ReflectorStats:
    """Counts since the start, for metrics."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Streaks:
    """Failures in a row, by kind: each kind has its own pace."""

    unreachable: int = 0
    refused: int = 0
    expired: int = 0
    silent_watches: int = 0
    broken_watches: int = 0

    @property
    def failures(self) -> int:
        return self.unreachable + self.refused


class Reflector(Generic[_Store]):
    """Fills one store by list and watch.

    Args:
        cluster: the API.
        store: filled by this reflector alone.
        on_change: called soon after something changed that plugins read, once for many changes, on
            a thread of its own.
        kind: the objects to follow; the store reads them.
        listener: told of every step.
        clock: monotonic seconds.
        rng: source of jitter.
    """

    def __init__(  # noqa: PLR0913 - clock and rng are for tests
        self,
        cluster: Cluster,
        store: _Store,
        on_change: Callable[[], object] = lambda: None,
        *,
        kind: Kind = NODES,
        listener: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.stats = ReflectorStats()
        self._cluster = cluster
        self._store = store
        self._kind = kind
        self._listener = listener or _NoListener()
        self._changes = Debounce(on_change, f"kubextend-{kind.noun}-changes")
        self._clock = clock
        self._stopped = threading.Event()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._thread = threading.Thread(
            target=self._run, name=f"kubextend-{kind.noun}", daemon=True
        )
        self._opening = threading.Lock()
        self._stream: Stream | None = None
        self._version: str | None = None
        self._page_items = PAGE_ITEMS
        self._synced = threading.Event()
        self._contact_at: float | None = None
        self._last_error: str | None = None
        self._lost_at: float | None = None
        self._streaks = _Streaks()

    @property
    def store(self) -> _Store:
        """The store that this reflector fills."""
        return self._store

    @property
    def synced(self) -> bool:
        """Whether a whole list was taken in once; stays true when the API goes away."""
        return self._synced.is_set()

    @property
    def last_error(self) -> str | None:
        """Why the API cannot be followed right now; None while it can."""
        return self._last_error

    def age_s(self) -> float | None:
        """Return the seconds since the API last sent anything; None before the first time.

        On a quiet, healthy cluster the age is at most about 50 s. A watch that opens sends nothing
        yet.
        """
        return None if self._contact_at is None else self._clock() - self._contact_at

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for the first list, and return whether it came within the seconds."""
        return self._synced.wait(timeout_s)

    def start(self) -> None:
        """Begin to follow the API, whether it answers or not."""
        self._changes.start()
        self._thread.start()

    def stop(self) -> None:
        """End the watch and its thread; the store keeps its content."""
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
        """List or watch once, and return the seconds until the next attempt."""
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
        """Take all objects in, page by page, and swap them in at once."""
        self.stats.lists += 1
        self._listener.list_begins()
        relist = self._store.relist()
        query = self._selected()
        most_bytes = None
        if self._streaks.expired < PAGED_ATTEMPTS:
            query["limit"] = str(self._page_items)
            most_bytes = MOST_PAGE_BYTES
        while True:
            call = Call("GET", self._kind.path, LIST_SILENCE_S, query, most_bytes=most_bytes)
            page = relist.page(self._cluster.request(call))
            self._heard()
            if not page.continue_token:
                break
            query["continue"] = page.continue_token
        if not page.resource_version:
            message = f"{call}: a list without a resourceVersion"
            raise ClusterError(message)
        self._listener.swap(relist.commit)
        self._version = page.resource_version
        self._streaks.unreachable = self._streaks.refused = self._streaks.silent_watches = 0
        if not self.synced:
            self._synced.set()
            noun = self._kind.noun
            log.info("%s of %s are known: %d", noun, self._cluster.host, len(self._store))
        self._changes.notify()

    def _watch(self, version: str) -> float:
        """Follow the API from a version until it ends the watch; return the pause after that."""
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
        query = self._selected() | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(self._rng.randint(*WATCH_S)),
        }
        stream = self._cluster.stream(Call("GET", self._kind.path, WATCH_SILENCE_S, query))
        with self._opening:
            self._stream = stream
            if self._stopped.is_set():
                stream.shut()
        return stream

    def _selected(self) -> dict[str, str]:
        selector = self._kind.field_selector
        return {"fieldSelector": selector} if selector else {}

    def _apply(self, lines: list[bytes]) -> None:
        """Apply events; each one moves the version on, so a broken batch resumes after the last."""
        apply = self._store.apply
        changed = False
        taken = 0
        try:
            for line in lines:
                if not line:
                    continue
                event = apply(line)
                if event.type == "ERROR":
                    call = Call("WATCH", self._kind.path, WATCH_SILENCE_S)
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
        """Count a watch that brought nothing at all; list anew after a few of them."""
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
        """Note a failure and return the seconds to wait; ``_version`` says whether to list anew."""
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
        """Note that the version, or a list's next page, expired: normal once, else a fault.

        Only a watch that ended well ends the streak: a list is the most expensive call.
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
        self._count_broken_watch(error.status)
        failures = max(self._streaks.refused, self._streaks.broken_watches)
        limit_s = UNREACHABLE_PAUSE_S if error.status in GATEWAY else REFUSED_PAUSE_S
        return max(error.retry_after_s or 0.0, self._jitter(failures, limit_s))

    def _count_broken_watch(self, status: int) -> None:
        """List anew after a few watches that the API itself broke; a list ends no such streak.

        Overload and refused rights pass, and then the version is as good as before.
        """
        passes = status in GATEWAY or BAD_REQUEST <= status < SERVER_ERROR
        if self._version is None or passes:
            return
        self._streaks.broken_watches += 1
        if self._streaks.broken_watches >= BROKEN_WATCHES:
            self._version = None

    def _lost(self) -> None:
        """Log once that the API is not followed; a single failure after the sync is not news."""
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
        if isinstance(error, RefusedError) and error.status == FORBIDDEN:
            resource = self._kind.path.rpartition("/")[2]
            return f"{said}; grant list and watch on {resource}"
        return said

    def _jitter(self, failures: int, limit_s: float) -> float:
        doubled = FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16)
        return self._rng.uniform(0.0, min(limit_s, doubled))
