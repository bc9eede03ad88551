"""Decides which Events of plugins are written: equal ones are counted, too many are left out.

The rules are those of client-go's EventCorrelator. Source: client-go v0.36
tools/record/events_cache.go
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kubextend.cluster.write_queue import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kubextend.framework.events import PluginEvent

MOST_REMEMBERED: Final = 4096
SPAM_BURST: Final = 25
SPAM_INTERVAL_S: Final = 300.0
MOST_SIMILAR: Final = 10
SIMILAR_S: Final = 600.0
COMBINED: Final = "(combined from similar events): "
ONE_EVENT_S: Final = 50 * 60.0
"""Seconds for which repetitions of an Event are counted in that Event; the API deletes an Event an
hour after it was last written."""


@dataclass(slots=True)
class _Similar:
    """Hashes of the different notes of Events that are equal but for the note."""

    notes: set[int] = field(default_factory=set)
    last_at: float = float("-inf")


@dataclass(slots=True)
class _WrittenEvent:
    """An Event that was written, with the number of its repetitions."""

    name: str = ""
    count: int = 0
    began_at: float = 0.0


@dataclass(frozen=True, slots=True)
class EventToWrite:
    """What to write about an Event.

    Attributes:
        name: the name of the Event object.
        note: the note.
        count: how often the Event occurred; 1: the object is to be made.
    """

    name: str
    note: str
    count: int


class EventCorrelator:
    """Turns the Events of plugins into what is written to the API.

    Any thread may call the method. What it remembers is bounded: 4,096 Events, groups of similar
    Events, and objects of plugins.

    Args:
        clock: returns the present time in monotonic seconds.
        name: returns the name of a new Event object about an object.
    """

    def __init__(self, clock: Callable[[], float], name: Callable[[str], str]) -> None:
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        # The values of the keys that were used last; the first call with a key makes its value.
        recent = lru_cache(MOST_REMEMBERED)
        self._told: Callable[[Hashable], _WrittenEvent] = recent(lambda _: _WrittenEvent())
        self._similar: Callable[[Hashable], _Similar] = recent(lambda _: _Similar())
        # How many Events of one plugin about one object may still be written.
        self._allowed = recent(lambda _: TokenBucket(1 / SPAM_INTERVAL_S, SPAM_BURST, clock))

    def correlate(self, event: PluginEvent) -> EventToWrite | None:
        """Return what to write about an Event; None: nothing is to be written now.

        An Event that is not written still counts: the next write about the same includes it.
        """
        now = self._clock()
        kind = (event.owner, event.regarding, event.type, event.reason, event.action)
        with self._lock:
            note, key = self._combined(event.note, kind, now)
            told = self._told(key)
            if told.count and now - told.began_at >= ONE_EVENT_S:
                told.count = 0
            if self._allowed((event.owner, event.regarding)).take():
                # An Event that was never made cannot be counted in.
                told.count += 1 if told.count else 0
                return None
            told.count += 1
            if told.count == 1:
                told.name, told.began_at = self._name(event.regarding.name), now
            return EventToWrite(told.name, note, told.count)

    def _combined(self, note: str, kind: Hashable, now: float) -> tuple[str, Hashable]:
        """Return the note to write, and the key by which repetitions are counted."""
        similar = self._similar(kind)
        if now - similar.last_at > SIMILAR_S:
            similar.notes.clear()
        similar.last_at = now
        # Hashes, because plugins may write long notes.
        told = hash(note)
        if told not in similar.notes and len(similar.notes) >= MOST_SIMILAR - 1:
            return COMBINED + note, kind
        similar.notes.add(told)
        return note, (kind, told)
