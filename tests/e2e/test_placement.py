"""Pods land where the policy says, however kube-scheduler calls kubextend."""

import itertools

import pytest

from .kubeapi import RDMA_LABEL, NewPool
from .stack import DISK_LABEL, HIGH_COMM, NO_RDMA, WANTS_FAST, Mode, NewStack, Stack
from .workbench import until
from .workload import NewWorkload

# Every test may use the first two.
MODES = {
    "names_stack": Mode(names=True),
    "full_stack": Mode(names=False),
    "names": Mode(names=True, tls=True, binds=True),
    "full": Mode(names=False, tls=True, binds=True),
}
PODS = 20

_numbers = itertools.count()


@pytest.fixture(scope="module", params=MODES, ids=map(str, MODES.values()))
def stack(request: pytest.FixtureRequest, new_stack: NewStack) -> Stack:
    if request.param.endswith("_stack"):
        shared: Stack = request.getfixturevalue(request.param)
        return shared
    return new_stack(f"placement-{request.param}", MODES[request.param])


@pytest.fixture
def name() -> str:
    """A name of a pool that no other test has used."""
    return f"placement-{next(_numbers)}"


def test_pods_with_the_label_land_on_3_labelled_nodes_of_20_and_others_anywhere(
    stack: Stack, name: str, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(name, 20, born_with=(RDMA_LABEL, "true", [3, 9, 15]))
    workload, binds = new_workload(stack, pool), stack.calls("bind")
    chatty = workload.create("high-comm", PODS, HIGH_COMM)
    plain = workload.create("plain", PODS)
    nodes = workload.until_placed(chatty + plain)
    assert {nodes[name] for name in chatty} <= set(pool.chosen)
    anywhere = {nodes[name] for name in plain}
    assert anywhere - set(pool.chosen)
    assert len(anywhere) > len(pool.chosen)
    # kubextend binds the pods if it was asked to, and only then.
    assert stack.calls("bind") - binds == (2 * PODS if stack.mode.binds else 0)


def test_a_high_comm_pod_stays_pending_with_the_reason_until_a_node_is_labelled(
    stack: Stack, name: str, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(name, 20)
    workload = new_workload(stack, pool)
    (early,) = workload.create("early", 1, HIGH_COMM)
    until(lambda: f"20 {NO_RDMA}" in workload.why_pending(early), "all 20 nodes have the reason")
    workload.until_placed(workload.create("plain", 3))
    assert early not in workload.placed()
    late = pool.names[13]
    pool.enable_rdma(late)
    assert workload.until_placed([early]) == {early: late}


def test_a_label_match_score_decides_between_two_equal_nodes_each_time(
    stack: Stack, name: str, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool(name, 2, born_with=(DISK_LABEL, "ssd", [0]))
    workload = new_workload(stack, pool)
    # In-tree plugins see no difference: pods that do not care go to both nodes.
    indifferent = workload.until_placed(workload.create("indifferent", PODS))
    assert set(indifferent.values()) == set(pool.names)
    nodes = workload.until_placed(workload.create("fast", PODS, WANTS_FAST))
    assert set(nodes.values()) == set(pool.chosen)
