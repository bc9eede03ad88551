"""Plugins read pods and details at each point; an error names a declaration that is missing."""

from typing import Any

import pytest
from tests.doors.stories import Plugin

from kubextend import core, testing
from kubextend.framework import CycleState, Handle, Rejection, Status

ZONE = "topology.kubernetes.io/zone"
UNTIL = "example.com/maintenance"
WEB = {"app": "web"}
NODES: Any = []
PODS: Any = []
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": WEB},
}


@pytest.fixture(autouse=True)
def _made() -> None:
    """Make the nodes and pods for each test, because testing forgets those of long ago."""
    NODES[:] = [
        testing.make_node("a1", labels={ZONE: "a"}, annotations={UNTIL: "noon"}),
        testing.make_node("a2", labels={ZONE: "a"}),
        testing.make_node("b1", labels={ZONE: "b"}, images=[{"names": ["i:1"], "sizeBytes": 7}]),
        testing.make_node("none"),
    ]
    PODS[:] = [
        testing.make_pod("p1", labels=WEB, node_name="a1"),
        testing.make_pod("p2", labels=WEB, node_name="a2"),
        testing.make_pod("p3", labels=WEB, node_name="b1"),
        testing.make_pod("other", labels=WEB, namespace="elsewhere", node_name="b1"),
    ]


