import pytest
from queue_sort import ShortestFirst

from kubextend import testing

SECONDS = "example.com/expected-seconds"


def waiting(name: str, seconds: str | None = None, **fields: object) -> testing.PodLike:
    annotations = None if seconds is None else {SECONDS: seconds}
    return testing.make_pod(name, annotations=annotations, **fields)


def test_less_work_goes_first_and_unknown_work_last() -> None:
    pods = [waiting("unknown"), waiting("hour", "3600"), waiting("minute", "60.5")]
    assert testing.queue_order(ShortestFirst, pods) == ["minute", "hour", "unknown"]


def test_priority_counts_before_work_and_time_after_it() -> None:
    pods = [
        waiting("late", "60", creation_timestamp="2030-01-01T00:00:09Z"),
        waiting("early", "60", creation_timestamp="2030-01-01T00:00:01Z"),
        waiting("important", "3600", priority=10),
    ]
    assert testing.queue_order(ShortestFirst, pods) == ["important", "early", "late"]


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e999"])
def test_what_is_no_number_of_seconds_counts_as_unknown(text: str) -> None:
    pods = [waiting("odd", text), waiting("day", "86400")]
    assert testing.queue_order(ShortestFirst, pods) == ["day", "odd"]


@pytest.mark.parametrize(("seconds", "held"), [("60", False), ("61", True), (None, False)])
def test_work_that_takes_too_long_is_held_back(seconds: str | None, held: bool) -> None:
    plugin = ShortestFirst(ShortestFirst.Args(longest_seconds=60))
    status = plugin.pre_enqueue(waiting("pod", seconds))
    assert (status is not None) is held


def test_it_keeps_the_rules_of_the_framework() -> None:
    testing.conformance(ShortestFirst)
