"""Pods are evicted for groups, and groups for pods, where filter lets the others run."""

import pytest

from .controlplane import ControlPlane
from .kubeapi import NewPool, NodePool
from .pod_groups import NewPodGroups, PodGroups
from .stack import HIGH_COMM, Mode, NewStack, Stack
from .versions import needs
from .workbench import until

pytestmark = needs("PodGroup")


@pytest.fixture(scope="module", params=[True, False], ids=["names", "full"])
def stack(group_plane: ControlPlane, request: pytest.FixtureRequest, new_stack: NewStack) -> Stack:
    mode = Mode(names=request.param)
    name = f"group-preemption-{mode}"
    return new_stack(name, mode, plane=group_plane)


def _fill(groups: PodGroups, pool: NodePool) -> dict[str, str]:
    """Fill two nodes with a group that is evicted as one; return where its members are."""
    groups.declare("batch", 4, disruption_mode="all", priority_class="e2e-low")
    names = groups.join("batch", 4, HIGH_COMM, cpu="2", priority_class="e2e-low")
    placed = groups.workload.until_placed(names)
    assert sorted(placed.values()) == sorted(2 * pool.names[:2])
    return placed


def _urgent(groups: PodGroups) -> str:
    """Create a pod that fits only where others are evicted; return its node."""
    (name,) = groups.workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
    return groups.workload.until_placed([name])[name]


def _until_left(groups: PodGroups, names: set[str]) -> None:
    """Wait until just these pods are left."""
    until(lambda: set(groups.workload.uids().values()) == names, f"{names} are left")


@pytest.mark.parametrize("stack", [False], ids=["full"], indirect=True)
def test_a_group_on_two_nodes_stays_and_a_pod_takes_the_place_of_another(
    group_plane: ControlPlane, stack: Stack, new_groups: NewPodGroups, new_pool: NewPool
) -> None:
    """No answer can name all members, so that kubextend leaves the candidates of the group out."""
    pool = new_pool(f"whole-{stack.mode}", 3, cpu="4", api=group_plane.api)
    pool.enable_rdma(*pool.names[:2])
    groups = new_groups(stack, pool)
    where = _fill(groups, pool)
    pool.enable_rdma(*pool.names)
    others = groups.workload.fill(1, "e2e-low")
    assert _urgent(groups) == pool.names[2]
    left = set(groups.workload.uids().values())
    assert left >= {"urgent-00", *where}
    assert len(left.intersection(others)) == 3


def test_a_group_evicts_pods_only_on_nodes_that_a_label_filter_accepts(
    group_plane: ControlPlane, stack: Stack, new_groups: NewPodGroups, new_pool: NewPool
) -> None:
    """kube-scheduler asks filter about the group in a dry run, and never calls preempt for it."""
    pool = new_pool(f"gang-{stack.mode}", 4, cpu="4", api=group_plane.api)
    pool.enable_rdma(*pool.names[1:3])
    groups = new_groups(stack, pool)
    groups.workload.fill(4, "e2e-low")
    where, calls = groups.workload.placed(), stack.calls("preempt")
    groups.declare("gang", 4, priority_class="e2e-high")
    names = groups.join("gang", 4, HIGH_COMM, cpu="2", priority_class="e2e-high")
    placed = groups.workload.until_placed(names)
    assert sorted(placed.values()) == sorted(2 * pool.names[1:3])
    staying = {name for name, on in where.items() if on not in placed.values()}
    _until_left(groups, {*names, *staying})
    assert len(staying) == 8
    assert stack.calls("preempt") == calls