class Spread:
    """PodTopologySpread's hard constraints, with one call for all nodes."""

    name = "Spread"
    needs_pods = True
    needs_details = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def filter_nodes(self, state: Any, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        everything = self._handle.snapshot(state)
        assert everything is not None
        said = []
        for hard in pod.topology_spread_constraints:
            counting: Any = {"namespaces": [pod.namespace], "terminating": False}
            key, count_by = hard.topology_key, everything.pods.count_by
            counts = count_by(key, nodes, hard.selector, among=everything, **counting)
            in_all = count_by(key, everything, hard.selector, **counting)
            least = min((count for count in in_all if count >= 0), default=0)
            full = core.Mask(count < 0 or count + 1 - least > hard.max_skew for count in counts)
            said.append(Rejection(full, Status.unschedulable("topology is skewed")))
        return said


def test_a_zone_is_full_by_all_nodes_of_the_cluster_and_not_by_those_of_the_request() -> None:
    cluster = testing.Cluster(Spread, nodes=NODES, pods=PODS)
    pod = testing.make_pod("new", labels=WEB, topologySpreadConstraints=[SPREAD])
    assert cluster.filter(pod).kept == ("b1",)
    # kube-scheduler's own filters may have left one node.
    assert cluster.filter(pod, ["a1"]).kept == ()
    assert cluster.filter(pod, ["b1", "none"]).kept == ("b1",)


class Everywhere:
    """Notes what it reads at each point."""

    name = "Everywhere"
    needs_pods = True
    needs_details = True
    needs_raw = True

    def __init__(self) -> None:
        self.read: dict[str, list[str]] = {}

    def _look(self, point: str, pod: core.Pod, nodes: core.Nodes) -> None:
        assert pod.images == ["example.com/main:1"]
        assert b'"example.com/main:1"' in pod.raw
        assert nodes.annotations(UNTIL)[0] == nodes[0].annotation(UNTIL) == "noon"
        assert UNTIL.encode() in nodes[0].raw
        names = [each.name for each in nodes[0].pods]
        assert nodes.pods.count(nodes, "app=web")[0] == len(names)
        assert next(iter(nodes)).requested("pods") == len(names)
        self.read[point] = names

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> None:
        self._look("pre_filter", pod, nodes)
        assert state.asked_for_pods is False

    def filter_nodes(self, state: Any, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        assert state.asked_for_pods is True
        self._look("filter_nodes", pod, nodes)
        return []

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> None:
        self._look("pre_score", pod, nodes)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        self._look("score_nodes", pod, nodes)
        return [0] * len(nodes)


def test_pods_and_details_are_there_at_each_point_that_gets_all_nodes() -> None:
    cluster = testing.Cluster(Everywhere, nodes=NODES, pods=PODS)
    pod = testing.make_pod("new")
    cluster.filter(pod)
    cluster.prioritize(pod)
    points = ("pre_filter", "filter_nodes", "pre_score", "score_nodes")
    assert cluster.plugins[0].read == {point: ["p1"] for point in points}


def test_a_filter_of_all_nodes_sees_a_preemption_without_the_victims() -> None:
    def alone(_state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        taken = core.Mask(bool(node.pods) for node in nodes)
        return [Rejection(taken, Status.unschedulable("taken"))]

    plugin = Plugin("Alone", needs_pods=True, filter_nodes=alone)
    cluster = testing.Cluster(plugin, nodes=NODES, pods=PODS)
    pod = testing.make_pod("new")
    assert cluster.filter(pod).kept == ("none",)
    victim = [PODS[0].uid]
    assert cluster.preempt(pod, {"a1": victim, "b1": victim}) == {"a1": victim}


def test_a_filter_of_all_nodes_that_reads_all_pods_judges_each_candidate_alone() -> None:
    def at_most_two(_state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        said = nodes.everything() if len(nodes.pods) > 2 else nodes.nothing()
        return [Rejection(said, Status.unschedulable("the cluster is full"))]

    plugin = Plugin("AtMostTwo", needs_pods=True, filter_nodes=at_most_two)
    cluster = testing.Cluster(plugin, nodes=NODES, pods=PODS)
    p1, p2, p3, other = (each.uid for each in PODS)
    victims = {"a1": [p1], "a2": [p2], "b1": [p3, other]}
    assert cluster.preempt(testing.make_pod("new"), victims) == {"b1": [p3, other]}


@pytest.mark.parametrize(
    ("reads", "declaration"),
    [
        (lambda pod, nodes: pod.volumes, "needs_details"),
        (lambda pod, nodes: nodes.images("i:1"), "needs_details"),
        (lambda pod, nodes: pod.raw, "needs_raw"),
        (lambda pod, nodes: nodes[0].raw, "needs_raw"),
        (lambda pod, nodes: nodes[0].pods, "needs_pods"),
        (lambda pod, nodes: nodes.pods, "needs_pods"),
    ],
)
@pytest.mark.parametrize("point", ["pre_filter", "filter_nodes", "score_nodes"])
def test_a_plugin_that_declares_nothing_fails_with_the_declaration_to_add(
    point: str, reads: Any, declaration: str
) -> None:
    methods: Any = {point: lambda _, pod, nodes: reads(pod, nodes)}
    cluster = testing.Cluster(Plugin("Forgot", **methods), nodes=NODES, pods=PODS)
    (cluster.prioritize if point == "score_nodes" else cluster.filter)(testing.make_pod())
    [failure] = cluster.failures
    assert failure.plugin == "Forgot"
    assert f"set {declaration} = True" in str(failure.__cause__)


def test_the_snapshot_of_the_handle_has_all_nodes_and_shows_pods_if_declared() -> None:
    handle = testing.make_handle(NODES, PODS)
    everything = handle.snapshot()
    assert everything is not None
    assert everything.names == ["a1", "a2", "b1", "none"]
    assert [len(node.pods) for node in everything] == [1, 1, 2, 0]
    undeclared = handle.of("Forgot", needs_pods=False).snapshot()
    assert undeclared is not None
    with pytest.raises(RuntimeError, match="set needs_pods = True"):
        _ = undeclared[0].pods


def test_the_snapshot_for_an_attempt_has_the_pods_that_the_attempt_sees() -> None:
    handle = testing.make_handle(NODES, PODS)
    state = CycleState()
    without = handle.pods()
    assert without is not None
    state.pods_seen = without.before([("a1", [PODS[0].uid])])
    seen = handle.snapshot(state)
    assert seen is not None
    assert [len(node.pods) for node in seen] == [0, 1, 2, 0]
    assert state.asked_for_pods
