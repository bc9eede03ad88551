"""The guard beside a slow model of kube-scheduler's fit filter, over random nodes and pods.

The model adds up manifests: every pod on the node by itself, in exact fractions.

Source: kubernetes v1.37 pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest
"""

import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from tests.doors import core_objects
from tests.doors.stories import assume, list_pods
from tests.doors.wire import Wire

CLUSTERS = 100
GPU = "example.com/gpu"
CARD = "deviceclass.resource.kubernetes.io/card"
AMOUNTS = {
    "cpu": ("0", "1", "250m", "1500m"),
    "memory": ("0", "1Gi", "500M"),
    "ephemeral-storage": ("1Gi", "2G"),
    "hugepages-2Mi": ("2Mi", "4Mi"),
    GPU: ("0", "1", "2"),
    CARD: ("1", "2"),
}
MANY = {
    "cpu": ("2", "4"),
    "memory": ("2Gi", "3Gi"),
    "ephemeral-storage": ("3Gi", "4Gi"),
    "hugepages-2Mi": ("4Mi", "8Mi"),
    GPU: ("1", "3"),
    CARD: ("1", "3"),
}
UNITS = {"Gi": 2**30, "Mi": 2**20, "G": 10**9, "M": 10**6, "": 1, "m": Fraction(1, 1000)}


def amount(text: str) -> Fraction:
    digits = text.rstrip("GMim")
    return int(digits) * Fraction(UNITS[text[len(digits) :]])


@dataclass
class Pod:
    """A pod of one container, somewhere in its life."""

    name: str
    requests: dict[str, str]
    node: str = ""
    phase: str = "Pending"
    assumed_on: str = ""

    def manifest(self) -> dict[str, Any]:
        return core_objects.pod(
            self.name,
            node=self.node or None,
            phase=self.phase,
            spec={"containers": [{"resources": {"requests": self.requests}}]},
        )

    def is_on(self, node: str) -> bool:
        if self.phase in {"Succeeded", "Failed"}:
            return False
        return (self.node or self.assumed_on) == node

    def wants(self, resource: str) -> Fraction:
        return amount(self.requests.get(resource, "0"))


@dataclass
class Cluster:
    """Nodes with what they can allocate, and pods, the last of which is about to be bound."""

    nodes: dict[str, dict[str, str]]
    pods: list[Pod] = field(default_factory=list)

    def model(self, node: str) -> list[str]:
        """Why the last pod does not fit, in kube-scheduler's words."""
        *others, last = self.pods
        there = [pod for pod in others if pod.is_on(node)]
        allocatable = self.nodes[node]
        reasons = []
        if len(there) + 1 > int(allocatable["pods"]):
            reasons.append("Too many pods")
        for resource in AMOUNTS:
            wanted, has = last.wants(resource), amount(allocatable.get(resource, "0"))
            if wanted == 0 or (resource in {GPU, CARD} and has == 0):
                continue
            if wanted > has - sum((pod.wants(resource) for pod in there), Fraction(0)):
                reasons.append(f"Insufficient {resource}")
        return sorted(reasons)

    def is_shown_to(self, server: Wire) -> None:
        """Have lists of the API show the nodes and pods, but for where some are assumed."""
        nodes = [
            {"metadata": {"name": name}, "status": {"allocatable": of}}
            for name, of in self.nodes.items()
        ]
        server.list_nodes(*nodes)
        list_pods(server, [pod.manifest() for pod in self.pods])
        for pod in self.pods[:-1]:
            if pod.assumed_on and pod.phase == "Pending" and not pod.node:
                assume(server, pod.manifest(), pod.assumed_on)


def random_cluster(chance: random.Random) -> Cluster:
    def requests() -> dict[str, str]:
        some = [each for each in AMOUNTS if chance.random() < 0.5]
        return {each: chance.choice(AMOUNTS[each]) for each in some}

    def allocatable() -> dict[str, str]:
        some = {each: chance.choice(MANY[each]) for each in MANY if chance.random() < 0.85}
        return {**some, "pods": str(chance.randint(1, 6))}

    cluster = Cluster({name: allocatable() for name in ("a", "b")})
    for number in range(chance.randint(0, 6)):
        pod = Pod(f"pod-{number}", requests())
        match chance.randrange(4):
            case 0:
                pod.assumed_on = chance.choice("ab")
            case 1 | 2:
                pod.node = chance.choice("ab")
                pod.phase = chance.choice(["Pending", "Running", "Running", "Succeeded", "Failed"])
        cluster.pods.append(pod)
    cluster.pods.append(Pod("last", requests(), assumed_on="a"))
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_guard_lets_a_pod_pass_if_and_only_if_kube_scheduler_would(seed: int) -> None:
    chance = random.Random(seed)
    found = set()
    for _ in range(CLUSTERS):
        cluster = random_cluster(chance)
        server = Wire(settings={"guard.resources": True})
        cluster.is_shown_to(server)
        reasons = cluster.model("a")
        found.update(reasons or ["fits"])
        said = server.bind(cluster.pods[-1].manifest(), "a").error
        full = f"the node has no room left for the pod: {', '.join(reasons)}"
        assert said == (full if reasons else ""), cluster
    kinds = {"fits", "Too many pods", *(f"Insufficient {each}" for each in AMOUNTS)}
    assert found == kinds
