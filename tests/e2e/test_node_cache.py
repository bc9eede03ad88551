"""The watched nodes: many of them, a label that changes, a kube-apiserver that restarts."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, RDMA_LABEL, NewPool, NodePool, node
from .stack import HIGH_COMM, NewStack, Stack
from .workbench import until

NODES = 2000


@pytest.fixture(scope="module")
def pool(breakable_plane: ControlPlane) -> Iterator[NodePool]:
    pool = NodePool(breakable_plane.api, "many", NODES)
    yield pool
    pool.delete()


@pytest.fixture(scope="module")
def stack(breakable_plane: ControlPlane, pool: NodePool, new_stack: NewStack) -> Stack:
    assert len(pool.names) == NODES, "they are there when kubextend starts"
    return new_stack("node-cache", plane=breakable_plane, scheduler=False)


def known(stack: Stack) -> int:
    return int(stack.counts().total("kubextend_node_store_nodes", store="watched"))


def test_nodes_are_listed_and_a_label_that_comes_and_goes_is_seen(
    stack: Stack, breakable_plane: ControlPlane, pool: NodePool
) -> None:
    until(lambda: known(stack) == NODES, "no node of another test is left")
    assert stack.kept(pool.names) == pool.names
    for name in pool.names[::500]:
        breakable_plane.api.label_node(name, {RDMA_LABEL: "true"})
        until(lambda n=name: stack.kept([n], HIGH_COMM) == [n], f"{name} is labelled", every_s=0.01)
        breakable_plane.api.label_node(name, {RDMA_LABEL: None})
        until(lambda n=name: stack.kept([n], HIGH_COMM) == [], f"{name} is not", every_s=0.01)


def test_a_restart_of_kube_apiserver_leaves_no_ghost_and_loses_no_node(
    stack: Stack, breakable_plane: ControlPlane, new_pool: NewPool
) -> None:
    plane = breakable_plane
    some = new_pool("some", 50, api=plane.api)
    gone, unlabelled, labelled = some.names[:10], some.names[10:20], some.names[20:30]
    new = [f"new-{i}" for i in range(10)]
    alive = [*some.names[10:], *new]
    plane.api.label_nodes(unlabelled, {RDMA_LABEL: "true"})
    until(lambda: stack.kept(unlabelled, HIGH_COMM) == unlabelled, "the labels are seen")
    # Another kube-apiserver on the same etcd takes changes while kubextend's own is away.
    with plane.second_server() as other, plane.without_server():
        for name in gone:
            other.delete_node(name)
        other.create_nodes(node(n, {POOL_LABEL: some.name, RDMA_LABEL: "true"}) for n in new)
        other.label_nodes(unlabelled, {RDMA_LABEL: None})
        other.label_nodes(labelled, {RDMA_LABEL: "true"})
        assert stack.kept(unlabelled, HIGH_COMM) == unlabelled, "the last good nodes are served"
    until(
        lambda: set(stack.kept([*alive, *gone], HIGH_COMM)) == {*labelled, *new},
        "what changed meanwhile is seen",
    )
    assert known(stack) == NODES + len(alive)
    assert stack.kept([*alive, *gone]) == alive
    later = some.names[40:41]
    plane.api.label_nodes(later, {RDMA_LABEL: "true"})
    until(lambda: stack.kept(later, HIGH_COMM) == later, "the watch goes on")
