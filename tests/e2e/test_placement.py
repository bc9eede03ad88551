"""Pods land where the policy says, however kube-scheduler calls kubextend."""

import itertools
from collections.abc import Iterator
from typing import Protocol

import pytest

from .controlplane import ControlPlane
from .kubeapi import RDMA_LABEL, Api, NodePool
from .stack import DISK_LABEL, HIGH_COMM, NO_RDMA, WANTS_FAST, Mode, Stack
from .workbench import until
from .workload import NewWorkload

MODES = [Mode(*choice) for choice in itertools.product((True, False), repeat=3)]
# That every test may use.
SHARED = {Mode(names=True): "names_stack", Mode(names=False): "full_stack"}
PODS = 20

_numbers = itertools.count()


@pytest.fixture(scope="module", params=MODES, ids=str)
def stack(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Stack]:
    if request.param in SHARED:
        yield request.getfixturevalue(SHARED[request.param])
        return
    running = Stack(control_plane, f"placement-{request.param}", request.param)
    yield running
    running.close()


class NewPool(Protocol):
    def __call__(self, size: int, *labelled: int, key: str = ..., value: str = ...) -> NodePool: ...


@pytest.fixture
def new_pool(api: Api) -> Iterator[NewPool]:
    made: list[NodePool] = []

    def make(size: int, *labelled: int, key: str = RDMA_LABEL, value: str = "true") -> NodePool:
        name = f"placement-{next(_numbers)}"
        made.append(NodePool(api, name, size, born_with=(key, value, labelled)))
        return made[-1]

    yield make
    for pool in made:
        pool.delete()


def test_a_high_comm_pod_lands_on_one_of_3_labelled_nodes_of_20_each_time(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(20, 3, 9, 15)
    workload = new_workload(stack, pool)
    nodes = workload.until_placed(workload.create("high-comm", PODS, HIGH_COMM))
    assert set(nodes.values()) <= set(pool.chosen)


def test_a_pod_without_the_label_lands_anywhere(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(20, 0, 1, 2)
    workload = new_workload(stack, pool)
    nodes = workload.until_placed(workload.create("plain", PODS))
    assert set(nodes.values()) - set(pool.chosen)
    assert len(set(nodes.values())) > len(pool.chosen)


def test_a_high_comm_pod_stays_pending_with_the_reason_until_a_node_is_labelled(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(20)
    workload = new_workload(stack, pool)
    (name,) = workload.create("early", 1, HIGH_COMM)
    until(lambda: f"20 {NO_RDMA}" in workload.why_pending(name), "all 20 nodes have the reason")
    workload.until_placed(workload.create("plain", 3))
    assert name not in workload.placed()
    late = pool.names[13]
    pool.enable_rdma(late)
    assert workload.until_placed([name]) == {name: late}


def test_a_label_match_score_decides_between_two_equal_nodes_each_time(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(2, 0, key=DISK_LABEL, value="ssd")
    workload = new_workload(stack, pool)
    # In-tree plugins see no difference: pods that do not care go to both nodes.
    indifferent = workload.until_placed(workload.create("indifferent", PODS))
    assert set(indifferent.values()) == set(pool.names)
    nodes = workload.until_placed(workload.create("fast", PODS, WANTS_FAST))
    assert set(nodes.values()) == set(pool.chosen)


def test_kubextend_binds_the_pods_if_it_was_asked_to_and_only_then(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    before = stack.calls("bind")
    workload = new_workload(stack, new_pool(5))
    workload.until_placed(workload.create("bound", PODS))
    assert stack.calls("bind") - before == (PODS if stack.mode.binds else 0)
