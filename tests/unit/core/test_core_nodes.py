"""``Nodes``: masks, labels and buffers aligned with the request's order."""

import json
from collections.abc import Callable

import core_world as world
import pytest

from kubextend import core

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def nodes() -> core.Nodes:
    return world.nodes_of(
        world.node("a", {"zone": "x", "gpu": ""}, spec={"unschedulable": True}),
        world.node(
            "b",
            {"zone": "y"},
            spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            status={"allocatable": {"cpu": "1500m", "memory": "1Ki", "x/gpu": "2"}},
        ),
        world.node("c", status={"allocatable": {"cpu": 2, "memory": "0.5"}}),
    )


def test_names_and_length(nodes: core.Nodes) -> None:
    assert len(nodes) == 3
    assert nodes.names == ["a", "b", "c"]
    assert repr(nodes) == "<Nodes: 3>"


@pytest.mark.parametrize(
    "names", [[], ["a"], ["a", "b", "a"], ['a"b', "\\", "\0\n\x1f", "ä", "\U0001f600", "\x7f"]]
)
def test_the_names_as_json_are_the_names(names: list[str]) -> None:
    brought = [world.node(name) for name in names]
    stored = core.NodeStore()
    stored.replace(world.node_list(brought))
    for nodes in (core.NodeStore().select(names), world.nodes_of(*brought), stored.select(names)):
        assert json.loads(nodes.names_json()) == nodes.names == names


def test_only_has_the_nodes_of_a_mask_in_order_known_or_not(nodes: core.Nodes) -> None:
    left = nodes.only(core.Mask([False, True, True]))
    assert left.names == ["b", "c"]
    assert left.labels("zone") == ["y", None]
    assert nodes.only(nodes.nothing()).names == []
    with_unknown = core.NodeStore().select(["x", "y", "z"])
    some = with_unknown.only(core.Mask([True, False, True]))
    assert (some.names, list(some.known)) == (["x", "z"], [False, False])
    assert list(some.only(core.Mask([False, True])).known) == [False]
    with pytest.raises(ValueError, match="2"):
        nodes.only(core.Mask([True, False]))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda nodes: nodes.everything(), [True, True, True]),
        (lambda nodes: nodes.nothing(), [False, False, False]),
        (lambda nodes: nodes.known, [True, True, True]),
        (lambda nodes: nodes.unschedulable, [True, False, False]),
        (lambda nodes: nodes.matches("zone"), [True, True, False]),
        (lambda nodes: nodes.matches(core.Selector("zone!=x")), [False, True, True]),
        (lambda nodes: nodes.matches("gpu="), [True, False, False]),
        (lambda nodes: nodes.tolerated_by(world.pod_of()), [True, False, True]),
        (
            lambda nodes: nodes.tolerated_by(world.pod_of(tolerations=[{"operator": "Exists"}])),
            [True, True, True],
        ),
        (
            lambda nodes: nodes.affine_to(world.pod_of(nodeSelector={"zone": "y"})),
            [False, True, False],
        ),
        (lambda nodes: nodes.affine_to(world.pod_of()), [True, True, True]),
    ],
)
def test_masks(
    nodes: core.Nodes, make: Callable[[core.Nodes], core.Mask], expected: list[bool]
) -> None:
    assert list(make(nodes)) == expected


def test_labels_and_taints(nodes: core.Nodes) -> None:
    assert nodes.labels("zone") == ["x", "y", None]
    assert nodes.labels("gpu") == ["", None, None]
    assert nodes.labels("absent") == [None, None, None]
    assert nodes.taints == [[], [("k", "v", "NoSchedule")], []]


def test_allocatable_is_milli_for_cpu_and_units_for_the_rest(nodes: core.Nodes) -> None:
    assert list(nodes.allocatable("cpu")) == [0, 1500, 2000]
    assert list(nodes.allocatable("memory")) == [0, 1024, 1], "half a byte counts as one"
    assert list(nodes.allocatable("x/gpu")) == [0, 2, 0]


