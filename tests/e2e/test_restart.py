"""kubextend goes away and comes back while pods are being scheduled."""

import time
from collections.abc import Callable, Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .slow_door import SlowDoor
from .stack import HIGH_COMM, Mode, Stack
from .workbench import until
from .workload import NewWorkload

PARKED_AT_MOST_S = 15
DOWN_S = 0.5
# kubextend answers kube-scheduler for so long before it has listed the nodes.
LISTING_S = 3.0
PODS = 15


@pytest.fixture(scope="module")
def slow_stack(control_plane: ControlPlane) -> Iterator[Stack]:
    port = control_plane.bench.free_port()
    with SlowDoor(port, control_plane.port, opening_s=LISTING_S) as door:
        running = Stack(control_plane, "restart", Mode(names=True), api_url=door.url)
        yield running
        running.close()


@pytest.fixture
def pool(
    slow_stack: Stack, control_plane: ControlPlane, request: pytest.FixtureRequest
) -> Iterator[NodePool]:
    pool = NodePool(control_plane.api, f"restart-{request.node.callspec.id}", 10, cpu="8")
    pool.enable_rdma(*pool.names[:4])
    until(slow_stack.is_ready, "kubextend is ready")
    yield pool
    pool.delete()


def terminate(stack: Stack) -> None:
    assert stack.stop_kubextend() == 0


@pytest.mark.parametrize(
    "end", [pytest.param(terminate, id="asked"), pytest.param(Stack.kill_kubextend, id="killed")]
)
def test_a_restart_in_names_mode_evicts_nothing_and_parks_no_pod_for_long(
    end: Callable[[Stack], None], slow_stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(slow_stack, pool)
    # Something that could be evicted, on every node.
    workload.until_placed(workload.create("cheap", 20, cpu="1", priority_class="e2e-lowest"))
    before = workload.uids()
    names = workload.create("before", PODS, HIGH_COMM, priority_class="e2e-high")
    until(lambda: len(workload.placed()) > len(before), "the first pod is placed")
    end(slow_stack)
    names += workload.create("during", PODS, HIGH_COMM, priority_class="e2e-high")
    plain = workload.create("plain", PODS, priority_class="e2e-high")
    time.sleep(DOWN_S)
    slow_stack.start_kubextend()
    until(slow_stack.is_alive, "kubextend answers")
    names += workload.create("starting", PODS, HIGH_COMM, priority_class="e2e-high")
    assert not slow_stack.is_ready(), "pods came before the nodes were listed"
    nodes = workload.until_placed(names + plain, timeout_s=PARKED_AT_MOST_S + 15)
    assert {nodes[name] for name in names} <= set(pool.names[:4])
    assert [n for uid, n in before.items() if uid not in workload.uids()] == []
    assert max(workload.waited_s(name) for name in names + plain) <= PARKED_AT_MOST_S
