from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.prometheus import World, answer, args_of, numbers, scores_of, series

from kubextend.plugins import NetworkTraffic
from kubextend.prometheus import PrometheusError


def plugin_in(world: World, **given: object) -> NetworkTraffic:
    args = args_of(NetworkTraffic.Args, networkInterface="eth0", **given)
    return NetworkTraffic(args, world.handle)


@pytest.mark.parametrize(
    ("traffic", "expected"),
    [
        ({"a": 0, "b": 1000}, {"a": 100, "b": 0}),
        # 100 - 333 * 100 / 1000 in whole numbers, as Go divides: 100 - 33.
        ({"a": 333, "b": 1000}, {"a": 67, "b": 0}),
        ({"a": 1, "b": 1000}, {"a": 100, "b": 0}),
        ({"a": 500, "b": 500}, {"a": 0, "b": 0}),
        ({"a": 0.4, "b": 0.4}, {"a": 100, "b": 100}),
        ({"a": 500, "b": 1000, "far away": 10**9}, {"a": 50, "b": 0}),
        ({"a": 9e15, "b": 1e16}, {"a": 10, "b": 0}),
        ({"a": 0}, {"a": 100, "b": 50}),
        ({"a": 100, "b": "NaN"}, {"a": 0, "b": 50}),
        ({"a": 100, "b": -0.2}, {"a": 0, "b": 50}),
        ({"a": 100, "b": "1e300"}, {"a": 0, "b": 50}),
        ({}, {"a": 50, "b": 50}),
    ],
)
def test_less_traffic_is_better_and_the_unknown_is_neutral(
    traffic: dict[str, object], expected: dict[str, int]
) -> None:
    world = World()
    plugin = plugin_in(world)
    world.says(numbers(traffic))
    assert scores_of(plugin, ["a", "b"]) == expected
    assert scores_of(plugin, []) == {}


def test_two_series_of_one_node_make_it_neutral() -> None:
    world = World()
    plugin = plugin_in(world)
    one, other = series("1", instance="a:9100"), series("2", instance="a:9101")
    world.says(answer(one, other, series("10", instance="b")))
    assert scores_of(plugin, ["a", "b"]) == {"a": 50, "b": 0}


def test_the_last_traffic_counts_until_its_time_to_live_and_then_all_are_equal() -> None:
    world = World()
    plugin = plugin_in(world, timeToLive="30s", fallbackScore=40)
    assert scores_of(plugin, ["a", "b"]) == {"a": 40, "b": 40}
    world.says(numbers({"a": 0, "b": 8}))
    world.says(PrometheusError("connection refused"))
    world.clock.now += 30
    assert scores_of(plugin, ["a", "b"]) == {"a": 100, "b": 0}
    world.clock.now += 0.001
    assert scores_of(plugin, ["a", "b"]) == {"a": 40, "b": 40}
    world.says(numbers({"a": 8, "b": 0}))
    assert scores_of(plugin, ["a", "b"]) == {"a": 0, "b": 100}


def test_scoring_asks_nobody() -> None:
    world = World()
    scores_of(plugin_in(world), ["a", "b"])
    assert world.prometheus.asked == []


def oracle(traffic: dict[str, int]) -> dict[str, int]:
    """The tutorial's formula with fractions instead of machine numbers."""
    highest = max(traffic.values())
    if not highest:
        return dict.fromkeys(traffic, 100)
    return {node: 100 - int(Fraction(100 * rate, highest)) for node, rate in traffic.items()}


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**12), min_size=1))
def test_the_formula_holds_for_any_traffic_in_any_order(traffic: dict[str, int]) -> None:
    world = World()
    plugin = plugin_in(world)
    world.says(numbers(traffic))
    names = sorted(traffic)
    assert scores_of(plugin, names) == scores_of(plugin, names[::-1]) == oracle(traffic)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats()))
def test_any_number_gives_integers_in_range(traffic: dict[str, float]) -> None:
    world = World()
    plugin = plugin_in(world)
    world.says(numbers(traffic))
    scores = scores_of(plugin, list("abcdefgh"))
    assert all(type(score) is int and 0 <= score <= 100 for score in scores.values())
