"""Which Events of plugins are written.

Source of the rules: client-go v0.36 tools/record/events_cache.go.
"""

from __future__ import annotations

import itertools

from kubextend.cluster.event_correlator import (
    COMBINED,
    EventCorrelator,
    EventToWrite,
)
from kubextend.framework.events import PluginEvent, Regarding
from kubextend.framework.informer import Owner


class World:
    """A correlator, its clock, and Events to give it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        numbers = itertools.count(1)
        self.correlator = EventCorrelator(
            lambda: self.now_s, lambda name: f"{name}.{next(numbers)}"
        )

    def tell(self, note: str = "no", *, pod: str = "a", plugin: str = "P") -> EventToWrite | None:
        regarding = Regarding("v1", "Pod", "ml", pod, f"uid-{pod}")
        event = PluginEvent(Owner(plugin), regarding, "Normal", "Because", "Scheduling", note)
        return self.correlator.correlate(event)


def test_equal_events_become_one_with_a_count() -> None:
    world = World()
    assert world.tell() == EventToWrite("a.1", "no", 1)
    assert world.tell() == EventToWrite("a.1", "no", 2)
    assert world.tell(pod="b") == EventToWrite("b.2", "no", 1)
    assert world.tell(plugin="Q") == EventToWrite("a.3", "no", 1)
    assert world.tell() == EventToWrite("a.1", "no", 3)


def test_an_object_gets_25_events_at_once_and_one_in_five_minutes_after() -> None:
    world = World()
    written = [world.tell() for _ in range(40)]
    assert [told.count for told in written if told is not None] == list(range(1, 26))
    assert written[25:] == [None] * 15
    world.now_s = 299.0
    assert world.tell() is None
    world.now_s = 300.0
    # The Events that were not written count.
    assert world.tell() == EventToWrite("a.1", "no", 42)
    assert world.tell() is None
    assert world.tell(pod="b") is not None


def test_an_event_that_was_left_out_begins_when_it_may_be_written() -> None:
    world = World()
    for _ in range(25):
        world.tell()
    assert world.tell("new") is None
    world.now_s = 300.0
    assert world.tell("new") == EventToWrite("a.2", "new", 1)


def test_the_tenth_different_note_in_ten_minutes_is_combined_with_those_after_it() -> None:
    world = World()
    first = [world.tell(f"note {number}") for number in range(9)]
    assert [told.note for told in first if told] == [f"note {number}" for number in range(9)]
    assert world.tell("note 9") == EventToWrite("a.10", f"{COMBINED}note 9", 1)
    assert world.tell("note 10") == EventToWrite("a.10", f"{COMBINED}note 10", 2)
    # A note that was told before still counts on its own.
    assert world.tell("note 3") == EventToWrite("a.4", "note 3", 2)
    world.now_s = 601.0
    assert world.tell("note 11") == EventToWrite("a.11", "note 11", 1)


def test_an_event_is_made_anew_before_the_api_has_forgotten_it() -> None:
    world = World()
    assert world.tell() == EventToWrite("a.1", "no", 1)
    world.now_s = 50 * 60.0 - 1
    assert world.tell() == EventToWrite("a.1", "no", 2)
    world.now_s = 50 * 60.0
    assert world.tell() == EventToWrite("a.2", "no", 1)