def test_buffers_are_read_only_views_of_int64(nodes: core.Nodes) -> None:
    view = nodes.allocatable("cpu")
    assert isinstance(view, memoryview)
    assert (view.format, view.itemsize, view.ndim, view.shape) == ("q", 8, 1, (3,))
    assert view.readonly
    assert view.contiguous
    with pytest.raises(TypeError):
        view[0] = 1
    assert list(world.nodes_of().allocatable("cpu")) == []


def preferred(*terms: tuple[int, str]) -> core.Pod:
    entries = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for weight, key in terms
    ]
    return world.pod_of(affinity={"nodeAffinity": {PREFERRED: entries}})


def test_preferred_by_adds_the_weights_of_the_terms_that_match(nodes: core.Nodes) -> None:
    assert list(nodes.preferred_by(preferred((10, "zone"), (5, "gpu")))) == [15, 10, 0]
    assert list(nodes.preferred_by(world.pod_of())) == [0, 0, 0]


def test_a_preferred_term_that_cannot_be_parsed_is_a_value_error(nodes: core.Nodes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        nodes.preferred_by(preferred((1, "not a key")))


@pytest.mark.parametrize("selector", ["zone in", "a=b=c"])
def test_a_text_that_is_no_selector_is_a_value_error(nodes: core.Nodes, selector: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        nodes.matches(selector)


def test_unknown_names_have_nothing_and_match_nothing() -> None:
    store = world.watched(world.node("a", {"zone": "x"}, status={"allocatable": {"cpu": "1"}}))
    args = core.read_args(world.names(["ghost", "a", None]), watched=store)
    nodes = args.nodes
    assert nodes is not None
    assert nodes.names == ["ghost", "a", ""]
    assert list(nodes.known) == [False, True, False]
    assert list(nodes.matches("!other")) == [False, True, False]
    assert list(nodes.affine_to(world.pod_of())) == [False, True, False]
    assert nodes.labels("zone") == [None, "x", None]
    assert list(nodes.allocatable("cpu")) == [0, 1000, 0]
    assert nodes.taints == [[], [], []]


def test_latest_looks_names_up_again_and_leaves_the_old_view_alone() -> None:
    store = world.watched(world.node("a", {"zone": "x"}), world.node("b"))
    nodes = core.read_args(world.names(["b", "a", "new"]), watched=store).nodes
    assert nodes is not None
    store.apply(world.event("MODIFIED", world.node("a", {"zone": "y"})))
    store.apply(world.event("DELETED", world.node("b")))
    store.apply(world.event("ADDED", world.node("new", {"zone": "z"})))
    latest = nodes.latest()
    assert latest.names == ["b", "a", "new"]
    assert latest.labels("zone") == [None, "y", "z"]
    assert list(latest.known) == [False, True, True]
    assert nodes.labels("zone") == [None, "x", None]
    assert nodes.latest().latest().labels("zone") == [None, "y", "z"]


def test_latest_asks_the_watched_store_where_requests_fill_another() -> None:
    store, watched = core.RequestStore(), world.watched(world.node("a", {"zone": "x"}))
    core.read_args(world.full([world.node("a", {"zone": "of a request"})]), store)
    nodes = core.read_args(world.names(["a", "new"]), store, watched=watched).nodes
    assert nodes is not None
    watched.apply(world.event("ADDED", world.node("new", {"zone": "z"})))
    assert nodes.labels("zone") == ["x", None]
    assert nodes.latest().labels("zone") == ["x", "z"]


def test_the_nodes_of_a_full_request_are_their_own_latest() -> None:
    store, watched = core.RequestStore(), world.watched(world.node("a", {"zone": "watched"}))
    body = world.full([world.node("a", {"zone": "x"}), world.node("b", {"zone": "x"})])
    for _ in range(2):  # new to the store, then recognised
        nodes = core.read_args(body, store, watched=watched).nodes
        assert nodes is not None
        core.read_args(world.full([world.node("c")]), store)
        latest = nodes.latest()
        assert latest.names == ["a", "b"]
        assert latest.labels("zone") == ["x", "x"]
        assert latest.known.all()
