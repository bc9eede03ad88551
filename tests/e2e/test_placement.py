"""Pods land where the policy says, however kube-scheduler calls kubextend."""

import itertools

import pytest

from .kubeapi import RDMA_LABEL, NewPool, NodePool
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
# As many that all of them land on one of two equal nodes by chance once in 500,000 runs.
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


@pytest.mark.parametrize("mode", ["names_stack", "full_stack"])
def test_small_pods_go_to_the_full_node_as_well_where_requests_have_whole_nodes(
    mode: str,
    name: str,
    new_pool: NewPool,
    new_workload: NewWorkload,
    request: pytest.FixtureRequest,
) -> None:
    """kube-scheduler takes the nodes of such an answer for empty: kubernetes/kubernetes#141781."""
    pool = new_pool(name, 2)
    workload = new_workload(request.getfixturevalue(mode), pool)
    on_first = {"kubernetes.io/hostname": pool.names[0]}
    # That leaves little room of 32 cores.
    workload.until_placed(workload.create("large", 1, cpu="30", node_labels=on_first))
    nodes = set(workload.until_placed(workload.create("small", PODS)).values())
    assert nodes == set(pool.names[1:] if mode == "names_stack" else pool.names)


@pytest.mark.parametrize("mode", ["names_stack", "full_stack"])
def test_each_pod_is_bound_to_the_one_labelled_node_of_1000_at_its_first_attempt(
    mode: str, thousand_nodes: NodePool, new_workload: NewWorkload, request: pytest.FixtureRequest
) -> None:
    stack: Stack = request.getfixturevalue(mode)
    good = thousand_nodes.names[617]
    thousand_nodes.enable_rdma(good)
    workload = new_workload(stack, thousand_nodes)
    # Once this pod is placed, kube-scheduler and kubextend have seen the label.
    scout = workload.create("scout", 1, HIGH_COMM, node_labels={RDMA_LABEL: "true"})
    assert [*workload.until_placed(scout).values()] == [good]
    calls, before = stack.calls("filter"), stack.scheduler_counts()
    nodes = workload.until_placed(workload.create("picky", PODS, HIGH_COMM))
    after = stack.scheduler_counts()
    assert set(nodes.values()) == {good}
    assert stack.calls("filter") - calls == PODS
    attempts = "scheduler_schedule_attempts_total"
    scheduled = before.total(attempts, result="scheduled") + PODS
    assert after.total(attempts, result="scheduled") == scheduled
    assert after.total(attempts) == before.total(attempts) + PODS
