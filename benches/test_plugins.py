"""Measures plugins in Python through ``kubextend.verbs`` in names mode, beside cheaper plugins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from answers import Check, check_equal_scores, check_names_answer, check_nothing_rejected
from figures import ADDED, Figure, a_node
from kubextend import core
from kubextend.framework import CycleState, Rejection, Status
from kubextend.plugins import HighCommPodFilter
from kubextend.profile import Profile, Profiles
from nodes import RDMA, Cluster
from pairing import Work
from works import NAMES, Watched, verbs_over

_NODES = 5_000
_NO_RDMA = Status.unresolvable("Node does not support RDMA")


class VectorisedFilter:
    """HighCommPodFilter in Python, with one call for all nodes."""

    name = "VectorisedFilter"

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        del state
        if "high-comm" not in pod.labels:
            return []
        return [Rejection(~nodes.matches(f"{RDMA}=true"), _NO_RDMA)]


class PerNodeFilter:
    """HighCommPodFilter in Python, with one call for each node."""

    name = "PerNodeFilter"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        del state
        if "high-comm" in pod.labels and node.label(RDMA) != "true":
            return _NO_RDMA
        return None


class BareCalls(PerNodeFilter):
    """Calls ``PerNodeFilter.filter`` for prepared NodeInfo objects; returns known rejections."""

    name = "BareCalls"

    def __init__(self, cluster: Cluster) -> None:
        self._views: list[core.NodeInfo] = []
        self._rejections = [Rejection(~core.Mask(cluster.has_rdma), _NO_RDMA)]

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        self._views = self._views or nodes.infos()
        judge = self.filter
        said = [judge(state, pod, node) for node in self._views]
        assert len(said) == len(nodes)
        return self._rejections


class FilterOfAll:
    """Keeps all nodes, with one call for all nodes."""

    name = "FilterOfAll"

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        del state, pod, nodes
        return []


class FilterOfEach:
    """Keeps all nodes, with one call for each node."""

    name = "FilterOfEach"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None:
        del state, pod, node


class FilterWithLabel:
    """Keeps all nodes, with one call for each node that reads a label."""

    name = "FilterWithLabel"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None:
        del state, pod
        node.label(RDMA)


class ScoreOfAll:
    """Gives all nodes the score 50, with one call for all nodes."""

    name = "ScoreOfAll"

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        del state, pod
        return [50] * len(nodes)


class ScoreOfEach:
    """Gives all nodes the score 50, with one call for each node."""

    name = "ScoreOfEach"

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        del state, pod, node
        return 50


class ScoreWithLabel:
    """Gives all nodes the score 50, with one call for each node that reads a label."""

    name = "ScoreWithLabel"

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        del state, pod
        node.label(RDMA)
        return 50


@dataclass(frozen=True)
class Grain:
    """A comparison of a plugin with one that does a part of the same work.

    Attributes:
        says: what the difference between the two plugins is.
        verb: the verb that runs the plugins.
        ours: makes the plugin.
        floor: makes the plugin that is the reference, for the nodes of the cluster.
        figure: what is made of their times.
        aim: what it is meant to be at most.
        check: asserts that the answer with either plugin is right.
    """

    says: str
    verb: str
    ours: Callable[[], Any]
    floor: Callable[[Cluster], Any]
    figure: Figure
    aim: float
    check: Check


_PER_NODE = a_node(_NODES)
_GRAINS = [
    Grain(
        "filter, vectorised",
        "filter",
        VectorisedFilter,
        lambda _: HighCommPodFilter(),
        ADDED,
        100,
        check_names_answer,
    ),
    Grain(
        "filter, per node",
        "filter",
        PerNodeFilter,
        BareCalls,
        _PER_NODE,
        1_000,
        check_names_answer,
    ),
    Grain(
        "filter, loop and view",
        "filter",
        FilterOfEach,
        lambda _: FilterOfAll(),
        _PER_NODE,
        300,
        check_nothing_rejected,
    ),
    Grain(
        "filter, label read",
        "filter",
        FilterWithLabel,
        lambda _: FilterOfEach(),
        _PER_NODE,
        300,
        check_nothing_rejected,
    ),
    Grain(
        "score, loop and view",
        "prioritize",
        ScoreOfEach,
        lambda _: ScoreOfAll(),
        _PER_NODE,
        300,
        check_equal_scores,
    ),
    Grain(
        "score, label read",
        "prioritize",
        ScoreWithLabel,
        lambda _: ScoreOfEach(),
        _PER_NODE,
        300,
        check_equal_scores,
    ),
]


@pytest.mark.parametrize("grain", _GRAINS, ids=lambda grain: grain.says)
def test_a_plugin_in_python_beside_less_of_it(
    grain: Grain, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(_NODES)
    body = NAMES.body(cluster)
    ours = _work(grain, grain.ours(), cluster, body)
    floor = _work(grain, grain.floor(cluster), cluster, body)
    compare(
        replace(ours, name=grain.says), floor, _NODES, len(body), grain.aim, figure=grain.figure
    )


def _work(grain: Grain, plugin: Any, cluster: Cluster, body: bytes) -> Work:
    """Check one answer; return the work of calling the verb with this plugin alone."""
    store = core.NodeStore()
    store.replace(cluster.node_list())
    at: dict[str, Any] = (
        {"filter": [plugin]} if grain.verb == "filter" else {"score": [(plugin, 1)]}
    )
    profiles = Profiles.of([Profile("default-scheduler", **at)])
    verbs = verbs_over(profiles, Watched(store))
    call = getattr(verbs, grain.verb)
    answer = call(body)
    grain.check(cluster, answer)
    return Work(plugin.name, lambda: body, call, expected=answer)
