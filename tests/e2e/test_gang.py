"""Pods of a group run together or not at all: Permit, held up by a real kube-scheduler."""

import itertools

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, Api, NewPool, NodePool, node
from .manifests import POD_GROUPS, apply, define
from .recording import Recording
from .stack import NewStack, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload, Workload

GANG = 3
PATIENT, HASTY, OF_OBJECTS = "gang", "gang-hasty", "gang-objects"
# Nothing but the end of this wait gives up the pods of the one profile, and no test of the others
# lasts so long.
HASTY_WAIT_S, PATIENT_WAIT_S = 3, 280
LABEL = "scheduling.x-k8s.io/pod-group"
NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return Recording(tmp_path_factory.mktemp("gang") / "record.jsonl")


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, recording: Recording, new_stack: NewStack) -> Stack:
    """Run a kubextend with gangs by the pods' labels alone, and with those of PodGroups."""
    define(control_plane.api, POD_GROUPS)
    recorded = {"Recorder": recording.args}
    patient, hasty = (
        profile(name, Coscheduling={"permitWaitingTimeSeconds": wait_s}, **recorded)
        for name, wait_s in ((PATIENT, PATIENT_WAIT_S), (HASTY, HASTY_WAIT_S))
    )
    waits = {"permitWaitingTimeSeconds": PATIENT_WAIT_S}
    objects = profile(OF_OBJECTS, PodGroupCoscheduling=waits)
    grant_needed(control_plane, objects)
    return new_stack(
        "gang",
        profile=patient,
        more_profiles=[hasty, objects],
        out_of_tree=["recorder:Recorder"],
        extender={"permitMaxWait": "300s"},
    )


@pytest.fixture
def two(new_pool: NewPool) -> NodePool:
    """Room for two pods of one core each, under names that no other test has used."""
    return new_pool(f"gang-{next(_numbers)}", 2, cpu="1")


def until_held(recording: Recording, names: list[str], count: int) -> set[str]:
    """Wait until Reserve has seen so many of the pods and Unreserve none of these."""

    def held() -> set[str] | None:
        ended = recording.count("unreserve") + recording.count("postBind")
        found = set(names) & set(recording.count("reserve") - ended)
        return found if len(found) == count else None

    return until(held, f"{count} pods are held") or set()


def begin(workload: Workload, prefix: str, count: int, group: str) -> list[str]:
    """Create pods of a group with names that are in no other test's records."""
    least = {"pod-group.scheduling.sigs.k8s.io/min-available": str(GANG)}
    labels = {LABEL: group, **least}
    return workload.create(f"{prefix}-{workload.namespace}", count, labels, cpu="1")


def test_two_pods_of_three_are_held_until_there_is_a_third_and_room_for_it(
    stack: Stack, recording: Recording, api: Api, two: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, two)
    names = begin(workload, "first", GANG - 1, "late")
    for name in names:
        workload.until_pending(name)
    assert workload.placed() == {}
    names += begin(workload, "third", 1, "late")
    held = until_held(recording, names, GANG - 1)
    assert recording.taken_by(stack, two.names, PATIENT) == held
    assert workload.placed() == {}
    for name in held:
        until(lambda: "Coscheduling" in workload.notes(name), "an Event says who holds it")  # noqa: B023
    api.create_nodes([node(f"{two.name}-late", {POOL_LABEL: two.name}, cpu="1")])
    workload.until_placed(names)
    assert all(recording.count("unreserve")[name] == 0 for name in held), "they waited for it"


def test_without_room_for_the_third_all_time_out_and_nothing_stays_reserved(
    stack: Stack, recording: Recording, two: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, two, HASTY)
    names = begin(workload, "timeout", GANG, "no-room")
    held = until_held(recording, names, GANG - 1)

    def given_up() -> bool:
        unreserved, reserved = recording.count("unreserve"), recording.count("reserve")
        same = all(unreserved[name] == reserved[name] for name in names)
        return same and not recording.taken_by(stack, two.names, HASTY)

    until(given_up, "Unreserve ran for each")
    unreserved = recording.count("unreserve")
    assert all(unreserved[name] >= 1 for name in held)
    assert workload.placed() == {}


def test_a_gang_waits_for_its_pod_group_and_then_for_room_and_is_bound_whole(
    stack: Stack, api: Api, two: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, two, OF_OBJECTS)
    names = workload.create("member", GANG, {LABEL: "gang"}, cpu="1")
    for name in names:
        until(lambda: NO_POD_GROUP in workload.why_pending(name), NO_POD_GROUP)  # noqa: B023
    assert workload.placed() == {}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    group |= {"metadata": {"name": "gang", "namespace": workload.namespace}}
    apply(api, {**group, "spec": {"minMember": GANG}})

    def held() -> bool:
        return sum("PodGroupCoscheduling" in workload.notes(name) for name in names) >= GANG - 1

    until(held, "the pods for which there is room are held")
    assert workload.placed() == {}
    api.create_nodes([node(f"{two.name}-late", {POOL_LABEL: two.name}, cpu="1")])
    nodes = workload.until_placed(names)
    assert set(nodes.values()) == {*two.names, f"{two.name}-late"}
