"""kube-scheduler places the pods of a PodGroup together, and asks kubextend about each."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import RDMA_LABEL, NodePool
from .pod_groups import NewPodGroups
from .stack import HIGH_COMM, Mode, Stack
from .versions import needs

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
