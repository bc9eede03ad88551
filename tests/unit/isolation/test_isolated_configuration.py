"""``isolation: process``, from the configuration to the answer of a verb."""

import asyncio
import json
from typing import Any

import pytest
from isolation_world import Diary, Zones, full, node, pid_of

from kubextend import app, config
from kubextend.errors import ConfigError, KubextendError
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.plugins import IN_TREE
from kubextend.profile.isolation import IsolatedPlugin


class NeedsPods(Zones):
    needs_pods = True


class OfTheScript(Zones):
    pass


OfTheScript.__module__ = "__main__"


def local_class() -> type[Any]:
    class Local(Zones):
        pass

    return Local


def local_args() -> type[Any]:
    class Local(Zones.Args):
        pass

    return Local


class WithLocalArgs(Zones):
    Args = local_args()


NOT_THERE = "cannot be imported there: {} is not at the top of a module"
HERE = __name__

WHY_NOT: dict[str, tuple[type[Any], str]] = {
    "a class of a module": (Zones, ""),
    "one with a handle": (Diary, ""),
    "one that looks at pods": (
        NeedsPods,
        "looks at the pods on nodes, which are not told to other processes",
    ),
    "one of a function": (
        local_class(),
        NOT_THERE.format(f"local_class.<locals>.Local of {HERE}"),
    ),
    "one of a script": (OfTheScript, NOT_THERE.format("OfTheScript of __main__")),
    "one with arguments of a function": (
        WithLocalArgs,
        NOT_THERE.format(f"local_args.<locals>.Local of {HERE}"),
    ),
    "one of the core": (IN_TREE["RdmaAware"].plugin_class, "runs in the core, which does not hang"),
    "one of the core with arguments": (
        IN_TREE["LabelMatch"].plugin_class,
        "runs in the core, which does not hang",
    ),
    "an in-tree one in Python": (IN_TREE["NetworkTraffic"].plugin_class, ""),
}


@pytest.mark.parametrize("case", WHY_NOT)
def test_a_plugin_says_why_it_cannot_have_a_process(case: str) -> None:
    plugin_class, why = WHY_NOT[case]
    assert RegisteredPlugin(plugin_class.name, plugin_class).why_not_isolated == why


def tree(plugin: str, **entry: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "outOfTree": [f"isolation_world:{name}" for name in ("Zones", "Dies", "Unmade")],
        "scoreScale": "strict10",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
                "pluginConfig": [{"name": plugin, "isolation": "process", **entry}],
            }
        ],
    }


def build(plugin: str, **entry: Any) -> app.App:
    return app.build(config.parse(tree(plugin, **entry), known=IN_TREE))


def test_a_configured_plugin_answers_from_its_process() -> None:
    built = build("Zones", args={"zone": "b"})
    (plugin,) = built.verbs.profiles.plugins
    assert isinstance(plugin, IsolatedPlugin)
    assert pid_of(plugin)
    built.follow()
    asyncio.run(built.start())
    nodes = [node("n0"), node("n1", "b"), node("n2", "b", unschedulable=True)]
    answer = json.loads(built.verbs.filter(full(nodes)))
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["n1"]
    assert answer["FailedNodes"] == {"n0": "wrong zone"}
    assert answer["FailedAndUnresolvableNodes"] == {"n2": "cordoned"}
    scores = json.loads(built.verbs.prioritize(full([node("n0"), node("n1", "ddd")])))
    # 7 of 21 are 33 of 100, and 3.3 of 10.
    assert scores == [{"Host": "n0", "Score": 3}, {"Host": "n1", "Score": 10}]
    built.stop()


def test_a_plugin_that_cannot_be_made_there_ends_the_start() -> None:
    with pytest.raises(KubextendError, match='"Unmade" cannot be made in a process of its own'):
        build("Unmade")


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("RdmaAware", "cannot be process: RdmaAware runs in the core, which does not hang"),
        ("Coscheduling", "cannot be process: Coscheduling is enabled at "),
    ],
)
def test_what_cannot_be_carried_is_refused_where_it_stands(plugin: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config.parse({**tree(plugin), "cluster": {}}, known=IN_TREE)
    (issue,) = raised.value.issues
    assert issue.path == "profiles[0].pluginConfig[0].isolation"
    assert issue.message.startswith(message)
    assert issue.hint


def test_the_same_plugin_of_two_profiles_has_two_processes() -> None:
    both = tree("Dies")
    (one,) = both["profiles"]
    both["profiles"] = [one, {**one, "schedulerName": "other"}]
    built = app.build(config.parse(both, known=IN_TREE))
    first, second = built.verbs.profiles.plugins
    assert isinstance(first, IsolatedPlugin)
    assert isinstance(second, IsolatedPlugin)
    assert pid_of(first) != pid_of(second)
    built.stop()
