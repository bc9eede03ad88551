"""When a plugin is left uncalled, for how long, and what ends it."""

import itertools

import pytest

from kubextend.profile.breaker import Admission, Breakers

CALL, PROBE, REFUSED = Admission.CALL, Admission.PROBE, Admission.REFUSED


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


Step = tuple[float, str]
# Seconds that pass, then what happens to the plugin, each time with a pod of a new namespace where
# nothing else is said; at the end, what its next call gets.
HISTORIES: dict[str, tuple[list[Step], Admission]] = {
    "nothing ever happened": ([], CALL),
    "two failures": ([(0, "failed"), (1, "failed")], CALL),
    "three failures within ten seconds": ([(0, "failed"), (5, "failed"), (5, "failed")], REFUSED),
    "three failures in more": ([(0, "failed"), (5, "failed"), (5.1, "failed")], CALL),
    "pods of one namespace fail": ([(1, "failed for a")] * 9, CALL),
    "pods of two namespaces fail": ([(1, "failed for a"), (1, "failed for b")] * 4, CALL),
    "another pod passes between failures": (
        [(0, "failed"), (0, "failed"), (0, "succeeded"), (0, "failed"), (0, "failed")],
        CALL,
    ),
    "a pod passes at another extension point": (
        [(0, "failed"), (0, "failed"), (0, "scored"), (0, "failed")],
        REFUSED,
    ),
    "probes fail for pods of two namespaces": (
        [(0, "hung"), (30, "")] + [(1, "probe"), (0, "failed for a"), (0, "failed for b")] * 3,
        PROBE,
    ),
    "probes fail for pods of three namespaces": (
        [(0, "hung"), (30, "")] + [(1, "probe"), (0, "failed")] * 3 + [(29.9, "")],
        REFUSED,
    ),
    "probes failed for pods of three namespaces long ago": (
        [(0, "hung"), (30, "")] + [(1, "probe"), (0, "failed")] * 3 + [(30, "")],
        PROBE,
    ),
    "one hang": ([(0, "hung")], REFUSED),
    "one hang, almost thirty seconds ago": ([(0, "hung"), (29.9, "")], REFUSED),
    "one hang, thirty seconds ago": ([(0, "hung"), (30, "")], PROBE),
    "a probe that is under way": ([(0, "hung"), (30, "probe")], REFUSED),
    "a probe that recovered": ([(0, "hung"), (30, "probe"), (0, "recovered")], CALL),
    "a probe that failed": ([(0, "hung"), (30, "probe"), (0, "failed")], PROBE),
    "a probe that hung": ([(0, "hung"), (30, "probe"), (1, "hung"), (29, "")], REFUSED),
    "a probe that hung long ago": ([(0, "hung"), (30, "probe"), (1, "hung"), (30, "")], PROBE),
    "a probe that told nothing": ([(0, "hung"), (30, "probe"), (0, "unprobed")], PROBE),
    "one failure since it recovered": (
        [(0, "hung"), (30, "probe"), (0, "recovered"), (0, "failed")],
        CALL,
    ),
    "a failure of a call that was under way when it opened": (
        [(0, "failed"), (0, "failed"), (0, "failed"), (5, "failed"), (25, "")],
        PROBE,
    ),
    "two stuck threads": ([(0, "stuck"), (0, "stuck"), (99, "")], REFUSED),
    "one of two came back": ([(0, "stuck"), (0, "stuck"), (0, "came_back")], CALL),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_what_happened_decides_whether_the_plugin_is_called(history: str) -> None:
    steps, expected = HISTORIES[history]
    clock = Clock()
    breakers = Breakers(clock)
    namespaces = map(str, itertools.count())
    events = {
        "": lambda _plugin: None,
        "probe": breakers.admit,
        "failed": lambda plugin: breakers.failed(plugin, "Filter", next(namespaces)),
        "failed for a": lambda plugin: breakers.failed(plugin, "Filter", "a"),
        "failed for b": lambda plugin: breakers.failed(plugin, "Filter", "b"),
        "succeeded": lambda plugin: breakers.succeeded(plugin, "Filter"),
        "scored": lambda plugin: breakers.succeeded(plugin, "Score"),
        "hung": breakers.hung,
        "recovered": breakers.recovered,
        "unprobed": breakers.unprobed,
        "stuck": breakers.stuck,
        "came_back": breakers.came_back,
    }
    for seconds, event in steps:
        clock.now_s += seconds
        events[event]("P")
    assert breakers.admit("P") is expected
    assert breakers.admit("another") is CALL


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
