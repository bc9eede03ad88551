"""kube-scheduler places the pods of a PodGroup together, and asks kubextend about each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import pod_groups
from .controlplane import ControlPlane
from .kubeapi import NewPool, NodePool
from .plugins.seats import SEAT
from .pod_groups import NewPodGroups, PodGroups
from .program_plane import program_plane
from .recording import Recording
from .stack import Mode, NewStack, Stack, profile
from .versions import needs
from .workbench import until
from .workload import Workload

pytestmark = needs("PodGroup")

SITS = {SEAT: "yes"}


@pytest.fixture(scope="module")
def seat_stack(group_plane: ControlPlane) -> Iterator[Stack]:
    with seats(group_plane) as running:
        yield running


def seats(plane: ControlPlane) -> Stack:
    """Start a stack whose filter lets one pod with the label ``seat`` onto each node."""
    name = "groups-seats"
    wanted = profile(name, "Seats")
    return Stack(plane, name, Mode(binds=True), profile=wanted, out_of_tree=["seats:Seats"])


def test_a_gang_of_five_takes_the_five_seats_with_one_filter_call_for_each_member(
    group_plane: ControlPlane, seat_stack: Stack, new_groups: NewPodGroups, new_pool: NewPool
) -> None:
    pool = new_pool("five", 5, api=group_plane.api)
    groups = new_groups(seat_stack, pool)
    calls = seat_stack.calls("filter")
    placed = groups.workload.until_placed(groups.gang("quintet", 5, SITS))
    assert sorted(placed.values()) == pool.names
    assert seat_stack.calls("filter") == calls + 5
    assert seat_stack.calls("prioritize") == 0


def test_of_a_gang_of_six_for_five_seats_nobody_is_bound_until_there_is_a_sixth(
    group_plane: ControlPlane, seat_stack: Stack, new_groups: NewPodGroups, new_pool: NewPool
) -> None:
    pool = new_pool("six", 5, api=group_plane.api)
    groups = new_groups(seat_stack, pool)
    calls, binds = seat_stack.calls("filter"), seat_stack.calls("bind")
    names = groups.gang("sextet", 6, SITS)
    until(lambda: seat_stack.calls("filter") >= calls + 18, "the gang was tried three times")
    assert groups.workload.placed() == {}
    assert seat_stack.calls("bind") == binds
    sixth = new_pool("sixth", 1, api=group_plane.api)
    group_plane.api.label_nodes(sixth.names, {"e2e.kubextend.dev/pool": pool.name})
    placed = groups.workload.until_placed(names)
    assert sorted(placed.values()) == sorted([*pool.names, *sixth.names])
    assert seat_stack.calls("bind") == binds + 6


def test_of_two_gangs_and_lone_pods_that_want_the_same_seats_no_gang_is_bound_in_part(
    group_plane: ControlPlane, seat_stack: Stack, new_groups: NewPodGroups, new_pool: NewPool
) -> None:
    pool = new_pool("contested", 8, api=group_plane.api)
    groups = new_groups(seat_stack, pool)
    gangs = [f"gang-{number}" for number in range(2)]
    for gang in gangs:
        groups.declare(gang, 5)
    lone = groups.workload.create("lone", 3, SITS)
    members = {gang: groups.join(gang, 5, SITS) for gang in gangs}
    until(lambda: len(groups.workload.placed()) == 8, "all seats are taken")
    placed = groups.workload.placed()
    assert len(set(placed.values())) == 8
    assert set(lone) <= set(placed)
    (winner,) = [gang for gang in gangs if members[gang][0] in placed]
    assert set(placed) == {*lone, *members[winner]}
    for name in members[winner]:
        groups.workload.delete(name)
    (loser,) = [gang for gang in gangs if gang != winner]
    groups.workload.until_placed(members[loser], 120.0)


def test_with_the_gates_off_again_the_pods_of_a_group_are_lone_pods() -> None:
    with program_plane(pod_groups.GATES, pod_groups.APIS) as plane, seats(plane) as stack:
        pool = NodePool(plane.api, "left", 5)
        workload = Workload(plane.api, "left", stack.scheduler_name, pool)
        names = PodGroups(plane.api, workload, pool).gang("sextet", 6, SITS)
        until(lambda: stack.calls("filter") >= 6, "the gang was tried")
        assert _members(stack) > 0
        plane.gates = plane.apis = ""
        stack.restart_scheduler(plane.without_server())
        until(lambda: len(workload.placed()) == 5, "five members are placed")
        (left,) = set(names) - set(workload.placed())
        # kube-scheduler tries the pod again when it sees the deletion. If kubextend saw the
        # deletion later, nobody would wake the pod: kubextend wakes no pod that names a PodGroup.
        with stack.paused_scheduler():
            workload.delete(names[0] if left != names[0] else names[1])
            until(lambda: stack.kept(pool.names, SITS), "kubextend knows of the free seat")
        workload.until_placed([left])
        until(lambda: _members(stack) == 0, "kubextend remembers no member and no place")


def _members(stack: Stack) -> float:
    return stack.counts().total("kubextend_pod_group_members")


# kube-scheduler's backoff for a lone pod is a second here, so these are at least so many seconds.
ATTEMPTS = 6


def test_a_member_that_bind_refuses_is_not_tried_more_often_than_a_lone_pod(
    group_plane: ControlPlane,
    tmp_path: Path,
    new_stack: NewStack,
    new_groups: NewPodGroups,
    new_pool: NewPool,
) -> None:
    recording = Recording(tmp_path / "calls")
    plugins = ["recorder:Recorder", "on_demand:OnDemand"]
    wanted = profile("groups-refused", "Recorder", "OnDemand", Recorder=recording.args)
    labels = {"at-reserve": "rejects"}
    refusing = new_stack("groups-refused", plane=group_plane, profile=wanted, out_of_tree=plugins)
    pool = new_pool("refusing", 2, api=group_plane.api)
    groups = new_groups(refusing, pool)
    (member,) = groups.gang("alone", 1, labels)
    (lone,) = groups.workload.create("lone", 1, labels)
    until(lambda: recording.count("reserve")[lone] >= ATTEMPTS, "the lone pod is refused again")
    tried = recording.count("reserve")
    assert 1 < tried[member] <= ATTEMPTS
    assert "demands a rejection" in groups.workload.why_pending(member)
