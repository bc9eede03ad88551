"""Pods that are nominated to a node keep its room from pods that come after them.

The model is kube-scheduler's RunFilterPluginsWithNominatedPods in its plainest form: each node by
itself, with the pods that are nominated to that node and without them. Three plugins count: pods
on a node, CPU on a node, and pods in a zone, which takes a look at other nodes.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.doors.wire import Wire

from kubextend import core, testing
from kubextend.framework import CycleState, Handle, PreFilterResult, Rejection, Status

ZONE = "zone"
FULL = Status.unschedulable("full")
HUNDREDS = 3


@dataclass(frozen=True)
class Pod:
    name: str
    app: str = "web"
    cpu: int = 1
    priority: int | None = None
    node: str = ""
    nominated: str = ""

    def manifest(self) -> dict[str, Any]:
        manifest = testing.pod_manifest(
            self.name,
            uid=f"uid-of-{self.name}",
            labels={"app": self.app},
            requests={"cpu": self.cpu},
            node_name=self.node,
            priority=self.priority,
        )
        if self.nominated:
            manifest["status"]["nominatedNodeName"] = self.nominated
        return manifest


@dataclass(frozen=True)
class Cluster:
    zones: dict[str, str]
    pods: Sequence[Pod]
    most_on_node: int = 9
    most_cpu: int = 99
    most_in_zone: int = 99
    victims: dict[str, list[str]] = field(default_factory=dict)

    def fits(self, pod: Pod, node: str) -> bool:
        on_node = [each for each in self.pods if each.node == node]
        same = [each for each in self.pods if each.app == pod.app and each.node]
        in_zone = [each for each in same if self.zones[each.node] == self.zones[node]]
        return (
            len(on_node) < self.most_on_node
            and sum(each.cpu for each in on_node) + pod.cpu <= self.most_cpu
            and len(in_zone) < self.most_in_zone
        )

    def lets_in(self, pod: Pod, node: str) -> bool:
        first = [
            replace(other, node=node)
            for other in self.pods
            if not other.node
            and other.nominated == node
            and other.name != pod.name
            and (other.priority or 0) >= (pod.priority or 0)
        ]
        return self.fits(pod, node) and self.with_pods(first).fits(pod, node)

    def with_pods(self, more: Sequence[Pod]) -> "Cluster":
        names = {pod.name for pod in more}
        return replace(self, pods=[*(p for p in self.pods if p.name not in names), *more])

    def without(self, names: Sequence[str]) -> "Cluster":
        return replace(self, pods=[pod for pod in self.pods if pod.name not in names])


class OnNode:
    """At most so many pods and so much CPU on a node, in the view of that node."""

    name = "OnNode"
    needs_pods = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.asked_about: list[str] = []

    def filter(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        self.asked_about.append(node.name)
        full = len(node.pods) >= self._cluster.most_on_node
        cpu = node.requested("cpu") + pod.request("cpu")
        return FULL if full or cpu > 1000 * self._cluster.most_cpu else None


class InZone:
    """At most so many pods of an app in a zone; PreFilter counts them, as plugins in Go do."""

    name = "InZone"
    needs_pods = True

    def __init__(self, handle: Handle, most: int, *, by_label: bool) -> None:
        self._handle = handle
        self._most = most
        self._by_label = by_label

    def same(self, state: CycleState, pod: core.Pod, names: Sequence[str]) -> Iterator[core.Pod]:
        if self._by_label:
            found = self._handle.labelled_pods("default", "app", pod.labels["app"], state)
            return (each for each in found if each.node_name)
        pods = self._handle.pods(state)
        assert pods is not None
        there = (each for name in names for each in pods.pods_on(name))
        return (each for each in there if each.labels == pod.labels)

    def pre_filter(self, state: CycleState, pod: core.Pod, _nodes: core.Nodes) -> None:
        every = self._handle.nodes()
        assert every is not None
        zones = dict(zip(every.names, every.labels(ZONE), strict=True))
        same = self.same(state, pod, every.names)
        state.write("InZone", Counter(zones[each.node_name] for each in same))

    def filter_nodes(
        self, state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        counts: Any = state.read("InZone")
        full = [counts[zone] >= self._most for zone in nodes.labels(ZONE)]
        return [Rejection(core.Mask(full), FULL)]


class Counting(testing.Cluster):
    def __init__(
        self, cluster: Cluster, *more: Any, in_zone: bool = True, by_label: bool = False
    ) -> None:
        self.on_node = OnNode(cluster)

        class Bound(InZone):
            def __init__(self, handle: Handle) -> None:
                super().__init__(handle, cluster.most_in_zone, by_label=by_label)

        more = (*more, Bound) if in_zone else more
        super().__init__(
            *(self.on_node, *more),
            nodes={node: {ZONE: zone} for node, zone in cluster.zones.items()},
            pods=[pod.manifest() for pod in cluster.pods],
        )


def random_cluster(rng: random.Random) -> Cluster:
    zones = {f"n{number}": rng.choice("ab") for number in range(rng.randint(1, 6))}
    names = list(zones)
    bound = [
        Pod(f"b{number}", rng.choice("xy"), rng.randint(1, 3), 0, rng.choice(names))
        for number in range(rng.randint(0, 10))
    ]
    nominated = [
        Pod(f"w{number}", rng.choice("xy"), rng.randint(1, 3), rng.choice([None, -1, 0, 5, 9]))
        for number in range(rng.randint(0, 5))
    ]
    waiting = [replace(pod, nominated=rng.choice([*names, "gone", ""])) for pod in nominated]
    victims = {}
    for node in names:
        there = [pod.name for pod in bound if pod.node == node]
        if there:
            victims[node] = rng.sample(there, rng.randint(1, len(there)))
    limits = rng.randint(1, 4), rng.randint(3, 9), rng.randint(1, 5)
    return Cluster(zones, [*bound, *waiting], *limits, victims)


def asking(rng: random.Random, cluster: Cluster) -> Pod:
    """A pod that asks: one that is nominated itself, or another."""
    waiting = [pod for pod in cluster.pods if not pod.node]
    fresh = Pod("asks", rng.choice("xy"), rng.randint(1, 3), rng.choice([None, -2, 0, 5, 10]))
    return rng.choice([fresh, *waiting])


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_a_pod_goes_where_it_fits_beside_those_that_are_nominated_and_without_them(
    hundred: int, by_label: bool
) -> None:
    differs = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        rng = random.Random(seed)
        cluster = random_cluster(rng)
        pod = asking(rng, cluster)
        expected = [node for node in cluster.zones if cluster.lets_in(pod, node)]
        differs += expected != [node for node in cluster.zones if cluster.fits(pod, node)]
        for in_zone in (True, False) if cluster.most_in_zone > len(cluster.pods) else (True,):
            runner = Counting(cluster, in_zone=in_zone, by_label=by_label)
            answer = runner.filter(pod.manifest())
            assert list(answer.kept) == expected, (seed, in_zone)
            assert set(answer.rejected) == cluster.zones.keys() - set(expected), seed
    assert differs > 5


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_a_candidate_is_offered_where_the_pod_fits_beside_nominated_ones_without_the_victims(
    hundred: int, by_label: bool
) -> None:
    offered = differs = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        rng = random.Random(seed)
        cluster = random_cluster(rng)
        pod = asking(rng, cluster)
        victims = {
            node: [f"uid-of-{name}" for name in names] for node, names in cluster.victims.items()
        }
        answer = Counting(cluster, by_label=by_label).preempt(pod.manifest(), victims)
        for node, names in cluster.victims.items():
            left = cluster.without(names)
            helps = left.lets_in(pod, node)
            assert (node in answer) is helps, (seed, node)
            offered += helps
            differs += helps is not left.fits(pod, node)
    assert offered > 20
    assert differs > 2


@pytest.mark.parametrize("priority", [-1, 0, 7, 8, None])
def test_what_a_preemption_freed_does_not_go_to_the_next_pod(priority: int | None) -> None:
    preemptor = Pod("preemptor", priority=7, nominated="n0")
    cluster = Cluster({"n0": "a"}, [preemptor], most_on_node=1)
    pod = Pod("next", priority=priority)
    goes_on = (priority or 0) > 7
    outcome = Counting(cluster, in_zone=False).schedule(pod.manifest())
    assert outcome.node == ("n0" if goes_on else None)
    assert Counting(cluster, in_zone=False).schedule(preemptor.manifest()).node == "n0"


def test_while_no_pod_is_nominated_each_node_is_judged_once() -> None:
    others = [Pod("on", node="n0"), Pod("waits"), Pod("after", priority=-1, nominated="n1")]
    cluster = Cluster({"n0": "a", "n1": "a"}, others)
    runner = Counting(cluster, in_zone=False)
    assert runner.filter(Pod("asks").manifest()).kept == ("n0", "n1")
    assert runner.on_node.asked_about == ["n0", "n1"]


def test_only_the_nodes_that_pods_are_nominated_to_are_judged_again() -> None:
    others = [Pod("first", priority=1, nominated="n1"), Pod("there", node="n3")]
    others.append(Pod("second", priority=1, nominated="n3"))
    cluster = Cluster({f"n{number}": "a" for number in range(4)}, others, most_on_node=1)
    runner = Counting(cluster, in_zone=False)
    assert runner.filter(Pod("asks").manifest()).kept == ("n0", "n2")
    # The node n3 is full already.
    assert runner.on_node.asked_about == ["n0", "n1", "n2", "n3", "n1"]


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_node_is_judged_without_the_pods_that_are_nominated_to_others(nodes: int) -> None:
    zones = {f"n{number}": "a" for number in range(nodes)}
    waiting = [Pod(f"w{number}", nominated=node) for number, node in enumerate(zones)]
    cluster = Cluster(zones, waiting, most_in_zone=2)
    assert Counting(cluster).filter(Pod("asks").manifest()).kept == tuple(zones)


class SeesFirst:
    """PreFilter says this once a pod is on the node n0."""

    name = "SeesFirst"
    needs_pods = True

    def __init__(self, handle: Handle, says: Status | PreFilterResult) -> None:
        self._handle = handle
        self._says = says

    def pre_filter(
        self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes
    ) -> Status | PreFilterResult | None:
        pods = self._handle.pods(state)
        assert pods is not None
        return self._says if pods.pods_on("n0") else None


@pytest.mark.parametrize("says", [FULL, Status.unresolvable("never"), PreFilterResult({"n1"})])
def test_a_pre_filter_that_rejects_with_nominated_pods_takes_their_nodes_alone(
    says: Status | PreFilterResult,
) -> None:
    cluster = Cluster({f"n{n}": "a" for n in range(3)}, [Pod("first", nominated="n0")])

    class Bound(SeesFirst):
        def __init__(self, handle: Handle) -> None:
            super().__init__(handle, says)

    runner = Counting(cluster, Bound, in_zone=False)
    answer = runner.filter(Pod("asks").manifest())
    assert answer.kept == ("n1", "n2")
    assert answer.rejected.keys() == {"n0"}


class Down:
    """A filter that always fails."""

    name = "Down"

    def filter(self, _state: CycleState, _pod: core.Pod, _node: core.NodeInfo) -> Status | None:
        message = "no API"
        raise OSError(message)


def test_a_plugin_that_may_be_left_out_is_left_out_where_pods_are_nominated_too() -> None:
    cluster = Cluster({"n0": "a", "n1": "a"}, [Pod("first", nominated="n0")], most_on_node=1)
    pods = [pod.manifest() for pod in cluster.pods]
    given: dict[str, Any] = {"nodes": ["n0", "n1"], "pods": pods}
    asks = Pod("asks").manifest()
    assert Wire(Down(), OnNode(cluster), ignored=["Down"], **given).filter(asks).kept == ["n1"]
    assert Wire(Down(), OnNode(cluster), **given).filter(asks).error


def test_a_pod_that_is_assumed_or_bound_is_counted_where_it_is_and_not_where_it_was_nominated() -> (
    None
):
    held = Pod("held", nominated="n0")
    cluster = Cluster({"n0": "a", "n1": "a"}, [held], most_on_node=1)
    runner = Counting(cluster, in_zone=False)
    asks = Pod("asks").manifest()
    assert runner.filter(asks).kept == ("n1",)
    assert runner.bind(held.manifest(), "n1").node == "n1"
    assert runner.filter(asks).kept == ("n0",)
    runner.delete({**held.manifest(), "kind": "Pod"})
    assert runner.filter(asks).kept == ("n0", "n1")


def test_where_room_is_kept_on_many_nodes_a_pod_goes_wherever_kube_scheduler_lets_it() -> None:
    zones = {f"n{number:02}": f"z{number}" for number in range(60)}
    waiting = [Pod(f"w{number}", nominated=f"n{number:02}") for number in range(59)]
    there = [Pod(f"b{number}", node=f"n{number:02}") for number in range(0, 59, 2)]
    cluster = Cluster(zones, [*waiting, *there], most_in_zone=2)
    pod = Pod("asks")
    fits = [node for node in zones if cluster.lets_in(pod, node)]
    assert len(zones) - len(fits) == 30
    answer = Counting(cluster).filter(pod.manifest())
    assert list(answer.kept) == fits
    assert set(answer.rejected.values()) == {"full"}
    assert not answer.unresolvable


def test_pods_of_one_zone_that_are_nominated_to_more_than_16_nodes_leave_16_to_a_plugin() -> None:
    zones = {f"n{number:02}": "a" for number in range(40)}
    waiting = [Pod(f"w{number}", nominated=f"n{number:02}") for number in range(40)]
    cluster = Cluster(zones, waiting, most_in_zone=2)
    pod = Pod("asks")
    assert all(cluster.lets_in(pod, node) for node in zones)
    answer = Counting(cluster).filter(pod.manifest())
    assert list(answer.kept) == list(zones)[:16]
    assert set(answer.rejected.values()) == {"full"}
