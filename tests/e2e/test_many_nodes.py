"""One good node among a thousand is found at the first attempt."""

import pytest

from .kubeapi import RDMA_LABEL, NodePool
from .stack import HIGH_COMM, Stack
from .workload import NewWorkload

PODS = 20


@pytest.mark.parametrize("mode", ["names", "full"])
def test_each_pod_is_bound_to_the_one_labelled_node_of_1000_at_its_first_attempt(
    mode: str,
    thousand_nodes: NodePool,
    new_workload: NewWorkload,
    request: pytest.FixtureRequest,
) -> None:
    stack: Stack = request.getfixturevalue(f"{mode}_stack")
    good = thousand_nodes.names[617]
    thousand_nodes.enable_rdma(good)
    workload = new_workload(stack, thousand_nodes)
    workload.until_both_know(good, HIGH_COMM, RDMA_LABEL)
    calls, before = stack.calls("filter"), stack.scheduler_counts()
    nodes = workload.until_placed(workload.create("picky", PODS, HIGH_COMM))
    after = stack.scheduler_counts()
    assert set(nodes.values()) == {good}
    assert stack.calls("filter") - calls == PODS
    attempts = "scheduler_schedule_attempts_total"
    assert after.total(attempts, result="scheduled") == (
        before.total(attempts, result="scheduled") + PODS
    )
    assert after.total(attempts) == before.total(attempts) + PODS
