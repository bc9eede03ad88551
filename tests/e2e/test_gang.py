"""Pods of a group run together or not at all: Permit, held up by a real kube-scheduler."""

from collections.abc import Iterator
from functools import partial

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, NodePool, node
from .recording import Recording
from .stack import PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import until, within
from .workload import NewWorkload, Workload

GANG = 3
PATIENT, HASTY = "gang", "gang-hasty"
HASTY_WAIT_S = 3
SOON_S = 2.0


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
def stack(control_plane: ControlPlane, recording: Recording) -> Iterator[Stack]:
    def coscheduled(scheduler_name: str, wait_s: int) -> dict[str, object]:
        args = {"permitWaitingTimeSeconds": wait_s}
        return profile(scheduler_name, Coscheduling=args, Recorder=recording.args)

    running = Stack(
        control_plane,
        "gang",
        Mode(names=True),
        profile=coscheduled(PATIENT, 50),
        more_profiles=[coscheduled(HASTY, HASTY_WAIT_S)],
        out_of_tree=["recorder:Recorder"],
        python_path=[PLUGIN_FOLDER],
    )
    yield running
    running.close()


@pytest.fixture
def pool(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[NodePool]:
    """Nodes with room for one pod of one core each."""
    pool = NodePool(control_plane.api, f"gang-{request.param}", request.param, cpu="1")
    yield pool
    pool.delete()


def until_held(recording: Recording, names: list[str], count: int) -> set[str]:
    """Wait until Reserve has seen so many of the pods and Unreserve none of these."""

    def held() -> set[str]:
        ended = recording.count("unreserve") + recording.count("postBind")
        return set(names) & set(recording.count("reserve") - ended)

    until(lambda: len(held()) == count, f"{count} pods are held", 10.0)
    return held()


def says(workload: Workload, name: str, word: str) -> bool:
    return word in workload.notes(name)


def begin(workload: Workload, prefix: str, count: int, group: str) -> list[str]:
    return workload.create(prefix, count, gang(group), cpu="1")


@pytest.mark.parametrize("pool", [3], indirect=True)
def test_two_pods_of_three_stay_unbound_and_the_third_lets_all_in(
    stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool)
    names = begin(workload, "first", GANG - 1, "late-pod")
    for name in names:
        workload.until_pending(name)
    assert workload.placed() == {}
    with within(SOON_S, "from the third pod to all three bound"):
        names += begin(workload, "third", 1, "late-pod")
        nodes = workload.until_placed(names)
    assert set(nodes.values()) == set(pool.names)


@pytest.mark.parametrize("pool", [2], indirect=True)
def test_two_pods_are_held_until_there_is_room_for_the_third(
    stack: Stack,
    recording: Recording,
    control_plane: ControlPlane,
    pool: NodePool,
    new_workload: NewWorkload,
) -> None:
    workload = new_workload(stack, pool)
    names = begin(workload, "room", GANG, "late-room")
    held = until_held(recording, names, GANG - 1)
    assert recording.taken_by(stack, pool.names, PATIENT) == held
    assert workload.placed() == {}
    for name in held:
        until(partial(says, workload, name, "Coscheduling"), "an Event says who holds it", SOON_S)
    with within(SOON_S, "from room for the third pod to all three bound"):
        control_plane.api.create_nodes([node("gang-late", {POOL_LABEL: pool.name}, cpu="1")])
        workload.until_placed(names)


@pytest.mark.parametrize("pool", [2], indirect=True)
def test_without_room_for_the_third_all_time_out_and_nothing_stays_reserved(
    stack: Stack, recording: Recording, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool, HASTY)
    names = begin(workload, "timeout", GANG, "no-room")
    held = until_held(recording, names, GANG - 1)

    def given_up() -> bool:
        unreserved = recording.count("unreserve")
        return all(
            unreserved[name] == recording.count("reserve")[name] for name in names
        ) and not recording.taken_by(stack, pool.names, HASTY)

    until(given_up, "Unreserve ran for each", HASTY_WAIT_S + SOON_S)
    unreserved = recording.count("unreserve")
    assert all(unreserved[name] >= 1 for name in held)
    assert workload.placed() == {}


@pytest.mark.parametrize("pool", [2], indirect=True)
def test_the_wait_of_a_deleted_pod_ends_at_once(
    stack: Stack, recording: Recording, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool)
    # Enough pods are left for the plugin not to give up the group by itself.
    names = begin(workload, "deleted", GANG + 1, "shrinks")
    gone = min(until_held(recording, names, GANG - 1))
    with within(SOON_S, "from the deletion to the end of the wait"):
        workload.delete(gone)
        until(lambda: recording.count("unreserve")[gone] == 1, "Unreserve ran for it")
        until(
            lambda: gone not in recording.taken_by(stack, pool.names, PATIENT),
            "it takes no room any more",
        )
    assert recording.count("reserve")[gone] == 1
