"""Generates PodGroups, and clusters whose pods belong to them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from tests.ports.drawing import Draw, Json, object_of, pod_of

POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1/podgroups"
TENTH: Final = 10
OVERCOMMITTED: Final = 3
"""In every cluster whose number has this last digit, pods on a node request more than it has."""

UNCOUNTED: Final = 7
"""In every cluster whose number has this last digit, some pods of a PodGroup can get no node."""

_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_GROUPS: Final = ("a", "b", "c", "d")
_NAMESPACES: Final = ("ns", "team")
_GPU: Final = "nvidia.com/gpu"
_MOST_PODS: Final = 6

_Free = Counter[str]
"""What is free by resource, cpu in milli-CPUs and memory in MiB."""


def gang_cluster(draw: Draw, number: int, cluster: Json) -> Json:
    """Return a cluster with PodGroups, whose pods are about half of the cluster's pods."""
    nodes = [_node(draw, node, number) for node in cluster["nodes"]]
    pods = [_member(draw, _small(draw, pod, number), 0.5) for pod in cluster["pods"]]
    if number % TENTH == UNCOUNTED:
        pods = [_uncounted(draw, pod) for pod in pods]
    groups = [
        _pod_group(draw, name, namespace, _free(nodes, pods, (namespace, name)), pods)
        for name in _GROUPS
        for namespace in _NAMESPACES
        if draw.happens(0.9)
    ]
    return {**cluster, "nodes": nodes, "pods": pods, "objects": {POD_GROUPS: groups}}


def gang_pod(draw: Draw, name: str) -> Json:
    """Return a pod that most often names a PodGroup."""
    return _member(draw, pod_of(name, {"containers": []}), 0.95)


def gang_args(draw: Draw) -> Json:
    """Return arguments of Coscheduling."""
    return {"permitWaitingTimeSeconds": draw.one((60, 10, 1))}


def _member(draw: Draw, pod: Json, share: float) -> Json:
    metadata = {**pod["metadata"], "namespace": draw.one(_NAMESPACES)}
    metadata.pop("deletionTimestamp", None)
    if draw.happens(share):
        metadata["labels"] = {_LABEL: draw.one(_GROUPS)}
    return {**pod, "metadata": metadata}


def _uncounted(draw: Draw, pod: Json) -> Json:
    """Return the pod; sometimes it is being deleted, gated, or another scheduler's."""
    if draw.happens(0.2):
        deleted = {"deletionTimestamp": "2027-01-15T07:59:30Z"}
        return {**pod, "metadata": pod["metadata"] | deleted}
    if draw.happens(0.2) and "nodeName" not in pod["spec"]:
        gated = {"schedulingGates": [{"name": "example.com/quota"}]}
        return {**pod, "spec": pod["spec"] | draw.one((gated, {"schedulerName": "other"}))}
    return pod


def _node(draw: Draw, node: Json, number: int) -> Json:
    cpu = draw.one((2, 4) if number % TENTH == OVERCOMMITTED else (16, 32, 64))
    allocatable = {"cpu": f"{cpu}", "memory": f"{cpu * 4096}Mi", "pods": f"{_MOST_PODS}"}
    if draw.happens(0.3):
        allocatable[_GPU] = "8"
    return {**node, "status": {"allocatable": allocatable, "capacity": allocatable}}


def _small(draw: Draw, pod: Json, number: int) -> Json:
    """Return the pod with requests of which a node has, as a rule, room for six."""
    milli = draw.one((0, 100, 250, 1000, 2000))
    requests = {"cpu": f"{milli}m", "memory": f"{draw.one((0, 64, 1000, 4096))}Mi"}
    if number % TENTH == OVERCOMMITTED and draw.happens(0.1):
        requests[_GPU] = "4"
    kept: dict[str, Any] = {key: pod["spec"][key] for key in ("nodeName",) if key in pod["spec"]}
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    return {**pod, "spec": {**kept, "containers": [container]}}


def _free(nodes: Sequence[Json], pods: Sequence[Json], group: tuple[str, str]) -> _Free:
    """Return what pods outside of a PodGroup leave free on all nodes together."""
    free = _Free()
    for node in nodes:
        free.update(_amounts(node["status"]["allocatable"]))
    for pod in pods:
        metadata = pod["metadata"]
        if "nodeName" in pod["spec"] and group != (
            metadata["namespace"],
            metadata.get("labels", {}).get(_LABEL),
        ):
            free.subtract(_amounts(pod["spec"]["containers"][0]["resources"]["requests"]))
    return free


def _amounts(given: Json) -> dict[str, int]:
    cpu = given["cpu"]
    return {
        "cpu": int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000,
        "memory": int(given["memory"].removesuffix("Mi")),
        _GPU: int(given.get(_GPU, "0")),
    }


def _pod_group(draw: Draw, name: str, namespace: str, free: _Free, pods: Sequence[Json]) -> Json:
    mine = [
        "nodeName" in pod["spec"]
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and pod["metadata"].get("labels", {}).get(_LABEL) == name
    ]
    there, bound = len(mine), sum(mine)
    spec: dict[str, Any] = {
        "minMember": max(draw.one((1, bound, bound + 1, bound + 2, there, there + 1, there + 2)), 1)
    }
    if draw.happens(0.5):
        wanted = {
            resource: max(0, draw.one((free[resource] // 2, free[resource], free[resource] + 1)))
            for resource in ("cpu", "memory", _GPU)
            if draw.happens(0.5)
        }
        units = {"cpu": "m", "memory": "Mi", _GPU: ""}
        spec["minResources"] = {name: f"{amount}{units[name]}" for name, amount in wanted.items()}
    if draw.happens(0.5):
        spec["scheduleTimeoutSeconds"] = draw.one((0, 5, 120))
    return object_of("scheduling.x-k8s.io/v1alpha1", "PodGroup", namespace, name, spec)
