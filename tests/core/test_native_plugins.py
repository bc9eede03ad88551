"""Native plugins: made by name or from rules, called with a pod and nodes."""

import pytest
from tests.doors import core_objects as world

from kubextend import core

RDMA = {"node.kubernetes.io/rdma-enabled": "true"}


def outcome(plugin: core.NativePlugin, pod: core.Pod, nodes: core.Nodes) -> list[str | None]:
    """The first reason of each node, None where it passes."""
    rejections = plugin.filter_nodes(pod, nodes)
    assert all(unresolvable for _, _, unresolvable in rejections)
    return [
        next((reason for mask, reason, _ in rejections if mask[i]), None) for i in range(len(nodes))
    ]


def test_label_match_filters_and_scores_by_its_rules() -> None:
    plugin = core.NativePlugin.label_match(
        filters=[("app=web", "zone in (x,y)", "outside"), ("", "!old", "too old")],
        scores=[("", "zone", 40), ("app=web", "zone=x", 60)],
    )
    nodes = world.nodes_of(
        world.node("a", {"zone": "x"}), world.node("b", {"old": "", "zone": "z"}), world.node("c")
    )
    web, other = world.pod_of({"app": "web"}), world.pod_of()
    assert outcome(plugin, web, nodes) == [None, "outside", "outside"]
    assert outcome(plugin, other, nodes) == [None, "too old", None]
    assert list(plugin.score_nodes(web, nodes)) == [100, 40, 0]
    assert list(plugin.score_nodes(other, nodes)) == [40, 40, 0]
    view = plugin.score_nodes(web, nodes)
    assert (view.format, view.readonly) == ("q", True)


def test_a_name_that_no_plugin_has_is_told_those_there_are() -> None:
    for name in ("", "LabelMatch", "NodeName"):
        with pytest.raises(ValueError, match=r"there are HighCommPodFilter, RdmaAware$"):
            core.NativePlugin.named(name)


@pytest.mark.parametrize(
    ("filters", "scores", "error"),
    [
        ([("a in", "", "r")], [], ValueError),
        ([("", "a in", "r")], [], ValueError),
        ([], [("", "a>b", 1)], ValueError),
        ([], [("", "", 1 << 64)], OverflowError),
        ([], [("", "", 0.5)], TypeError),
        ([("", "")], [], ValueError),
        (7, [], TypeError),
    ],
)
def test_rules_that_cannot_be_are_refused(
    filters: list[tuple[str, str, str]], scores: list[tuple[str, str, int]], error: type[Exception]
) -> None:
    with pytest.raises(error):
        core.NativePlugin.label_match(filters, scores)


def test_a_plugin_without_score_says_so_in_the_schedulers_words() -> None:
    plugin = core.NativePlugin.named("RdmaAware")
    with pytest.raises(ValueError, match='plugin "RdmaAware" does not extend ScorePlugin plugin'):
        plugin.score_nodes(world.pod_of(), world.nodes_of())
