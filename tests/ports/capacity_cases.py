"""Generates the cases of CapacityScheduling: ElasticQuotas, and who the pods of a cluster are."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.ports.drawing import Draw, Json

QUOTAS = "scheduling.x-k8s.io/v1alpha1/elasticquotas"

# What a pod of tests.ports.cases asks for on average, roughly.
_OF_A_POD = {"cpu": (3000, "m"), "memory": (8, "Gi"), "ephemeral-storage": (6, "Gi")}
_NOW_AND_THEN = {"nvidia.com/gpu": "", "example.com/fpga": "", "hugepages-2Mi": "Gi"}
_PODS_OF_A_NODE = 2.7


def capacity_args(draw: Draw) -> Json:
    """Return ElasticQuotas, and the namespaces and priorities that the pods get in turn."""
    namespaces = [f"ns-{i}" for i in range(draw.one((1, 2, 3, 5)))]
    nodes = 5 + Draw(f"cluster {draw.cluster}").expovariate(1 / 25)
    pods = _PODS_OF_A_NODE * nodes / len(namespaces)
    quotas = []
    for namespace in namespaces:
        if draw.happens(0.9):
            spec = {
                limit: _amounts(draw, draw.one(shares) * pods)
                for limit, shares in (("min", (0.0, 1.0, 1.5, 3.0)), ("max", (1.0, 2.0, 3.0)))
                if draw.happens(0.9)
            }
            quotas.append({"metadata": {"name": "quota", "namespace": namespace}, "spec": spec})
    priorities = [draw.one((None, 0, 10, 100)) for _ in range(draw.one((1, 2, 3, 7)))]
    return {"quotas": quotas, "namespaces": namespaces, "priorities": priorities}


def _amounts(draw: Draw, pods: float) -> Json:
    amounts = {
        resource: f"{round(pods * amount)}{unit}" for resource, (amount, unit) in _OF_A_POD.items()
    }
    for resource, unit in _NOW_AND_THEN.items():
        if draw.happens(0.8):
            amounts[resource] = f"{round(pods * draw.random())}{unit}"
    if draw.happens(0.1):
        amounts["pods"] = "1"
    if draw.happens(0.05):
        del amounts[draw.one(sorted(amounts))]
    return amounts


def in_namespaces(args: Json, pods: Iterable[Json]) -> Iterator[Json]:
    """Yield the pods with the namespaces and priorities that they get in turn, without sidecars.

    The original takes a sidecar for an init container that ends.
    """
    for turn, pod in enumerate(pods):
        namespace = args["namespaces"][turn % len(args["namespaces"])]
        spec: dict[str, Any] = {
            **pod["spec"],
            "priority": args["priorities"][turn % len(args["priorities"])],
            "initContainers": [
                {key: value for key, value in container.items() if key != "restartPolicy"}
                for container in pod["spec"].get("initContainers", ())
            ],
        }
        yield {**pod, "metadata": {**pod["metadata"], "namespace": namespace}, "spec": spec}
