"""Gangs with a PodGroup of scheduling.x-k8s.io: bound whole or not at all."""

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, Api, NewPool, node
from .manifests import POD_GROUPS, define
from .stack import NewStack, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload, Workload

LABEL = "scheduling.x-k8s.io/pod-group"
NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"
LACKS_RESOURCES = "cluster lacks minResources of the PodGroup"
GANG = 3


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, new_stack: NewStack) -> Stack:
    define(control_plane.api, POD_GROUPS)
    # No test lasts so long that a gang is given up.
    wanted = profile("pod-group-objects", PodGroupCoscheduling={"permitWaitingTimeSeconds": 280})
    grant_needed(control_plane, wanted)
    return new_stack("pod-group-objects", profile=wanted, extender={"permitMaxWait": "300s"})


def put_group(api: Api, workload: Workload, name: str, **spec: object) -> None:
    group = "scheduling.x-k8s.io/v1alpha1"
    body = {"apiVersion": group, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    api.call("POST", f"/apis/{group}/namespaces/{workload.namespace}/podgroups", body)


def until_all_wait(workload: Workload, names: list[str], reason: str) -> None:
    for name in names:
        until(lambda: reason in workload.why_pending(name), reason)  # noqa: B023
    assert workload.placed() == {}


def test_a_gang_waits_for_its_pod_group_and_then_for_room_and_is_bound_whole(
    stack: Stack, api: Api, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool("objects", GANG - 1, cpu="1")
    workload = new_workload(stack, pool)
    names = workload.create("member", GANG, {LABEL: "training"}, cpu="1")
    until_all_wait(workload, names, NO_POD_GROUP)
    put_group(api, workload, "training", minMember=GANG)

    def held() -> bool:
        return sum("PodGroupCoscheduling" in workload.notes(name) for name in names) >= GANG - 1

    until(held, "the pods for which there is room are held")
    assert workload.placed() == {}
    api.create_nodes([node("objects-late", {POOL_LABEL: pool.name}, cpu="1")])
    nodes = workload.until_placed(names)
    assert set(nodes.values()) == {*pool.names, "objects-late"}


def test_no_pod_of_a_gang_is_held_while_the_cluster_lacks_its_min_resources(
    stack: Stack, api: Api, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool("least", GANG - 1, cpu="1")
    workload = new_workload(stack, pool)
    put_group(api, workload, "late", minMember=GANG, minResources={"memory": "100Ti"})
    names = workload.create("member", GANG, {LABEL: "late"}, cpu="1")
    until_all_wait(workload, names, LACKS_RESOURCES)
    large = node("least-large", {POOL_LABEL: pool.name}, cpu="1")
    for of in ("capacity", "allocatable"):
        large["status"][of] = {**large["status"][of], "memory": "200Ti"}
    api.create_nodes([large])
    assert len(set(workload.until_placed(names).values())) == GANG
