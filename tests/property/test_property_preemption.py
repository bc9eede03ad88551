"""preempt on random clusters: a candidate is offered exactly where its victims alone help.

Two plugins count pods of an app: one on each node, one in each zone, which sees every node. The
model counts over tuples, and each verdict is tried out: the victims of one candidate leave a copy
of the cluster, and filter is asked about that node. Victims may be groups, which have pods on other
nodes too.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.doors.wire import Wire

from kubextend import core, testing
from kubextend.framework import CycleState, Handle, Rejection, Status

CLUSTERS = 300
ZONE = "zone"
FULL = Status.unschedulable("enough pods of this app")
APPS = ("web", "db", "none")


@dataclass(frozen=True)
class Placed:
    name: str
    app: str
    node: str


@dataclass(frozen=True)
class Cluster:
    """Nodes with their zones, placed pods, how many of an app may be together, and candidates.

    A pod is let in only if at least ``fewest_in_zone`` pods of its app are in the zone.
    """

    zones: Mapping[str, str]
    placed: Sequence[Placed]
    most_in_zone: int
    most_on_node: int
    victims: Mapping[str, Sequence[str]]
    fewest_in_zone: int = 0

    def without(self, names: Sequence[str]) -> "Cluster":
        return replace(self, placed=[pod for pod in self.placed if pod.name not in names])

    def lets_in(self, app: str, node: str) -> bool:
        """Whether one more pod of an app may run on a node: the model."""
        same = [pod for pod in self.placed if pod.app == app]
        in_zone = [pod for pod in same if self.zones[pod.node] == self.zones[node]]
        on_node = [pod for pod in same if pod.node == node]
        few = self.fewest_in_zone <= len(in_zone) < self.most_in_zone
        return few and len(on_node) < self.most_on_node


def random_cluster(rng: random.Random) -> Cluster:
    zones = {f"n{number}": rng.choice("abc") for number in range(rng.randint(1, 8))}
    names = list(zones)
    placed = [
        Placed(f"p{number}", rng.choice(APPS), rng.choice(names))
        for number in range(rng.randint(0, 20))
    ]
    victims = {}
    for node in rng.sample(names, rng.randint(1, len(names))):
        there = [pod.name for pod in placed if pod.node == node]
        if there:
            victims[node] = rng.sample(there, rng.randint(1, len(there)))
    return Cluster(zones, placed, rng.randint(1, 4), rng.randint(1, 3), victims)


def uid_of(name: str) -> str:
    return f"uid-of-{name}"


def uids(names: Sequence[str]) -> list[str]:
    return [uid_of(name) for name in names]


class AcrossNodes:
    """At most and at least so many pods of an app in a zone, counted over all watched nodes."""

    name = "AcrossNodes"
    needs_pods = True

    def __init__(self, handle: Handle, cluster: Cluster, *, by_label: bool) -> None:
        self._handle = handle
        self._most = cluster.most_in_zone
        self._fewest = cluster.fewest_in_zone
        self._by_label = by_label

    def same(self, state: CycleState, pod: core.Pod, names: Sequence[str]) -> list[core.Pod]:
        if self._by_label:
            return self._handle.labelled_pods("default", "app", pod.labels["app"], state)
        pods = self._handle.pods(state)
        assert pods is not None
        there = (each for name in names for each in pods.pods_on(name))
        return [each for each in there if each.labels == pod.labels]

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        every = self._handle.nodes()
        assert every is not None
        zones = dict(zip(every.names, every.labels(ZONE), strict=True))
        counts = Counter(zones[each.node_name] for each in self.same(state, pod, every.names))
        fits = range(self._fewest, self._most)
        full = [counts[zone] not in fits for zone in nodes.labels(ZONE)]
        return [Rejection(core.Mask(full), FULL)]


class OnNode:
    """At most so many pods of an app on a node, counted in the view of that node."""

    name = "OnNode"
    needs_pods = True

    def __init__(self, most: int) -> None:
        self._most = most
        self.asked_about: list[str] = []

    def filter(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        self.asked_about.append(node.name)
        same = [each for each in node.pods if each.labels == pod.labels]
        return FULL if len(same) >= self._most else None


def counting(cluster: Cluster, *, across_nodes: bool = True, by_label: bool = False) -> Any:
    """Return what ``testing.Cluster`` and ``Wire`` take: the plugins; one may be left out."""

    class Bound(AcrossNodes):
        def __init__(self, handle: Handle) -> None:
            super().__init__(handle, cluster, by_label=by_label)

    return [OnNode(cluster.most_on_node), *([Bound] if across_nodes else [])]


def parts(cluster: Cluster) -> dict[str, Any]:
    """Return the nodes and the pods of a cluster."""
    pods = [
        testing.pod_manifest(
            each.name, uid=uid_of(each.name), labels={"app": each.app}, node_name=each.node
        )
        for each in cluster.placed
    ]
    nodes = [testing.node_manifest(name, labels={ZONE: of}) for name, of in cluster.zones.items()]
    return {"nodes": nodes, "pods": pods}


def runner_of(cluster: Cluster, **options: Any) -> testing.Cluster:
    return testing.Cluster(*counting(cluster, **options), **parts(cluster))


def incoming(app: str) -> dict[str, Any]:
    return testing.pod_manifest("incoming", labels={"app": app})


@pytest.mark.slow
@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("hundred", range(CLUSTERS // 100))
def test_a_candidate_is_offered_exactly_where_its_own_victims_let_the_pod_in(
    hundred: int, by_label: bool
) -> None:
    offered = refused = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        rng = random.Random(seed)
        cluster, app = random_cluster(rng), rng.choice(APPS)
        victims = {node: uids(names) for node, names in cluster.victims.items()}
        answer = runner_of(cluster, by_label=by_label).preempt(incoming(app), victims)
        for node, names in cluster.victims.items():
            left = cluster.without(names)
            helps = left.lets_in(app, node)
            assert bool(runner_of(left).filter(incoming(app), [node]).kept) is helps, (seed, node)
            assert (node in answer) is helps, (seed, node)
            offered += helps
            refused += not helps
        assert all(answer[node] == victims[node] for node in answer)
    assert offered > 50
    assert refused > 50


def test_a_candidate_whose_victims_help_another_node_alone_is_not_offered() -> None:
    placed = [Placed("web", "web", "a1"), Placed("low", "none", "a2")]
    cluster = Cluster({"a1": "a", "a2": "a", "b1": "b"}, placed, 1, 9, {})
    victims = {"a1": uids(["web"]), "a2": uids(["low"])}
    assert runner_of(cluster).preempt(incoming("web"), victims) == {"a1": uids(["web"])}


def test_where_no_filter_sees_another_node_all_candidates_are_judged_in_one_attempt() -> None:
    placed = [Placed(f"p{number}", "web", f"n{number}") for number in range(3)]
    cluster = Cluster({f"n{number}": "a" for number in range(3)}, placed, 9, 1, {})
    victims = {pod.node: uids([pod.name]) for pod in placed}
    runner = runner_of(cluster, across_nodes=False)
    assert runner.preempt(incoming("web"), victims) == victims
    assert sorted(runner.plugins[0].asked_about) == ["n0", "n1", "n2"]


def random_groups(rng: random.Random) -> Cluster:
    """A cluster whose pods are in groups; the victims of a candidate are some groups on it."""
    cluster = random_cluster(rng)
    group_of = {pod.name: rng.randint(0, 9) for pod in cluster.placed}
    victims = {}
    for node in cluster.zones:
        there = {group_of[pod.name] for pod in cluster.placed if pod.node == node}
        if there and rng.random() < 0.7:
            chosen = set(rng.sample(sorted(there), rng.randint(1, len(there))))
            victims[node] = [pod.name for pod in cluster.placed if group_of[pod.name] in chosen]
    return replace(cluster, victims=victims, fewest_in_zone=rng.randint(0, 1))


def request_with_groups(cluster: Cluster, app: str) -> bytes:
    where = {pod.name: pod.node for pod in cluster.placed}
    whole = {
        node: {
            "Pods": [
                {"metadata": {"uid": uid_of(name)}, "spec": {"nodeName": where[name]}}
                for name in names
            ]
        }
        for node, names in cluster.victims.items()
    }
    return json.dumps({"Pod": incoming(app), "NodeNameToVictims": whole}).encode()


@pytest.mark.slow
@pytest.mark.parametrize("across_nodes", [False, True])
def test_what_kube_scheduler_evicts_of_groups_lets_the_pod_in_on_each_node_that_it_may_choose(
    *, across_nodes: bool
) -> None:
    """Where preempt abstains, kube-scheduler evicts whole groups; else it evicts what is named."""

    abstained = named = cut = 0
    for seed in range(CLUSTERS):
        rng = random.Random(seed)
        cluster, app = random_groups(rng), rng.choice(APPS)
        where = {uid_of(pod.name): pod.node for pod in cluster.placed}
        if not across_nodes:
            cluster = replace(cluster, most_in_zone=1000, fewest_in_zone=0)
        plugins = counting(cluster, across_nodes=across_nodes)
        server = Wire(*plugins, settings={"extender.preemptGroups": True}, **parts(cluster))
        answer = server.post("/preempt", request_with_groups(cluster, app))
        abstains = answer.status == 501
        if abstains:
            abstained += 1
            evicted = {node: uids(names) for node, names in cluster.victims.items()}
        else:
            kept = answer.json["NodeNameToMetaVictims"]
            evicted = {node: [pod["UID"] for pod in of["Pods"]] for node, of in kept.items()}
            assert all(where[uid] == node for node, gone in evicted.items() for uid in gone), seed
            named += len(evicted)
            cut += sum(len(gone) < len(cluster.victims[node]) for node, gone in evicted.items())
        for node, gone in evicted.items():
            left = cluster.without([uid.removeprefix("uid-of-") for uid in gone])
            assert left.lets_in(app, node), (seed, node)
        whole = {node: cluster.without(names) for node, names in cluster.victims.items()}
        if whole and all(left.lets_in(app, node) for node, left in whole.items()):
            assert abstains or all(
                len(gone) == len(cluster.victims[node]) for node, gone in evicted.items()
            ), seed
    assert abstained > 10
    assert named > 50
    assert cut > 10
