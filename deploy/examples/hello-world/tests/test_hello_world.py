import pytest
from hello_world import HelloWorldPlugin
from hello_world.at_once import HelloWorldAtOnce

from kubextend import testing

ARGS = {"xxx": "disk", "yyy": "ssd", "zzz": 25}
VALUES = {"disk": ["ssd", "hdd", "tape", ""]}
PLUGINS = [HelloWorldPlugin, HelloWorldAtOnce]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_wanted_value_is_best_and_another_one_better_than_none(plugin: type) -> None:
    nodes = {"ssd": {"disk": "ssd"}, "hdd": {"disk": "hdd"}, "bare": {}}
    scores = testing.run_score(plugin, testing.make_pod(), nodes, args=ARGS)
    assert scores == {"ssd": 100, "hdd": 25, "bare": 0}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_arguments_it_looks_for_hello_world(plugin: type) -> None:
    nodes = {"greets": {"hello": "world"}, "bare": {}}
    assert testing.run_score(plugin, testing.make_pod(), nodes) == {"greets": 100, "bare": 0}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_it_keeps_the_rules_of_the_framework(plugin: type) -> None:
    testing.conformance(plugin, args=ARGS, labels=VALUES)


def test_both_forms_give_equal_answers_on_1000_generated_cases() -> None:
    different = testing.assert_same_answers(
        HelloWorldPlugin, HelloWorldAtOnce, cases=1000, args=ARGS, labels=VALUES
    )
    assert different > 100
