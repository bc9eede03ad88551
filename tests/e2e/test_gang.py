"""Pods of a group run together or not at all: Permit, held up by a real kube-scheduler."""

import itertools

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, NewPool, NodePool, node
from .recording import Recording
from .stack import NewStack, Stack, profile
from .workbench import until
from .workload import NewWorkload, Workload

GANG = 3
PATIENT, HASTY = "gang", "gang-hasty"
# Nothing but the end of this wait gives up the pods of the one profile, and no test of the other
# profile lasts so long.
HASTY_WAIT_S, PATIENT_WAIT_S = 3, 280

_numbers = itertools.count()


def gang(name: str) -> dict[str, str]:
    """Labels of the pods of a group."""
    return {
        "scheduling.x-k8s.io/pod-group": name,
        "pod-group.scheduling.sigs.k8s.io/min-available": str(GANG),
    }


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return Recording(tmp_path_factory.mktemp("gang") / "record.jsonl")


@pytest.fixture(scope="module")
def stack(recording: Recording, new_stack: NewStack) -> Stack:
    def coscheduled(scheduler_name: str, wait_s: int) -> dict[str, object]:
        args = {"permitWaitingTimeSeconds": wait_s}
        return profile(scheduler_name, Coscheduling=args, Recorder=recording.args)

    return new_stack(
        "gang",
        profile=coscheduled(PATIENT, PATIENT_WAIT_S),
        more_profiles=[coscheduled(HASTY, HASTY_WAIT_S)],
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
    """Create pods with names that are in no other test's records."""
    return workload.create(f"{prefix}-{workload.namespace}", count, gang(group), cpu="1")


def test_two_pods_of_three_are_held_until_there_is_a_third_and_room_for_it(
    stack: Stack,
    recording: Recording,
    control_plane: ControlPlane,
    two: NodePool,
    new_workload: NewWorkload,
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
    late = node(f"{two.name}-late", {POOL_LABEL: two.name}, cpu="1")
    control_plane.api.create_nodes([late])
    workload.until_placed(names)
    assert all(recording.count("unreserve")[name] == 0 for name in held), "they waited for it"


def test_without_room_for_the_third_all_time_out_and_nothing_stays_reserved(
    stack: Stack, recording: Recording, two: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, two, HASTY)
    names = begin(workload, "timeout", GANG, "no-room")
    held = until_held(recording, names, GANG - 1)

    def given_up() -> bool:
        unreserved = recording.count("unreserve")
        return all(
            unreserved[name] == recording.count("reserve")[name] for name in names
        ) and not recording.taken_by(stack, two.names, HASTY)

    until(given_up, "Unreserve ran for each")
    unreserved = recording.count("unreserve")
    assert all(unreserved[name] >= 1 for name in held)
    assert workload.placed() == {}


def test_the_wait_of_a_deleted_pod_ends_long_before_its_time(
    stack: Stack, recording: Recording, two: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, two)
    # Enough pods are left for the plugin not to give up the group by itself.
    names = begin(workload, "deleted", GANG + 1, "shrinks")
    gone = min(until_held(recording, names, GANG - 1))
    workload.delete(gone)
    until(lambda: recording.count("unreserve")[gone] == 1, "Unreserve ran for it")
    until(
        lambda: gone not in recording.taken_by(stack, two.names, PATIENT),
        "it takes no room any more",
    )
    assert recording.count("reserve")[gone] == 1
