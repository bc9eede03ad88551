"""Gangs with a PodGroup of scheduling.x-k8s.io: bound whole or not at all."""

from collections.abc import Iterator
from functools import partial

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, Api, NodePool, node
from .manifests import POD_GROUPS, define
from .stack import Mode, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload, Workload

LABEL = "scheduling.x-k8s.io/pod-group"
NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"
LACKS_RESOURCES = "cluster lacks minResources of the PodGroup"
GANG = 3


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    api = control_plane.api
    define(api, POD_GROUPS)
    # No test lasts so long that a gang is given up.
    wanted = profile("pod-group-objects", PodGroupCoscheduling={"permitWaitingTimeSeconds": 280})
    grant_needed(control_plane, wanted)
    running = Stack(
        control_plane,
        "pod-group-objects",
        Mode(names=True),
        profile=wanted,
        extender={"permitMaxWait": "300s"},
    )
    yield running
    running.close()


@pytest.fixture
def pool(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[NodePool]:
    """Nodes with room for one pod of one core each."""
    pool = NodePool(control_plane.api, f"objects-{request.param}", GANG - 1, cpu="1")
    yield pool
    pool.delete()


def add_node(api: Api, pool: NodePool) -> None:
    api.create_nodes([node(f"{pool.name}-late", {POOL_LABEL: pool.name}, cpu="1")])


def put_group(api: Api, workload: Workload, name: str, **spec: object) -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{workload.namespace}/podgroups"
    api.call("POST", path, body)


def waits_for(workload: Workload, name: str, reason: str) -> bool:
    return reason in workload.why_pending(name)


def says(workload: Workload, name: str) -> bool:
    return "PodGroupCoscheduling" in workload.notes(name)


@pytest.mark.parametrize("pool", ["whole"], indirect=True)
def test_a_gang_waits_for_its_pod_group_and_then_for_room_and_is_bound_whole(
    stack: Stack, pool: NodePool, api: Api, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool)
    names = workload.create("member", GANG, {LABEL: "training"}, cpu="1")
    for name in names:
        until(partial(waits_for, workload, name, NO_POD_GROUP), "the PodGroup is missing")
    put_group(api, workload, "training", minMember=GANG)

    def held() -> bool:
        return sum(says(workload, name) for name in names) >= GANG - 1

    until(held, "the pods for which there is room are held")
    assert workload.placed() == {}
    add_node(api, pool)
    nodes = workload.until_placed(names)
    assert set(nodes.values()) == {*pool.names, f"{pool.name}-late"}


@pytest.mark.parametrize("pool", ["least"], indirect=True)
def test_no_pod_of_a_gang_is_held_while_the_cluster_lacks_its_min_resources(
    stack: Stack, pool: NodePool, api: Api, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool)
    put_group(api, workload, "late", minMember=GANG, minResources={"memory": "100Ti"})
    names = workload.create("member", GANG, {LABEL: "late"}, cpu="1")
    for name in names:
        until(partial(waits_for, workload, name, LACKS_RESOURCES), "the cluster lacks resources")
    assert workload.placed() == {}
    large = node(f"{pool.name}-large", {POOL_LABEL: pool.name}, cpu="1")
    for of in ("capacity", "allocatable"):
        large["status"][of] = {**large["status"][of], "memory": "200Ti"}
    api.create_nodes([large])
    assert len(set(workload.until_placed(names).values())) == GANG
