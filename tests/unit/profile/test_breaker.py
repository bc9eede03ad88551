"""When a plugin is left uncalled, for how long, and what ends it."""

import pytest

from kubextend.profile.breaker import Breakers


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


Step = tuple[float, str]
# Seconds that pass, then what happens to the plugin; at the end, whether its breaker is open.
HISTORIES: dict[str, tuple[list[Step], bool]] = {
    "nothing ever happened": ([], False),
    "one hang": ([(0, "hung")], True),
    "one hang, almost thirty seconds ago": ([(0, "hung"), (29.9, "")], True),
    "one hang, thirty seconds ago": ([(0, "hung"), (30, "")], False),
    "a second hang while it is open": ([(0, "hung"), (10, "hung"), (29.9, "")], True),
    "a hang after it has closed": ([(0, "hung"), (30, "hung"), (29.9, "")], True),
    "one stuck thread": ([(0, "stuck"), (99, "")], False),
    "two stuck threads": ([(0, "stuck"), (0, "stuck"), (99, "")], True),
    "one of two came back": ([(0, "stuck"), (0, "stuck"), (0, "came_back")], False),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_what_happened_decides_whether_the_plugin_is_called(history: str) -> None:
    steps, expected = HISTORIES[history]
    clock = Clock()
    breakers = Breakers(clock)
    events = {
        "": lambda _plugin: None,
        "hung": breakers.hung,
        "stuck": breakers.stuck,
        "came_back": breakers.came_back,
    }
    for seconds, event in steps:
        clock.now_s += seconds
        events[event]("P")
    assert breakers.is_open("P") is expected
    assert not breakers.is_open("another")


def test_two_stuck_threads_of_one_plugin_are_what_ends_the_process() -> None:
    breakers = Breakers()
    breakers.stuck("A")
    breakers.stuck("B")
    assert not breakers.why_not_alive()
    breakers.stuck("A")
    assert breakers.why_not_alive() == '2 threads are stuck in plugin "A"'
    breakers.came_back("A")
    assert not breakers.why_not_alive()


def test_every_known_plugin_is_told_of_from_the_start() -> None:
    breakers = Breakers()
    breakers.add(["A", "B"])
    breakers.hung("B")
    assert {name: health.open for name, health in breakers.health().items()} == {
        "A": False,
        "B": True,
    }
