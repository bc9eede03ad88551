"""Generates clusters, and questions about them for each ported plugin; the same in every run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.ports.capacity_cases import capacity_args
from tests.ports.drawing import Draw, Json, pod_of
from tests.ports.gang_cases import gang_args, gang_cluster, gang_pod
from tests.ports.network_cases import network_args, network_cluster, network_pod
from tests.ports.numa_cases import numa_args, numa_cluster, numa_pod
from tests.ports.syscall_cases import syscall_args, syscall_cluster, syscall_pod

CLUSTERS: Final = 250
# About each cluster, for each plugin.
QUESTIONS: Final = 8
# 2027-01-15T08:00:00Z, the end of the time over which the load of nodes is measured.
MEASURED_AT: Final = 1_800_000_000

_STARTS: Final = ("07:00:00", "07:58:59", "07:59:00", "07:59:01", "08:00:00", "08:00:05")
_LARGEST, _SMALLEST = 200, 5
_GPU, _FPGA = "nvidia.com/gpu", "example.com/fpga"


def clusters() -> Iterator[Json]:
    """Yield clusters of 5 to 200 nodes with the pods on the nodes, nominated pods, and load."""
    for number in range(CLUSTERS):
        draw = Draw(f"cluster {number}")
        size = {0: _LARGEST, 1: _SMALLEST}.get(number)
        if size is None:
            # Small clusters are as different as large ones, and cost less.
            size = min(_SMALLEST + int(draw.expovariate(1 / 25)), _LARGEST)
        nodes = [_node(draw, f"node-{row}") for row in range(size)]
        pods = [pod for node in nodes for pod in _pods_on(draw, node["metadata"]["name"])]
        yield {"nodes": nodes, "pods": pods, "metrics": _metrics(draw, nodes)}


def cluster_for(plugin: str, number: int, cluster: Json) -> Json:
    """Return a cluster with what only this plugin reads: objects, labels of nodes, or pods."""
    change = _CLUSTERS.get(plugin)
    return cluster if change is None else change(Draw(f"{plugin} of {number}"), number, cluster)


def questions(plugin: str, cluster: int) -> Iterator[tuple[Json, Json]]:
    """Yield the arguments of a plugin and the pod, for each question about a cluster."""
    draw = Draw(f"{plugin} {cluster}")
    draw.cluster = cluster
    for number in range(QUESTIONS):
        yield PORTS[plugin](draw), _PODS.get(plugin, _pod)(draw, f"asked-{number}")


def _node(draw: Draw, name: str) -> Json:
    cpu = draw.one(("2", "4", "3920m", "7500m", "16", "63800m", "128", "0"))
    memory = draw.one(("4Gi", "7935272Ki", "16Gi", "64Gi", "257654784Ki", "512Gi", "1000000000"))
    allocatable = {"cpu": cpu, "memory": memory, "pods": draw.one(("3", "8", "110", "110"))}
    if draw.happens(0.8):
        allocatable["ephemeral-storage"] = draw.one(("20Gi", "94471450526", "1Ti"))
    for device, share in ((_GPU, 0.3), (_FPGA, 0.2), ("hugepages-2Mi", 0.2)):
        if draw.happens(share):
            allocatable[device] = draw.one(("0", "1", "4", "8")) + "Gi" * (device[0] == "h")
    status = {"allocatable": allocatable, "capacity": allocatable}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "status": status}


def _pods_on(draw: Draw, node: str) -> Iterator[Json]:
    for number in range(draw.one((0, 1, 2, 3, 3, 4, 6))):
        pod = _pod(draw, f"{node}-{number}")
        pod["spec"]["nodeName"] = node
        if draw.happens(0.2):
            pod["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:30Z"
        if draw.happens(0.8):
            pod["status"]["startTime"] = f"2027-01-15T{draw.one(_STARTS)}Z"
        yield pod
    for number in range(draw.one((0, 0, 0, 1, 2))):
        pod = _pod(draw, f"{node}-nominated-{number}")
        pod["status"]["nominatedNodeName"] = node
        yield pod


def _pod(draw: Draw, name: str) -> Json:
    # Now and then all containers are without requests.
    asking = 0.0 if draw.happens(0.1) else 0.7
    spec: Json = {
        "containers": [_container(draw, asking, f"c{i}") for i in range(draw.one((1, 1, 2, 3)))]
    }
    if draw.happens(0.3):
        spec["initContainers"] = [
            _container(draw, asking, f"i{i}", sidecar=draw.happens(0.3))
            for i in range(draw.one((1, 1, 2)))
        ]
    if draw.happens(0.1):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    return pod_of(name, spec)


def _container(draw: Draw, asking: float, name: str, *, sidecar: bool = False) -> Json:
    requests, limits = {}, {}
    for resource, amounts in _AMOUNTS.items():
        rare = resource not in {"cpu", "memory"}
        if not draw.happens(asking * (0.1 if rare else 1)):
            continue
        at = draw.whole(0, len(amounts) - 1)
        requests[resource] = amounts[at]
        if rare:
            limits[resource] = amounts[at]
        elif draw.happens(0.5):
            limits[resource] = amounts[draw.whole(at, len(amounts) - 1)]
    if asking and draw.happens(0.1):
        limits["cpu"] = "1500m"
    container: Json = {"name": name, "resources": {"requests": requests, "limits": limits}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


_AMOUNTS: Final = {
    "cpu": ("0", "50m", "100m", "333m", "1", "1500m", "4", "12"),
    "memory": ("0", "64Mi", "128974848", "200Mi", "1Gi", "3Gi", "10Gi", "40G"),
    "ephemeral-storage": ("1Gi", "10Gi", "30Gi"),
    _GPU: ("1", "2", "4"),
    _FPGA: ("0", "1", "2"),
    "hugepages-2Mi": ("512Mi", "2Gi"),
}


def _metrics(draw: Draw, nodes: Sequence[Json]) -> Json:
    measured = {}
    for node in nodes:
        metrics = []
        for kind in ("CPU", "Memory"):
            for operator, most in (("AVG", 110), ("STD", 40)):
                if draw.happens(0.95):
                    value = round(draw.random() * most, draw.whole(0, 3))
                    metrics.append({"type": kind, "operator": operator, "value": value})
        if draw.happens(0.95):
            measured[node["metadata"]["name"]] = {"metrics": metrics}
    window = {"start": MEASURED_AT - 900, "end": MEASURED_AT, "duration": "15m"}
    taken = {"timestamp": MEASURED_AT, "window": window, "source": "generated"}
    return {**taken, "data": {"NodeMetricsMap": measured}}


def _resources(draw: Draw, most_weight: int) -> list[Json]:
    names = ["cpu", "memory", "ephemeral-storage", _GPU, _FPGA, "hugepages-2Mi"]
    count = draw.one((1, 2, 2, 3, 4))
    chosen = [names.pop(draw.whole(0, len(names) - 1)) for _ in range(count)]
    return [{"name": name, "weight": draw.whole(1, most_weight)} for name in chosen]


_BOTH: Final = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def _fit(draw: Draw) -> Json:
    kind = draw.one(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Json = {"type": kind, "resources": _resources(draw, 100)}
    if draw.happens(0.3):
        strategy["resources"] = _BOTH
    if kind == "RequestedToCapacityRatio":
        at = sorted({draw.whole(0, 100) for _ in range(draw.whole(1, 4))})
        shape = [{"utilization": each, "score": draw.whole(0, 10)} for each in at]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    args: Json = {"scoringStrategy": strategy}
    if draw.happens(0.2):
        args["ignoredResources"] = [_GPU]
    if draw.happens(0.2):
        args["ignoredResourceGroups"] = ["example.com"]
    return args


def _balanced(draw: Draw) -> Json:
    resources = _resources(draw, 1)
    return {"resources": resources if draw.happens(0.7) else _BOTH}


def _allocatable(draw: Draw) -> Json:
    args: Json = {"mode": draw.one(("Least", "Most"))}
    if draw.happens(0.7):
        args["resources"] = _resources(draw, draw.one((1, 100, 1 << 20)))
    return args


def _load_variation(draw: Draw) -> Json:
    margin, sensitivity = draw.one((1.0, 0.0, 0.5, 2.0, 7.3)), draw.one((1.0, 2.0, 0.5, 0.0, 3.7))
    return {"safeVarianceMargin": margin, "safeVarianceSensitivity": sensitivity}


def _low_risk(draw: Draw) -> Json:
    args: Json = {"smoothingWindowSize": draw.one((1, 5, 5, 12))}
    if draw.happens(0.5):
        cpu, memory = draw.one((0.0, 0.25, 1.0)), draw.one((0.0, 0.6, 1.0))
        args["riskLimitWeights"] = {"cpu": cpu, "memory": memory}
    return args


def _target_load(draw: Draw) -> Json:
    return {
        "targetUtilization": draw.one((40, 1, 70, 99)),
        "defaultRequestsMultiplier": draw.one(("1.5", "1", "2.25")),
        "defaultRequests": {"cpu": draw.one(("1000m", "1", "150m"))},
    }


PORTS: Final[dict[str, Callable[[Draw], Json]]] = {
    "NetworkOverhead": network_args,
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesAllocatable": _allocatable,
    "NodeResourceTopologyMatch": numa_args,
    "PodGroupCoscheduling": gang_args,
    "PodState": lambda _: {},
    "LoadVariationRiskBalancing": _load_variation,
    "LowRiskOverCommitment": _low_risk,
    "SySched": syscall_args,
    "TargetLoadPacking": _target_load,
    "CapacityScheduling": capacity_args,
}
"""The ported plugins, each with the function that draws arguments for it."""

_PODS: Final[dict[str, Callable[[Draw, str], Json]]] = {
    "NetworkOverhead": network_pod,
    "NodeResourceTopologyMatch": numa_pod,
    "PodGroupCoscheduling": gang_pod,
    "SySched": syscall_pod,
}
_CLUSTERS: Final[dict[str, Callable[[Draw, int, Json], Json]]] = {
    "NetworkOverhead": network_cluster,
    "NodeResourceTopologyMatch": numa_cluster,
    "PodGroupCoscheduling": gang_cluster,
    "SySched": syscall_cluster,
}
