"""Generates test cases of nodes and pods that differ in labels, resources, taints and so on."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubextend.testing.objects import (
    Manifest,
    NodesLike,
    PodLike,
    manifests_of_nodes,
    node_manifest,
    pod_manifest,
    pod_manifest_of,
)

__all__ = ["Case", "generated_cases"]

_LABELS: Mapping[str, Sequence[str]] = {
    "topology.kubernetes.io/zone": ("a", "b", "c"),
    "node.kubernetes.io/instance-type": ("small", "large"),
    "disk": ("ssd", "hdd", ""),
    "app": ("web", "db"),
}
_TAINTS = ("dedicated=team:NoSchedule", "spot=true:PreferNoSchedule", "old=:NoExecute")
_MOST_NODES = 12


@dataclass(frozen=True, slots=True)
class Case:
    """A test case: a pod to place, the nodes, and the pods that are on these nodes.

    Attributes:
        pod: the manifest of the pod.
        nodes: the manifests of the nodes, in the order of the request.
        pods: the manifests of the pods that are on nodes already.
        given: whether the pod was given, and not generated.
    """

    pod: Manifest
    nodes: Sequence[Manifest]
    pods: Sequence[Manifest]
    given: bool = False

    def backwards(self) -> "Case":
        """Return the case with its nodes in the opposite order."""
        return replace(self, nodes=self.nodes[::-1])


def generated_cases(
    count: int,
    labels: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    pods: Iterable[PodLike] = (),
    nodes: NodesLike | None = None,
) -> Iterator[Case]:
    """Yield test cases: one without nodes, one with 1 node, and then cases with 2 to 12 nodes.

    Equal arguments yield equal cases.

    Args:
        pods: pods to place instead of generated ones; one with a ``node_name`` is on that node.
        nodes: nodes instead of generated ones: each case from the third on has all of them.
        count: how many cases.
        labels: values by label key for nodes and pods, besides common labels; give the keys that
            the plugin under test reads.
        seed: the seed of the random numbers; equal seeds give equal cases.
    """
    choices = {**_LABELS, **(labels or {})}
    # Not for secrets: the cases must be equal in every run.
    draw = random.Random(seed)  # noqa: S311
    manifests = [pod_manifest_of(pod) for pod in pods]
    bound = [pod for pod in manifests if pod["spec"].get("nodeName")]
    asked = [pod for pod in manifests if pod not in bound]
    own = None if nodes is None else manifests_of_nodes(nodes)
    for number in range(count):
        size = number if number <= 1 else draw.randint(2, _MOST_NODES)
        there: list[Manifest] = [_node(draw, f"node-{index}", choices) for index in range(size)]
        if own is not None:
            there = list(own if number > 1 else own[:number])
        on = [_pod(draw, f"on-{index}", choices, there) for index in range(draw.randint(0, 4))]
        pod = asked[number % len(asked)] if asked else _pod(draw, "pod", choices, ())
        yield Case(pod, there, [*on, *bound] if there else [], given=bool(asked))


def _node(draw: random.Random, name: str, labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    cpu = draw.choice(("1", "3500m", "16"))
    return node_manifest(
        name,
        labels=_drawn(draw, labels),
        allocatable={"cpu": cpu, "memory": draw.choice(("2Gi", "64Gi"))},
        taints=draw.sample(_TAINTS, draw.choice((0, 0, 1, 2))),
        unschedulable=draw.random() < 0.1,  # noqa: PLR2004  now and then
    )


def _pod(
    draw: random.Random,
    name: str,
    labels: Mapping[str, Sequence[str]],
    nodes: Sequence[Manifest],
) -> dict[str, Any]:
    tolerations = [{"operator": "Exists"}] if draw.random() < 0.5 else []  # noqa: PLR2004
    return pod_manifest(
        name,
        uid=f"uid-{draw.getrandbits(64):016x}",
        labels=_drawn(draw, labels),
        requests={"cpu": draw.choice(("0", "250m", "2")), "memory": draw.choice(("0", "1Gi"))},
        node_name=draw.choice(nodes)["metadata"]["name"] if nodes else "",
        priority=draw.choice((None, 0, 1000)),
        creation_timestamp="2030-01-01T00:00:00Z",
        tolerations=tolerations,
    )


def _drawn(draw: random.Random, labels: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {key: draw.choice(values) for key, values in labels.items() if draw.random() < 0.6}  # noqa: PLR2004
