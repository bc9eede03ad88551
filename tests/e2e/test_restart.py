"""kubextend goes away and comes back while pods are being scheduled."""

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.controlplane import ControlPlane
from e2e.kubeapi import NodePool
from e2e.stack import HIGH_COMM, Mode, Stack
from e2e.workbench import until
from e2e.workload import NewWorkload

PARKED_AT_MOST_S = 15
DOWN_S = 0.5
PODS = 15


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    running = Stack(control_plane, "restart", Mode(names=True))
    yield running
    running.close()


def terminate(stack: Stack) -> None:
    assert stack.stop_kubextend() == 0


@pytest.mark.parametrize(
    "end", [pytest.param(terminate, id="asked"), pytest.param(Stack.kill_kubextend, id="killed")]
)
def test_a_restart_in_names_mode_evicts_nothing_and_parks_no_pod_for_long(
    end: Callable[[Stack], None],
    stack: Stack,
    control_plane: ControlPlane,
    new_workload: NewWorkload,
    request: pytest.FixtureRequest,
) -> None:
    pool = NodePool(control_plane.api, f"restart-{request.node.callspec.id}", 10, cpu="8")
    labelled = pool.names[:4]
    pool.enable_rdma(*labelled)
    workload = new_workload(stack, pool)
    for node in pool.names:
        workload.fill(node, 2, "e2e-lowest")
    before = workload.uids()
    urgent = {"cpu": "100m", "priority_class": "e2e-high"}
    names = workload.create("before", PODS, HIGH_COMM, **urgent)
    until(lambda: len(workload.placed()) > len(before), "the first pod is placed")
    end(stack)
    names += workload.create("during", PODS, HIGH_COMM, **urgent)
    plain = workload.create("plain", PODS, **urgent)
    time.sleep(DOWN_S)
    stack.start_kubextend()
    names += workload.create("starting", PODS, HIGH_COMM, **urgent)
    nodes = workload.until_placed(names + plain, timeout_s=PARKED_AT_MOST_S + 15)
    assert {nodes[name] for name in names} <= set(labelled)
    assert [n for uid, n in before.items() if uid not in workload.uids()] == []
    assert max(workload.waited_s(name) for name in names + plain) <= PARKED_AT_MOST_S
    pool.delete()
