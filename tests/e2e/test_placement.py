"""Pods land where the policy says, however kube-scheduler calls kubextend."""

import itertools
from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NodePool
from .stack import DISK_LABEL, HIGH_COMM, NO_RDMA, WANTS_FAST, Mode, Stack
from .workload import NewWorkload

MODES = [Mode(*choice) for choice in itertools.product((True, False), repeat=3)]
PODS = 20


@pytest.fixture(scope="module", params=MODES, ids=str)
def stack(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    twenty_nodes: NodePool,
    two_nodes: NodePool,
) -> Iterator[Stack]:
    assert twenty_nodes.names + two_nodes.names, "both programs list the nodes when they start"
    running = Stack(control_plane, f"placement-{request.param}", request.param)
    yield running
    running.close()


@pytest.fixture(scope="module")
def twenty_nodes(api: Api) -> NodePool:
    return NodePool(api, "twenty", 20)


@pytest.fixture(scope="module")
def two_nodes(api: Api) -> NodePool:
    return NodePool(api, "two", 2)


def test_a_high_comm_pod_lands_on_one_of_3_labelled_nodes_of_20_each_time(
    stack: Stack, twenty_nodes: NodePool, new_workload: NewWorkload
) -> None:
    labelled = twenty_nodes.names[3:18:6]
    twenty_nodes.enable_rdma(*labelled)
    workload = new_workload(stack, twenty_nodes)
    nodes = workload.until_placed(workload.create("high-comm", PODS, HIGH_COMM))
    assert len(labelled) == 3
    assert set(nodes.values()) <= set(labelled)


def test_a_pod_without_the_label_lands_anywhere(
    stack: Stack, twenty_nodes: NodePool, new_workload: NewWorkload
) -> None:
    labelled = twenty_nodes.names[:3]
    twenty_nodes.enable_rdma(*labelled)
    workload = new_workload(stack, twenty_nodes)
    nodes = workload.until_placed(workload.create("plain", PODS))
    assert set(nodes.values()) - set(labelled)
    assert len(set(nodes.values())) > len(labelled)


def test_a_high_comm_pod_stays_pending_with_the_reason_until_a_node_is_labelled(
    stack: Stack, twenty_nodes: NodePool, new_workload: NewWorkload
) -> None:
    twenty_nodes.enable_rdma()
    workload = new_workload(stack, twenty_nodes)
    (name,) = workload.create("early", 1, HIGH_COMM)
    assert f"20 {NO_RDMA}" in workload.until_pending(name)
    workload.until_placed(workload.create("plain", 3))
    assert name not in workload.placed()
    late = twenty_nodes.names[13]
    twenty_nodes.enable_rdma(late)
    assert workload.until_placed([name], timeout_s=15) == {name: late}


def test_a_label_match_score_decides_between_two_equal_nodes_each_time(
    stack: Stack, two_nodes: NodePool, new_workload: NewWorkload
) -> None:
    fast = two_nodes.names[0]
    two_nodes.label_only(DISK_LABEL, "ssd", fast)
    workload = new_workload(stack, two_nodes)
    # In-tree plugins see no difference: pods that do not care go to both nodes.
    indifferent = workload.until_placed(workload.create("indifferent", PODS))
    assert set(indifferent.values()) == set(two_nodes.names)
    nodes = workload.until_placed(workload.create("fast", PODS, WANTS_FAST))
    assert set(nodes.values()) == {fast}


def test_kubextend_binds_the_pods_if_it_was_asked_to_and_only_then(
    stack: Stack, twenty_nodes: NodePool, new_workload: NewWorkload
) -> None:
    before = stack.calls("bind")
    workload = new_workload(stack, twenty_nodes)
    workload.until_placed(workload.create("bound", PODS))
    assert stack.calls("bind") - before == (PODS if stack.mode.binds else 0)
