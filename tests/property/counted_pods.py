"""Random clusters, plugins that count the pods of each, and the plainest model of what they count.

``OnNode`` counts pods and CPU on a node, and ``InZone`` pods of an app in a zone, which takes a
look at other nodes. The model judges each node by itself, with the pods that are nominated to that
node and without them, as kube-scheduler's RunFilterPluginsWithNominatedPods does.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubextend import core, testing
from kubextend.framework import CycleState, Handle, Rejection, Status

ZONE = "zone"
FULL = Status.unschedulable("full")


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
    """Zones by node, pods, how many and how few of them may be together, and victims by node."""

    zones: Mapping[str, str]
    pods: Sequence[Pod]
    most_on_node: int = 9
    most_cpu: int = 99
    most_in_zone: int = 99
    fewest_in_zone: int = 0
    victims: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def fits(self, pod: Pod, node: str) -> bool:
        on_node = [each for each in self.pods if each.node == node]
        same = [each for each in self.pods if each.app == pod.app and each.node]
        in_zone = [each for each in same if self.zones[each.node] == self.zones[node]]
        return (
            len(on_node) < self.most_on_node
            and sum(each.cpu for each in on_node) + pod.cpu <= self.most_cpu
            and self.fewest_in_zone <= len(in_zone) < self.most_in_zone
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
        names = {each.name for each in first}
        with_them = [*(each for each in self.pods if each.name not in names), *first]
        return self.fits(pod, node) and replace(self, pods=with_them).fits(pod, node)

    def without(self, names: Sequence[str]) -> "Cluster":
        return replace(self, pods=[pod for pod in self.pods if pod.name not in names])

    def plugins(self, *, in_zone: bool = True, by_label: bool = False) -> list[Any]:
        cluster = self

        class Bound(InZone):
            def __init__(self, handle: Handle) -> None:
                super().__init__(handle, cluster, by_label=by_label)

        return [OnNode(self), *([Bound] if in_zone else [])]

    def parts(self) -> dict[str, Any]:
        """Return the nodes and the pods as ``testing.Cluster`` and ``Wire`` take them."""
        of_zone = self.zones.items()
        nodes = [testing.node_manifest(name, labels={ZONE: zone}) for name, zone in of_zone]
        return {"nodes": nodes, "pods": [pod.manifest() for pod in self.pods]}

    def run(self, *more: Any, **plugins: bool) -> testing.Cluster:
        return testing.Cluster(*self.plugins(**plugins), *more, **self.parts())


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
    """Keeps the pods of an app in a zone to a range; PreFilter counts them, as plugins in Go do."""

    name = "InZone"
    needs_pods = True

    def __init__(self, handle: Handle, cluster: Cluster, *, by_label: bool) -> None:
        self._handle = handle
        self._fits = range(cluster.fewest_in_zone, cluster.most_in_zone)
        self._by_label = by_label

    def same(self, state: CycleState, pod: core.Pod, names: Sequence[str]) -> list[core.Pod]:
        if self._by_label:
            found = self._handle.labelled_pods("default", "app", pod.labels["app"], state)
            return [each for each in found if each.node_name]
        pods = self._handle.pods(state)
        there = (each for name in names for each in pods.pods_on(name))
        return [each for each in there if each.labels == pod.labels]

    def pre_filter(self, state: CycleState, pod: core.Pod, _nodes: core.Nodes) -> None:
        every = self._handle.nodes()
        zones = dict(zip(every.names, every.labels(ZONE), strict=True))
        same = self.same(state, pod, every.names)
        state.write("InZone", Counter(zones[each.node_name] for each in same))

    def filter_nodes(
        self, state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        counts: Any = state.read("InZone")
        full = [counts[zone] not in self._fits for zone in nodes.labels(ZONE)]
        return [Rejection(core.Mask(full), FULL)]


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
    on_node = {node: [pod.name for pod in bound if pod.node == node] for node in names}
    victims = {
        node: rng.sample(there, rng.randint(1, len(there)))
        for node, there in on_node.items()
        if there
    }
    limits = rng.randint(1, 4), rng.randint(3, 9), rng.randint(1, 5)
    return Cluster(zones, [*bound, *waiting], *limits, victims=victims)
