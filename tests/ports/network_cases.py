"""Generates the regions and zones of nodes, the costs between them, and pods of AppGroups."""

from collections.abc import Iterator
from typing import Final

from tests.ports.drawing import Draw, Json, object_of, pod_of

APP_GROUPS: Final = "appgroup.diktyo.x-k8s.io/v1alpha1/appgroups"
TOPOLOGIES: Final = "networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies"
_GROUP: Final = "appgroup.diktyo.x-k8s.io"
_WORKLOAD: Final = "appgroup.diktyo.x-k8s.io.workload"
_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_REGIONS: Final = ("east", "north", "west")
_ZONES: Final = tuple(f"{region}-{at}" for region in _REGIONS for at in range(3))
_GROUPS: Final = ("shop", "mail")
_WORKLOADS: Final = ("web", "cart", "db", "queue")


def network_cluster(draw: Draw, _number: int, cluster: Json) -> Json:
    """Return a cluster with regions, zones, AppGroups and a NetworkTopology."""
    nodes = [_placed(draw, node) for node in cluster["nodes"]]
    pods = [_grouped(draw, pod, 0.35) for pod in cluster["pods"]]
    groups = [
        _app_group(draw, name, namespace)
        for name in _GROUPS
        for namespace in draw.one((("ns",), ("default",), ("ns", "default")))
    ]
    topology = _network_topology(draw, draw.one(("ns", "default")))
    objects = {APP_GROUPS: groups, TOPOLOGIES: [topology]}
    return {**cluster, "nodes": nodes, "pods": pods, "objects": objects}


def network_pod(draw: Draw, name: str) -> Json:
    """Return a pod that is most often one of an AppGroup."""
    return _grouped(draw, pod_of(name, {"containers": [{"name": "c"}]}), 0.95)


def network_args(draw: Draw) -> Json:
    """Return arguments of NetworkOverhead."""
    return {
        "namespaces": draw.one((["ns", "default"], ["default", "ns"], ["none", "default", "ns"])),
        "weightsName": draw.one(("UserDefined", "UserDefined", "NetperfCosts", "Other")),
        "networkTopologyName": "net",
    }


def _placed(draw: Draw, node: Json) -> Json:
    zone = draw.one(_ZONES)
    labels = {_REGION: zone.split("-")[0], _ZONE: zone}
    for label in (_REGION, _ZONE):
        if draw.happens(0.06):
            del labels[label]
    return {**node, "metadata": {**node["metadata"], "labels": labels}}


def _grouped(draw: Draw, pod: Json, share: float) -> Json:
    if not draw.happens(share):
        return pod
    labels = {_GROUP: draw.one(_GROUPS), _WORKLOAD: draw.one(_WORKLOADS)}
    if draw.happens(0.05):
        del labels[_WORKLOAD]
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def _app_group(draw: Draw, name: str, namespace: str) -> Json:
    workloads = []
    for selector in _WORKLOADS:
        wanted = [other for other in (*_WORKLOADS, "other") if draw.happens(0.4)]
        dependencies = [
            {"workload": _workload(other), "maxNetworkCost": draw.one((0, 1, 5, 10, 20, 60))}
            for other in wanted
        ]
        workloads.append({"workload": _workload(selector), "dependencies": dependencies})
    spec = {"numMembers": len(workloads), "topologySortingAlgorithm": "KahnSort"}
    spec["workloads"] = workloads
    return object_of("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", namespace, name, spec)


def _workload(selector: str) -> Json:
    return {"kind": "Deployment", "name": selector, "selector": selector}


def _network_topology(draw: Draw, namespace: str) -> Json:
    spec = {"configmapName": "netperf", "weights": list(_weights(draw))}
    version = "networktopology.diktyo.x-k8s.io/v1alpha1"
    made = object_of(version, "NetworkTopology", namespace, "net", spec)
    made["metadata"]["uid"] = "net"
    return made


def _weights(draw: Draw) -> Iterator[Json]:
    for name in ("UserDefined", "NetperfCosts"):
        places = [_costs_between(draw, _REGION, _REGIONS), _costs_between(draw, _ZONE, _ZONES)]
        # The original sorts only what people write; what is measured comes sorted.
        if name == "UserDefined":
            draw.shuffle(places)
            for each in places:
                draw.shuffle(each["originList"])
        yield {"name": name, "topologyList": places}


def _costs_between(draw: Draw, key: str, places: tuple[str, ...]) -> Json:
    origins = []
    for origin in places:
        costs = [
            {"destination": other, "networkCost": draw.one((1, 3, 5, 8, 15, 40, 80))}
            for other in places
            if other != origin and draw.happens(0.85)
        ]
        origins.append({"origin": origin, "costList": costs})
    return {"topologyKey": key, "originList": origins}
