"""NodeInfo: one node of a request, and the pods on it."""

import json

import pytest
from pod_world import node, node_store, pod, pod_store, read

from kubextend import core

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def nodes() -> core.Nodes:
    tainted = node("n2", cpu="500m", memory="1Gi", pods="110")
    tainted["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    }
    tainted["metadata"]["uid"] = "uid-of-n2"
    store = node_store(node("n1", {ZONE: "a", "rack": "7"}, cpu="4"), tainted)
    body = {"NodeNames": ["n2", "unknown", "n1"]}
    found = core.read_args(json.dumps(body).encode(), watched=store).nodes
    assert found is not None
    return found


def test_nodes_are_a_sequence_of_node_infos(nodes: core.Nodes) -> None:
    names = ["n2", "unknown", "n1"]
    assert [info.name for info in nodes] == names
    assert [info.name for info in nodes.infos()] == names
    assert [nodes[i].name for i in range(-3, 3)] == names * 2
    assert [nodes.index_of(name) for name in [*names, "n3"]] == [0, 1, 2, None]
    for index in (3, -4):
        with pytest.raises(IndexError):
            nodes[index]


def test_a_node_info_shows_its_node(nodes: core.Nodes) -> None:
    labelled, tainted = nodes[2], nodes[0]
    assert labelled.labels == {ZONE: "a", "rack": "7"}
    assert (labelled.label(ZONE), labelled.label("zone")) == ("a", None)
    assert (labelled.taints, labelled.unschedulable, labelled.known) == ([], False, True)
    assert (tainted.taints, tainted.unschedulable) == ([("k", "v", "NoSchedule")], True)
    assert (tainted.uid, labelled.uid) == ("uid-of-n2", "")
    amounts = [tainted.allocatable(of) for of in ("cpu", "memory", "pods", "x.y/z")]
    assert amounts == [500, 1 << 30, 110, 0]


def test_a_node_info_agrees_with_the_columns_of_its_nodes(nodes: core.Nodes) -> None:
    infos = nodes.infos()
    assert [info.label(ZONE) for info in infos] == nodes.labels(ZONE)
    assert [info.allocatable("cpu") for info in infos] == list(nodes.allocatable("cpu"))
    assert [info.unschedulable for info in infos] == list(nodes.unschedulable)
    assert [info.known for info in infos] == list(nodes.known)
    assert [info.taints for info in infos] == nodes.taints


def test_an_unknown_name_has_nothing(nodes: core.Nodes) -> None:
    info = nodes[1]
    assert (info.labels, info.label(ZONE), info.taints, info.uid) == ({}, None, [], "")
    assert (info.known, info.unschedulable, info.allocatable("cpu")) == (False, False, 0)


def test_a_node_info_shows_the_pods_that_take_room_on_it(nodes: core.Nodes) -> None:
    store = pod_store(pod("a", node="n1"), pod("b"))
    store.assume(read(pod("b")), "n1")
    snapshot = store.snapshot()
    store.forget("b")
    infos = nodes.infos(snapshot)
    assert [[found.name for found in info.pods] for info in infos] == [[], [], ["a", "b"]]
    assert [info.requested("cpu") for info in infos] == list(snapshot.requested(nodes, "cpu"))
    assert [info.requested("pods") for info in infos] == [0, 0, 2]


def test_nodes_taken_without_pods_say_so(nodes: core.Nodes) -> None:
    for info in (nodes[0], next(iter(nodes)), nodes.infos()[0]):
        with pytest.raises(RuntimeError, match="pods are not known here"):
            info.requested("cpu")
        with pytest.raises(RuntimeError, match="pods are not known here"):
            _ = info.pods


def test_a_store_gives_one_node_by_name() -> None:
    store = node_store(node("n1", {ZONE: "a"}), node("n2"))
    snapshot = pod_store(pod("a", node="n1")).snapshot()
    info = store.get("n1", snapshot)
    assert info is not None
    assert (info.name, info.label(ZONE), info.requested("cpu")) == ("n1", "a", 100)
    assert store.get("n3") is None


def test_a_node_info_outlives_the_store_that_it_came_from() -> None:
    infos = list(node_store(node("n1", {ZONE: "a"})).nodes())
    assert (infos[0].name, infos[0].label(ZONE)) == ("n1", "a")
