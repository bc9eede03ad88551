"""NodeResourceTopologyMatch with NodeResourceTopology objects on a real control plane."""

from collections.abc import Iterator, Sequence

import httpx
import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NodePool, Object, pod
from .stack import Mode, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload

GROUP = "topology.node.k8s.io"
PATH = f"/apis/{GROUP}/v1alpha2/noderesourcetopologies"
PLUGIN = "NodeResourceTopologyMatch"


def definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {
        "plural": "noderesourcetopologies",
        "singular": "noderesourcetopology",
        "kind": "NodeResourceTopology",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"noderesourcetopologies.{GROUP}",
            # Names that end with k8s.io are Kubernetes' own.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def is_served(api: Api) -> bool:
    try:
        api.items(PATH)
    except httpx.HTTPStatusError:
        return False
    return True


@pytest.fixture(scope="module")
def api(breakable_plane: ControlPlane) -> Api:
    """Make ``new_workload`` create pods in the control plane that has the definition."""
    return breakable_plane.api


@pytest.fixture(scope="module")
def stack(breakable_plane: ControlPlane, api: Api) -> Iterator[Stack]:
    api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    until(lambda: is_served(api), "the NodeResourceTopologies are served")
    wanted = profile("numa", PLUGIN)
    grant_needed(breakable_plane, wanted)
    running = Stack(breakable_plane, "numa", Mode(names=True), profile=wanted)
    yield running
    running.close()


@pytest.fixture(scope="module")
def pool(api: Api, stack: Stack) -> Iterator[NodePool]:
    pool = NodePool(api, "numa", 2)
    until(lambda: stack.kept(pool.names) == pool.names, "the nodes are known")
    yield pool
    pool.delete()


def topology(node: str, *cpus: str) -> Object:
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": free, "allocatable": free, "available": free}
                for name, free in (("cpu", cpu), ("memory", "16Gi"))
            ],
        }
        for number, cpu in enumerate(cpus)
    ]
    return {
        "apiVersion": f"{GROUP}/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": zones,
    }


def replace_zones(api: Api, node: str, cpus: Sequence[str]) -> None:
    now = api.call("GET", f"{PATH}/{node}")
    changed = topology(node, *cpus)
    changed["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
    api.call("PUT", f"{PATH}/{node}", changed)


def test_a_pod_waits_until_one_zone_has_room_and_goes_there(
    stack: Stack, pool: NodePool, api: Api, new_workload: NewWorkload
) -> None:
    # Together the zones have room, as kube-scheduler sees it; no zone has it alone.
    for node in pool.names:
        api.call("POST", PATH, topology(node, "3", "3"))
    until(
        lambda: (
            stack.counts().total("kubextend_informer_objects", resource=PATH.removeprefix("/apis/"))
            == len(pool.names)
        ),
        "the zones are known",
    )
    workload = new_workload(stack, pool)
    wanted = pod("aligned", stack.scheduler_name, pool.name, {})
    (container,) = wanted["spec"]["containers"]
    amounts = {"cpu": "4", "memory": "1Gi"}
    container["resources"] = {"requests": amounts, "limits": amounts}
    api.create_pods(workload.namespace, [wanted])
    assert "2 cannot align pod" in workload.until_pending("aligned")
    replace_zones(api, pool.names[1], ("1", "5"))
    # kubextend wakes the pod: nothing else of the cluster has changed.
    assert workload.until_placed(["aligned"]) == {"aligned": pool.names[1]}
