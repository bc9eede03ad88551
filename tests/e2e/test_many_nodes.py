"""One good node among a thousand is found at the first attempt."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .stack import HIGH_COMM, Mode, Stack
from .workload import NewWorkload

MODES = [Mode(names=True), Mode(names=False)]
PODS = 20


@pytest.fixture(scope="module", params=MODES, ids=str)
def stack(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Stack]:
    running = Stack(control_plane, f"many-{request.param}", request.param)
    yield running
    running.close()


def test_each_pod_is_bound_to_the_one_labelled_node_of_1000_at_its_first_attempt(
    stack: Stack, thousand_nodes: NodePool, new_workload: NewWorkload
) -> None:
    good = thousand_nodes.names[617]
    thousand_nodes.enable_rdma(good)
    workload = new_workload(stack, thousand_nodes)
    nodes = workload.until_placed(workload.create("picky", PODS, HIGH_COMM))
    attempts = stack.scheduler_counts()
    assert set(nodes.values()) == {good}
    assert stack.calls("filter") == PODS
    assert attempts.total("scheduler_schedule_attempts_total", result="scheduled") == PODS
    assert attempts.total("scheduler_schedule_attempts_total") == PODS
