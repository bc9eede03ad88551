"""kube-scheduler reacts to a label before kubextend has seen it; the pod must not stay parked."""

import time
from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .slow_door import SlowDoor
from .stack import HIGH_COMM, Mode, Stack
from .workload import NewWorkload

LAG_S = 0.5
# By then the pod is out of its backoff: kube-scheduler asks about it as soon as a node changes.
SETTLED_S = 3.0
WOKEN_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def lagging_stack(control_plane: ControlPlane) -> Iterator[Stack]:
    port = control_plane.bench.free_port()
    with SlowDoor(port, control_plane.port, lag_s=LAG_S) as door:
        running = Stack(control_plane, "lagging", Mode(names=True), api_url=door.url)
        yield running
        running.close()


def test_a_pod_that_was_rejected_on_labels_of_half_a_second_ago_is_woken(
    lagging_stack: Stack, control_plane: ControlPlane, new_workload: NewWorkload
) -> None:
    pool = NodePool(control_plane.api, "lagging", 3)
    workload = new_workload(lagging_stack, pool)
    (name,) = workload.create("sleeper", 1, HIGH_COMM)
    workload.until_pending(name)
    time.sleep(SETTLED_S)
    calls = lagging_stack.calls("filter")
    pool.enable_rdma(pool.names[1])
    assert workload.until_placed([name], WOKEN_WITHIN_S) == {name: pool.names[1]}
    assert lagging_stack.calls("filter") >= calls + 2, "it was rejected once more, then asked about"
    assert lagging_stack.counts().total("kubextend_pods_woken_total") >= 1
    pool.delete()
