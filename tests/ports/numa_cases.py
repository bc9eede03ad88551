"""Generates the NUMA zones of a cluster's nodes, and pods that kubelet aligns with zones."""

from collections.abc import Iterator
from typing import Any, Final

from tests.ports.drawing import Draw, Json, pod_of

RESOURCE: Final = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
UNSORTED: Final = 20
"""In every cluster whose number divides by this one, zones are in any order."""

_GPU: Final = "nvidia.com/gpu"
_HUGE: Final = "hugepages-2Mi"
_GIB: Final = 1 << 30
_OLD: Final = tuple(
    f"{policy}{scope}Level"
    for policy in ("SingleNUMANode", "BestEffort", "Restricted", "None")
    for scope in ("Pod", "Container")
)


def numa_cluster(draw: Draw, number: int, cluster: Json) -> Json:
    """Return a cluster with NodeResourceTopology objects for most of its nodes."""
    # The original takes a device of which a node has 0 for one that the node has.
    nodes = [_without_zeros(node) for node in cluster["nodes"]]
    found = []
    for node in nodes:
        if not draw.happens(0.93):
            continue
        topology = _topology(draw, node)
        if number % UNSORTED == 0:
            draw.shuffle(topology["zones"])
        found.append(topology)
    return {**cluster, "nodes": nodes, "objects": {RESOURCE: found}}


def _without_zeros(node: Json) -> Json:
    allocatable = {
        name: quantity
        for name, quantity in node["status"]["allocatable"].items()
        if name == "cpu" or quantity not in {"0", "0Gi"}
    }
    return {**node, "status": {"allocatable": allocatable, "capacity": allocatable}}


def _topology(draw: Draw, node: Json) -> Json:
    count = draw.one((1, 2, 2, 2, 3, 4, 4, 6, 8))
    zones = [_zone(draw, node["status"]["allocatable"], at, count) for at in range(count)]
    if draw.happens(0.2):
        zones.append({"name": "socket-0", "type": "Socket", "resources": []})
    made: Json = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node["metadata"]["name"]},
        "zones": zones,
    }
    if draw.happens(0.3):
        made["topologyPolicies"] = [draw.one(_OLD) for _ in range(draw.one((0, 1, 1, 2)))]
    if draw.happens(0.9):
        made["attributes"] = list(_attributes(draw))
    return made


def _attributes(draw: Draw) -> Iterator[Json]:
    single = "single-numa-node"
    yield _named(
        "topologyManagerPolicy",
        draw.one((single, single, single, single, "restricted", "best-effort", "none", "Single")),
    )
    if draw.happens(0.8):
        yield _named("topologyManagerScope", draw.one(("pod", "pod", "container", "Pod")))
    if draw.happens(0.4):
        yield _named("topologyManagerMaxNUMANodes", draw.one(("8", "16", "9", "+12", "A", "1", "")))
    yield _named("nodeTopologyVersion", "2")


def _named(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def _zone(draw: Draw, allocatable: Json, at: int, count: int) -> Json:
    cores = {"2": 2, "4": 4, "3920m": 4, "7500m": 8, "16": 16, "63800m": 64, "128": 128, "0": 0}
    milli = cores[allocatable["cpu"]] * 1000 // count
    whole = f"{milli}m" if draw.happens(0.3) else str(milli // 1000)
    free = f"{draw.whole(0, milli)}m" if draw.happens(0.5) else whole
    resources = [_resource("cpu", whole, free)]
    gib = draw.one((2, 8, 32, 128))
    if draw.happens(0.95):
        some = draw.one((f"{gib}Gi", f"{gib * 1024}Mi", str(draw.whole(0, gib * _GIB)), "0", "1e9"))
        resources.append(_resource("memory", f"{gib}Gi", some))
    # Some device plugins tell no zones.
    if _GPU in allocatable and draw.happens(0.8):
        resources.append(_resource(_GPU, "4", str(draw.one((0, 0, 1, 2, 4)))))
    if _HUGE in allocatable and draw.happens(0.9):
        resources.append(_resource(_HUGE, "4Gi", draw.one(("0", "512Mi", "2Gi", "4Gi"))))
    zone: Json = {"name": f"node-{at}", "type": "Node", "resources": resources}
    if draw.happens(0.9):
        zone["costs"] = [
            {"name": f"node-{other}", "value": 10 if other == at else draw.one((11, 12, 21, 32))}
            for other in range(count)
            if draw.happens(0.98)
        ]
    return zone


def _resource(name: str, capacity: str, available: str) -> Json:
    return {"name": name, "capacity": capacity, "allocatable": capacity, "available": available}


def numa_pod(draw: Draw, name: str) -> Json:
    """Return a pod of any class of QoS, most often Guaranteed."""
    kind = draw.one(("Guaranteed", "Guaranteed", "Guaranteed", "Burstable", "BestEffort"))
    count = draw.one((1, 1, 1, 2, 3))
    spec: dict[str, Any] = {"containers": [_container(draw, kind, f"c{at}") for at in range(count)]}
    if draw.happens(0.25):
        spec["initContainers"] = [
            _container(draw, kind, f"i{at}") for at in range(draw.one((1, 2)))
        ]
        if draw.happens(0.3):
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draw.happens(0.1):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    return pod_of(name, spec)


def _container(draw: Draw, kind: str, name: str) -> Json:
    requests: dict[str, str] = {}
    if kind != "BestEffort":
        requests = {
            "cpu": draw.one(("100m", "500m", "1", "1500m", "2", "4", "8", "24")),
            "memory": draw.one(("64Mi", "200Mi", "1Gi", "3Gi", "10Gi", "40G")),
        }
        if draw.happens(0.1):
            requests[_HUGE] = draw.one(("512Mi", "2Gi"))
    for resource, share, amounts in (
        (_GPU, 0.2, ("0", "1", "1", "2", "4")),
        ("ephemeral-storage", 0.05, ("1Gi", "10Gi")),
    ):
        if draw.happens(share) and (kind != "BestEffort" or resource == _GPU):
            requests[resource] = draw.one(amounts)
    limits = dict(requests)
    if kind == "Burstable" and draw.happens(0.7):
        limits.pop("cpu")
    if kind == "Burstable":
        limits.pop("memory")
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


def numa_args(draw: Draw) -> Json:
    """Return arguments of NodeResourceTopologyMatch."""
    kinds = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
    both = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    strategy: Json = {"type": draw.one(kinds), "resources": both}
    if draw.happens(0.5):
        strategy["resources"] = [
            {"name": name, "weight": draw.whole(1, 100)}
            for name in ("cpu", "memory", _GPU)
            if draw.happens(0.8)
        ] or [{"name": "cpu", "weight": 3}]
    return {"scoringStrategy": strategy}
