"""kube-scheduler reacts to a label before kubextend has seen it; the pod must not stay parked."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import MERGE, RDMA_LABEL, NodePool, condition
from .stack import HIGH_COMM, Stack
from .workbench import until
from .workload import NewWorkload

LABELLED = {RDMA_LABEL: "true"}


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


def test_a_pod_that_was_rejected_on_labels_that_are_out_of_date_is_woken_and_told_so(
    names_stack: Stack,
    pool: NodePool,
    shut: Door,
    control_plane: ControlPlane,
    new_workload: NewWorkload,
) -> None:
    woken = names_stack.counts().total("kubextend_pods_woken_total")
    calls = names_stack.calls("filter")
    workload = new_workload(names_stack, pool)
    # kube-scheduler itself looks for the label, too: it asks kubextend once it has seen it.
    (name,) = workload.create("sleeper", 1, HIGH_COMM, node_labels=LABELLED)
    workload.until_pending(name)
    assert names_stack.calls("filter") == calls
    pool.enable_rdma(pool.names[1])
    until(lambda: names_stack.calls("filter") > calls, "kubextend is asked before it knows")
    assert workload.placed() == {}
    cordon = f"/api/v1/nodes/{pool.names[1]}"
    control_plane.api.call("PATCH", cordon, {"spec": {"unschedulable": True}}, MERGE)
    # kube-scheduler sees the change without trying the pod again.
    (scout,) = workload.create("scout", 1, node_labels=LABELLED)
    assert "unschedulable" in workload.until_pending(scout)
    shut.open()
    activated = lambda: condition(workload.pods()[name], "kubextend.dev/Activated")  # noqa: E731
    until(activated, "kubextend has woken the pod")
    assert names_stack.counts().total("kubextend_pods_woken_total") > woken
    # Of a pod that still does not fit, no condition says otherwise.
    pending = condition(workload.pods()[name], "PodScheduled")
    assert (pending["status"], pending["reason"]) == ("False", "Unschedulable")
    assert activated()["reason"] == "AskedToTryAgain"
    assert activated()["message"].startswith("kubextend asked kube-scheduler at 20")
    control_plane.api.call("PATCH", cordon, {"spec": {"unschedulable": None}}, MERGE)
    assert workload.until_placed([name, scout])[name] == pool.names[1]
    # What the condition says is true of a bound pod, too.
    assert activated()["message"].endswith(" to try this pod again")
