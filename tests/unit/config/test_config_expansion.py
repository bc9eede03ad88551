"""Which plugins run where, in which order.

The expected orders are those of kubernetes v1.36
pkg/scheduler/framework/runtime/framework_test.go TestNewFrameworkMultiPointExpansion.
"""

from typing import Any

import pytest
from config_world import Parse, document

ALL = ("test-plugin",)
EVERYWHERE = {
    "queueSort": ALL,
    "preFilter": ALL,
    "filter": ALL,
    "postFilter": ALL,
    "preScore": ALL,
    "score": ALL,
    "reserve": ALL,
    "permit": ALL,
    "preBind": ALL,
    "bind": ALL,
    "postBind": ALL,
    "placementGenerate": ALL,
    "placementScore": ALL,
}
BOTH = ("test-plugin", "score-plugin-1")


def enabled(*plugins: str | tuple[str, int]) -> dict[str, Any]:
    entries = [
        {"name": plugin} if isinstance(plugin, str) else {"name": plugin[0], "weight": plugin[1]}
        for plugin in plugins
    ]
    return {"enabled": entries}


def disabled(*names: str) -> dict[str, Any]:
    return {"disabled": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("plugins", "points"),
    [
        pytest.param({"multiPoint": enabled("test-plugin")}, EVERYWHERE, id="plugin expansion"),
        pytest.param(
            {
                "multiPoint": enabled("test-plugin"),
                "preScore": disabled("test-plugin"),
                "score": disabled("test-plugin"),
            },
            {point: names for point, names in EVERYWHERE.items() if "core" not in point[-5:]}
            | {"placementScore": ALL},
            id="disable MultiPoint plugin at some extension points",
        ),
        pytest.param(
            {"multiPoint": enabled("test-plugin", "score-plugin-1")},
            EVERYWHERE | {"preScore": BOTH, "score": BOTH},
            id="Multiple MultiPoint plugins",
        ),
        pytest.param(
            {
                "multiPoint": enabled("test-plugin", "score-plugin-1"),
                "preScore": disabled("*"),
            },
            {point: names for point, names in EVERYWHERE.items() if point != "preScore"}
            | {"score": BOTH},
            id="disable MultiPoint extension",
        ),
        pytest.param(
            {
                "multiPoint": enabled(
                    "score-with-normalize-plugin-1", "test-plugin", "score-plugin-1"
                ),
                "score": enabled("score-plugin-1", "test-plugin"),
            },
            EVERYWHERE
            | {
                "preScore": BOTH,
                "score": ("score-plugin-1", "test-plugin", "score-with-normalize-plugin-1"),
            },
            id="Reorder MultiPoint plugins (specified extension takes precedence)",
        ),
        pytest.param(
            {
                "multiPoint": enabled("test-plugin", "score-plugin-1"),
                "score": enabled("score-with-normalize-plugin-1", "score-plugin-1", "test-plugin"),
            },
            EVERYWHERE
            | {
                "preScore": BOTH,
                "score": ("score-plugin-1", "test-plugin", "score-with-normalize-plugin-1"),
            },
            id="specified extension only takes precedence when it exists in MultiPoint",
        ),
        pytest.param(
            {
                "multiPoint": enabled("queue-sort-plugin", "bind-plugin", "score-plugin-1")
                | disabled("*")
            },
            {
                "queueSort": ("queue-sort-plugin",),
                "bind": ("bind-plugin",),
                "preScore": ("score-plugin-1",),
                "score": ("score-plugin-1",),
            },
            id="disable and enable MultiPoint plugins with '*'",
        ),
        pytest.param(
            {"multiPoint": enabled("score-plugin-1") | disabled("score-plugin-1")},
            {"preScore": ("score-plugin-1",), "score": ("score-plugin-1",)},
            id="disable and enable MultiPoint plugin by name",
        ),
        pytest.param(
            {
                "multiPoint": enabled("score-plugin-1", "score-with-normalize-plugin-1"),
                "score": enabled("score-plugin-1") | disabled("score-plugin-1"),
            },
            {
                "preScore": ("score-plugin-1",),
                "score": ("score-with-normalize-plugin-1", "score-plugin-1"),
            },
            id="a plugin enabled and disabled at a point runs after those of MultiPoint",
        ),
    ],
)
def test_plugins_run_where_and_in_the_order_in_which_kube_scheduler_runs_them(
    parse: Parse, plugins: dict[str, Any], points: dict[str, tuple[str, ...]]
) -> None:
    # A cluster, since the plugin of kube-scheduler's tests implements bind as well.
    (profile,) = parse(document(cluster={}, profiles=[{"plugins": plugins}])).resolved
    assert {
        point: tuple(plugin.name for plugin in run) for point, run in profile.points.items()
    } == points


@pytest.mark.parametrize(
    ("plugins", "weights"),
    [
        ({"multiPoint": enabled(("test-plugin", 5))}, {"test-plugin": 5}),
        ({"score": enabled("score-plugin-1")}, {"score-plugin-1": 1}),
        (
            {
                "multiPoint": enabled(("test-plugin", 9), "score-plugin-1"),
                "score": enabled(("score-plugin-1", 5), ("test-plugin", 3)),
            },
            {"score-plugin-1": 5, "test-plugin": 3},
        ),
        (
            {"multiPoint": enabled(("score-plugin-1", 9)), "score": enabled("score-plugin-1")},
            {"score-plugin-1": 1},
        ),
    ],
)
def test_the_weight_of_the_score_point_counts_before_that_of_multi_point(
    parse: Parse, plugins: dict[str, Any], weights: dict[str, int]
) -> None:
    (profile,) = parse(document(cluster={}, profiles=[{"plugins": plugins}])).resolved
    assert {plugin.name: plugin.weight for plugin in profile.at("score")} == weights
    assert all(plugin.weight == 1 for plugin in profile.at("filter"))


def test_a_point_without_plugins_is_empty_and_no_error(parse: Parse) -> None:
    (profile,) = parse(document()).resolved
    assert profile.at("permit") == ()
