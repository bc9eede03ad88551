"""kube-scheduler places the pods of a PodGroup together, and asks kubextend about each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .controlplane import ControlPlane
from .kubeapi import RDMA_LABEL, NodePool
from .pod_groups import NewPodGroups
from .recording import Recording
from .stack import HIGH_COMM, PLUGIN_FOLDER, Mode, Stack, profile
from .versions import needs
from .workbench import until

pytestmark = needs("PodGroup")


@pytest.fixture(scope="module")
def label_stack(group_plane: ControlPlane) -> Iterator[Stack]:
    running = Stack(group_plane, "groups-labels", Mode(names=True))
    yield running
    running.close()


def test_a_gang_of_three_is_placed_on_the_node_that_a_label_filter_keeps(
    group_plane: ControlPlane, label_stack: Stack, new_groups: NewPodGroups
) -> None:
    pool = NodePool(group_plane.api, "labelled", 4)
    pool.enable_rdma(pool.names[1])
    groups = new_groups(label_stack, pool)
    groups.workload.until_both_know(pool.names[1], HIGH_COMM, RDMA_LABEL)
    names = groups.gang("trio", 3, HIGH_COMM)
    placed = groups.workload.until_placed(names)
    assert set(placed.values()) == {pool.names[1]}
    pool.delete()


# kube-scheduler's backoff for a lone pod is a second here, so these are at least so many seconds.
ATTEMPTS = 10


def test_a_member_that_bind_refuses_is_not_tried_more_often_than_a_lone_pod(
    group_plane: ControlPlane, tmp_path: Path, new_groups: NewPodGroups
) -> None:
    recording = Recording(tmp_path / "calls")
    refusing = Stack(
        group_plane,
        "groups-refused",
        Mode(names=True),
        profile=profile("groups-refused", "Recorder", "Refuses", Recorder=recording.args),
        out_of_tree=["recorder:Recorder", "refuses:Refuses"],
        python_path=[PLUGIN_FOLDER],
    )
    pool = NodePool(group_plane.api, "refusing", 2)
    groups = new_groups(refusing, pool)
    (member,) = groups.gang("alone", 1)
    (lone,) = groups.workload.create("lone", 1)
    until(lambda: recording.count("reserve")[lone] >= ATTEMPTS, "the lone pod is refused again")
    tried = recording.count("reserve")
    assert 1 < tried[member] <= ATTEMPTS
    assert "nobody may" in groups.workload.why_pending(member)
    refusing.close()
    pool.delete()
