"""Nodes of a request or a store, their columns, and one node with its pods."""

import pytest
from tests.doors import core_objects as world
from tests.doors.core_objects import node_store, pod, pod_store, read
from tests.doors.core_objects import node_with_room as node

from kubextend import core

TAINTS = [{"key": "k", "value": "v", "effect": "NoSchedule"}]


@pytest.fixture
def nodes() -> core.Nodes:
    return world.nodes_of(
        world.node("a", {"zone": "x", "gpu": ""}, spec={"unschedulable": True}),
        world.node("b", {"zone": "y"}, spec={"taints": TAINTS}),
        world.node("c"),
    )


def test_only_has_the_nodes_of_a_mask_in_order_known_or_not(nodes: core.Nodes) -> None:
    left = nodes.only(core.Mask([False, True, True]))
    assert (left.names, left.labels("zone")) == (["b", "c"], ["y", None])
    assert nodes.only(nodes.nothing()).names == []
    with_unknown = core.NodeStore().select(["x", "y", "z"])
    some = with_unknown.only(core.Mask([True, False, True]))
    assert (some.names, list(some.known)) == (["x", "z"], [False, False])
    assert list(some.only(core.Mask([False, True])).known) == [False]
    with pytest.raises(ValueError, match="2"):
        nodes.only(core.Mask([True, False]))


def test_a_question_about_nodes_is_answered_by_a_mask(nodes: core.Nodes) -> None:
    everywhere = world.pod_of(tolerations=[{"operator": "Exists"}])
    in_y = world.pod_of(nodeSelector={"zone": "y"})
    answers = {
        "everything": (nodes.everything(), [True, True, True]),
        "nothing": (nodes.nothing(), [False, False, False]),
        "known": (nodes.known, [True, True, True]),
        "unschedulable": (nodes.unschedulable, [True, False, False]),
        "a text": (nodes.matches("zone"), [True, True, False]),
        "a selector": (nodes.matches(core.Selector("zone!=x")), [False, True, True]),
        "an empty value": (nodes.matches("gpu="), [True, False, False]),
        "tolerates nothing": (nodes.tolerated_by(world.pod_of()), [True, False, True]),
        "tolerates all": (nodes.tolerated_by(everywhere), [True, True, True]),
        "selects": (nodes.affine_to(in_y), [False, True, False]),
        "selects nothing": (nodes.affine_to(world.pod_of()), [True, True, True]),
    }
    for question, (mask, expected) in answers.items():
        assert list(mask) == expected, question


def test_buffers_are_read_only_views_of_int64(nodes: core.Nodes) -> None:
    view = nodes.allocatable("cpu")
    assert (view.format, view.shape, view.readonly) == ("q", (3,), True)
    with pytest.raises(TypeError):
        view[0] = 1
    assert list(world.nodes_of().allocatable("cpu")) == []


def test_unknown_names_have_nothing_and_match_nothing() -> None:
    store = world.node_store(world.node("a", {"zone": "x"}, status={"allocatable": {"cpu": "1"}}))
    nodes = core.read_args(world.names(["ghost", "a", None]), watched=store).nodes
    assert nodes.names == ["ghost", "a", ""]
    assert list(nodes.known) == [False, True, False]
    assert list(nodes.matches("!other")) == [False, True, False]
    assert list(nodes.affine_to(world.pod_of())) == [False, True, False]
    assert nodes.labels("zone") == [None, "x", None]
    assert list(nodes.allocatable("cpu")) == [0, 1000, 0]
    assert nodes.taints == [[], [], []]


def test_latest_looks_names_up_again_and_leaves_the_old_view_alone() -> None:
    store = world.node_store(world.node("a", {"zone": "x"}), world.node("b"))
    nodes = core.read_args(world.names(["b", "a", "new"]), watched=store).nodes
    store.apply(world.event("MODIFIED", world.node("a", {"zone": "y"})))
    store.apply(world.event("DELETED", world.node("b")))
    store.apply(world.event("ADDED", world.node("new", {"zone": "z"})))
    latest = nodes.latest()
    assert latest.names == ["b", "a", "new"]
    assert latest.labels("zone") == [None, "y", "z"]
    assert list(latest.known) == [False, True, True]
    assert nodes.labels("zone") == [None, "x", None]
    assert nodes.latest().latest().labels("zone") == [None, "y", "z"]


ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def few() -> core.Nodes:
    tainted = node("n2", cpu="500m", memory="1Gi", pods="110")
    tainted["spec"] = {"unschedulable": True, "taints": TAINTS}
    tainted["metadata"]["uid"] = "uid-of-n2"
    store = node_store(node("n1", {ZONE: "a", "rack": "7"}, cpu="4"), tainted)
    return core.read_args(world.names(["n2", "unknown", "n1"]), watched=store).nodes


def test_nodes_are_a_sequence_of_node_infos(few: core.Nodes) -> None:
    names = ["n2", "unknown", "n1"]
    assert [info.name for info in few] == [info.name for info in few.infos()] == names
    assert [few[i].name for i in range(-3, 3)] == names * 2
    assert [few.index_of(name) for name in [*names, "n3"]] == [0, 1, 2, None]
    for index in (3, -4):
        with pytest.raises(IndexError):
            few[index]


def test_a_node_info_agrees_with_the_columns_of_its_nodes(few: core.Nodes) -> None:
    infos = few.infos()
    assert [info.label(ZONE) for info in infos] == few.labels(ZONE)
    assert [info.allocatable("cpu") for info in infos] == list(few.allocatable("cpu"))
    assert [info.unschedulable for info in infos] == list(few.unschedulable)
    assert [info.known for info in infos] == list(few.known)
    assert [info.taints for info in infos] == few.taints


def test_a_node_info_shows_the_pods_that_take_room_on_it(few: core.Nodes) -> None:
    store = pod_store(pod("a", node="n1"), pod("b"))
    store.assume(read(pod("b")), "n1")
    snapshot = store.snapshot()
    store.forget("b")
    infos = few.infos(snapshot)
    assert [[found.name for found in info.pods] for info in infos] == [[], [], ["a", "b"]]
    assert [info.requested("cpu") for info in infos] == list(snapshot.requested(few, "cpu"))
    assert [info.requested("pods") for info in infos] == [0, 0, 2]


def test_nodes_taken_without_pods_say_so(few: core.Nodes) -> None:
    for info in (few[0], next(iter(few)), few.infos()[0]):
        with pytest.raises(RuntimeError, match="pods are not known here"):
            info.requested("cpu")
        with pytest.raises(RuntimeError, match="pods are not known here"):
            _ = info.pods
