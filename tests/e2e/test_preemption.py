"""A pod evicts others where filter lets it run, and nowhere else."""

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .stack import HIGH_COMM, Stack
from .workload import NewWorkload


@pytest.mark.parametrize("mode", ["names", "full"])
def test_a_high_comm_pod_evicts_one_pod_of_a_labelled_node_though_cheaper_ones_are_elsewhere(
    mode: str,
    control_plane: ControlPlane,
    new_workload: NewWorkload,
    request: pytest.FixtureRequest,
) -> None:
    stack: Stack = request.getfixturevalue(f"{mode}_stack")
    calls = stack.calls("preempt")
    pool = NodePool(control_plane.api, f"preemption-{mode}", 5, cpu="4")
    labelled = pool.names[1:3]
    pool.enable_rdma(*labelled)
    workload = new_workload(stack, pool)
    workload.fill(2, "e2e-low", HIGH_COMM)
    workload.fill(3, "e2e-lowest")
    where = workload.placed()
    before = workload.uids()
    (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
    node = workload.until_placed([name])[name]
    evicted = [n for uid, n in before.items() if uid not in workload.uids()]
    assert node in labelled
    assert len(evicted) == 1
    assert where[evicted[0]] == node
    assert stack.calls("preempt") > calls
    pool.delete()
