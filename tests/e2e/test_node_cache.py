"""The watched nodes: 5,000 of them, a label that changes, a kube-apiserver that restarts."""

import time
from collections.abc import Callable, Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import RDMA_LABEL, NodePool, Object, node
from .stack import HIGH_COMM, Mode, Stack
from .workbench import until, within

NODES = 5000
LISTED_WITHIN_S = 15.0
SEEN_WITHIN_S = 1.0
RECOVERED_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def plane(new_control_plane: Callable[[], ControlPlane]) -> ControlPlane:
    return new_control_plane()


@pytest.fixture(scope="module")
def pool(plane: ControlPlane) -> NodePool:
    return NodePool(plane.api, "many", NODES)


@pytest.fixture(scope="module")
def stack(plane: ControlPlane, pool: NodePool) -> Iterator[Stack]:
    assert len(pool.names) == NODES
    with within(LISTED_WITHIN_S, "from the start to ready with all nodes listed"):
        running = Stack(plane, "node-cache", Mode(names=True), scheduler=False)
    yield running
    running.close()


def kept(stack: Stack, names: list[str], labels: dict[str, str]) -> list[str]:
    """Names that filter keeps for a pod, asked as kube-scheduler asks."""
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": labels}
    pod: Object = {"metadata": metadata, "spec": {"schedulerName": stack.scheduler_name}}
    answer = stack.post("filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
    return list(answer["NodeNames"] or [])


def test_5000_nodes_are_listed_and_ready(stack: Stack, pool: NodePool) -> None:
    assert stack.counts().total("kubextend_node_store_nodes", store="watched") == NODES
    assert kept(stack, pool.names, {}) == pool.names
    assert kept(stack, pool.names[:1], HIGH_COMM) == []


def test_a_label_change_is_seen_by_the_next_call_within_a_second(
    stack: Stack, plane: ControlPlane, pool: NodePool
) -> None:
    for name in pool.names[::500]:
        for labels, expected in (({RDMA_LABEL: "true"}, [name]), ({RDMA_LABEL: None}, [])):
            plane.api.label_node(name, labels)
            changed = time.monotonic()
            while kept(stack, [name], HIGH_COMM) != expected:
                assert time.monotonic() - changed < SEEN_WITHIN_S, f"{name}: {labels} not seen"
                time.sleep(0.01)


def test_a_restart_of_kube_apiserver_leaves_no_ghost_and_loses_no_node(
    stack: Stack, plane: ControlPlane, pool: NodePool
) -> None:
    gone, unlabelled, labelled = pool.names[:10], pool.names[10:20], pool.names[20:30]
    new = [f"new-{i}" for i in range(10)]
    plane.api.label_nodes(unlabelled, {RDMA_LABEL: "true"})
    until(lambda: kept(stack, unlabelled, HIGH_COMM) == unlabelled, "the labels are seen")
    # Another kube-apiserver on the same etcd takes changes while kubextend's own is away.
    with plane.second_server() as other:
        plane.break_server()
        for name in gone:
            other.delete_node(name)
        other.create_nodes(node(name, {RDMA_LABEL: "true"}) for name in new)
        other.label_nodes(unlabelled, {RDMA_LABEL: None})
        other.label_nodes(labelled, {RDMA_LABEL: "true"})
        assert kept(stack, unlabelled, HIGH_COMM) == unlabelled, "the last good nodes are served"
        plane.restart_server()
    alive = [*pool.names[10:], *new]
    with within(RECOVERED_WITHIN_S, "the recovery"):
        until(
            lambda: set(kept(stack, [*alive, *gone], HIGH_COMM)) == {*labelled, *new},
            "what changed meanwhile is seen",
            RECOVERED_WITHIN_S,
        )
    assert stack.counts().total("kubextend_node_store_nodes", store="watched") == len(alive)
    assert kept(stack, [*alive, *gone], {}) == alive
    later = pool.names[40:41]
    plane.api.label_nodes(later, {RDMA_LABEL: "true"})
    until(lambda: kept(stack, later, HIGH_COMM) == later, "the watch goes on", SEEN_WITHIN_S)
