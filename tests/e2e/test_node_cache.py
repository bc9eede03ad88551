"""The watched nodes after a restart of kube-apiserver."""

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, RDMA_LABEL, NewPool, node
from .stack import HIGH_COMM, NewStack, Stack
from .workbench import until


def known(stack: Stack) -> int:
    return int(stack.counts().total("kubextend_node_store_nodes", store="watched"))


def test_a_restart_of_kube_apiserver_leaves_no_ghost_and_loses_no_node(
    breakable_plane: ControlPlane, new_stack: NewStack, new_pool: NewPool
) -> None:
    plane = breakable_plane
    some = new_pool("some", 50, api=plane.api)
    # The nodes are there when kubextend starts.
    stack = new_stack("node-cache", plane=plane, scheduler=False)
    until(lambda: known(stack) == len(some.names), "no node of another test is left")
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
    assert known(stack) == len(alive)
    assert stack.kept([*alive, *gone]) == alive
    later = some.names[40:41]
    plane.api.label_nodes(later, {RDMA_LABEL: "true"})
    until(lambda: stack.kept(later, HIGH_COMM) == later, "the watch goes on")
