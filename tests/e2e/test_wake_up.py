"""kube-scheduler reacts to a label before kubextend has seen it; the pod must not stay parked."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import RDMA_LABEL, NodePool
from .stack import HIGH_COMM, Stack
from .workbench import until
from .workload import NewWorkload


@pytest.fixture
def pool(control_plane: ControlPlane) -> Iterator[NodePool]:
    pool = NodePool(control_plane.api, "wake-up", 3)
    yield pool
    pool.delete()


@pytest.fixture
def shut(names_stack: Stack, pool: NodePool, door: Door) -> Iterator[Door]:
    """kubextend knows the nodes, and hears nothing more until the test opens the door."""
    until(lambda: names_stack.kept(pool.names) == pool.names, "the nodes are known")
    door.shut()
    yield door
    door.open()


def test_a_pod_that_was_rejected_on_labels_that_are_out_of_date_is_woken(
    names_stack: Stack, pool: NodePool, shut: Door, new_workload: NewWorkload
) -> None:
    woken = names_stack.counts().total("kubextend_pods_woken_total")
    calls = names_stack.calls("filter")
    workload = new_workload(names_stack, pool)
    # kube-scheduler itself looks for the label, too: it asks kubextend once it has seen it.
    (name,) = workload.create("sleeper", 1, HIGH_COMM, node_labels={RDMA_LABEL: "true"})
    workload.until_pending(name)
    assert names_stack.calls("filter") == calls
    pool.enable_rdma(pool.names[1])
    until(lambda: names_stack.calls("filter") > calls, "kubextend is asked before it knows")
    assert workload.placed() == {}
    shut.open()
    assert workload.until_placed([name]) == {name: pool.names[1]}
    assert names_stack.counts().total("kubextend_pods_woken_total") > woken
