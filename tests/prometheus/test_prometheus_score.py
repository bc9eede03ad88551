import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.prometheus import World, args_of, numbers, scores_of

from kubextend.plugins import PrometheusScore

UNKNOWN = {"d": "NaN", "e": "-Inf"}
"""And f, of which Prometheus says nothing."""


def plugin_in(world: World, **given: object) -> PrometheusScore:
    return PrometheusScore(args_of(PrometheusScore.Args, query="load", **given), world.handle)


@pytest.mark.parametrize(
    ("given", "values", "expected"),
    [
        ({}, (10, 12, 20), (0, 20, 100)),
        ({}, (0, 0.005, 1), (0, 1, 100)),
        ({}, (0, 0.00499, 1), (0, 0, 100)),
        ({}, (7, 7, 7), (50, 50, 50)),
        ({"fallbackScore": 10}, (7, 7, 7), (10, 10, 10)),
        ({}, (-1, 0, 10), (50, 0, 100)),
        ({"allowNegative": True}, (-10, 0, 10), (0, 50, 100)),
        ({"allowNegative": True}, (-1e308, 0, 1e308), (0, 50, 100)),
        ({"direction": "lower"}, (10, 12, 20), (100, 80, 0)),
        ({"normalization": "none"}, (99.5, 100.4, 100.5), (100, 100, 50)),
        ({"normalization": "none"}, (-0.2, -1, 1e300), (50, 50, 50)),
        ({"normalization": "none", "allowNegative": True}, (-0.2, -1, 3), (0, 50, 3)),
        ({"normalization": "none", "direction": "lower"}, (0, 42.4, 100), (100, 58, 0)),
        ({"normalization": "none", "fallbackScore": 0}, (1, 2, 101), (1, 2, 0)),
    ],
)
def test_numbers_become_scores_as_the_arguments_say(
    given: dict[str, object], values: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    world = World()
    plugin = plugin_in(world, **given)
    known = dict(zip("abc", values, strict=True))
    world.says(numbers(known | UNKNOWN))
    fallback = given.get("fallbackScore", 50)
    assert scores_of(plugin, list("abcdef")) == dict(
        zip("abc", expected, strict=True)
    ) | dict.fromkeys("def", fallback)


def test_the_extremes_are_those_of_the_nodes_at_hand() -> None:
    world = World()
    plugin = plugin_in(world, fallbackScore=30)
    world.says(numbers({"a": 1, "b": 3, "elsewhere": 100}))
    assert scores_of(plugin, ["a", "b"]) == {"a": 0, "b": 100}
    # Old numbers leave all nodes with the fallback.
    world.clock.now += 121
    assert scores_of(plugin, ["a", "b"]) == {"a": 30, "b": 30}


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats()),
    st.sampled_from(["higher", "lower"]),
    st.sampled_from(["minmax", "none"]),
    st.booleans(),
)
def test_scores_are_in_range_and_better_numbers_never_score_worse(
    values: dict[str, float], direction: str, normalization: str, negative: bool
) -> None:
    world = World()
    given = {"direction": direction, "normalization": normalization, "allowNegative": negative}
    plugin = plugin_in(world, **given)
    world.says(numbers(values))
    scores = scores_of(plugin, list("abcdefgh"))
    assert all(type(score) is int and 0 <= score <= 100 for score in scores.values())
    believed = {node: v for node, v in values.items() if 0 <= v <= 100}
    ranked = sorted(believed, key=lambda node: believed[node], reverse=direction == "lower")
    in_order = [scores[node] for node in ranked]
    assert in_order == sorted(in_order)
