"""Counting pods by node and by topology domain, beside a slow count of our own."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_world import event, listed, node, pod

from kubextend import core
from kubextend.errors import TruncatedPodError

ZONE = "zone"
NAMES = ["n0", "n1", "n2", "n3", "n4"]
SELECTORS = [None, "app=web", "app in (web,db),tier!=x", "!app"]


def shown_pod(name: str, node_name: str | None, app: str, namespace: str, ends: bool) -> Any:
    metadata = {"name": name, "namespace": namespace, "uid": name}
    labels = {"labels": {"app": app}} if app else {}
    ending = {"deletionTimestamp": "2030-01-01T00:00:00Z"} if ends else {}
    return pod(name, node=node_name, metadata=metadata | labels | ending)


PODS = st.builds(
    shown_pod,
    st.sampled_from([f"p{i}" for i in range(12)]),
    st.sampled_from([*NAMES, None]),
    st.sampled_from(["web", "db", ""]),
    st.sampled_from(["a", "b"]),
    st.booleans(),
)
ZONES = st.lists(st.sampled_from(["east", "west", None]), min_size=5, max_size=5)
CHANGES = st.lists(st.tuples(st.sampled_from(["ADDED", "DELETED"]), PODS), max_size=12)


def slowly(
    store: core.PodStore, name: str, selector: str | None, only: Sequence[str] | None, ending: bool
) -> int:
    return sum(
        found.matches(selector or "")
        and (only is None or found.namespace in only)
        and (ending or found.deletion_timestamp is None)
        for found in store.snapshot().pods_on(name)
    )


@given(
    ZONES,
    st.lists(CHANGES, max_size=4),
    st.sampled_from(SELECTORS),
    st.sampled_from([None, ["a"], ["b", "a"], []]),
    st.booleans(),
)
def test_counts_are_those_of_a_slow_count_whatever_came_and_went(
    zones: list[str | None],
    rounds: list[list[tuple[str, Any]]],
    selector: str | None,
    namespaces: list[str] | None,
    terminating: bool,
) -> None:
    stored = core.NodeStore()
    labels = [{ZONE: zone} if zone else {} for zone in zones]
    stored.replace(listed([node(name, of) for name, of in zip(NAMES, labels, strict=True)]))
    pods = core.PodStore()
    everything, some = stored.select(NAMES), stored.select(["n3", "unknown", "n0"])
    zone_of = dict(zip(NAMES, zones, strict=True)) | {"unknown": None}
    for changes in [[], *rounds]:
        for kind, shown in changes:
            pods.apply(event(kind, shown))
        snapshot = pods.snapshot()
        how: dict[str, Any] = {"namespaces": namespaces, "terminating": terminating}
        by_node = {name: slowly(pods, name, selector, namespaces, terminating) for name in NAMES}
        assert list(snapshot.count(everything, selector, **how)) == list(by_node.values())
        for among, where in ((everything, NAMES), (some, ["n3", "n0"]), (None, ["n3", "n0"])):
            counts = snapshot.count_by(ZONE, some, selector, among=among, **how)
            assert list(counts) == [
                -1
                if (zone := zone_of[name]) is None
                else sum(by_node[other] for other in where if zone_of[other] == zone)
                for name in some.names
            ]


def test_snapshots_with_other_pods_count_their_own() -> None:
    stored, pods = core.NodeStore(), core.PodStore()
    stored.replace(listed([node(name) for name in NAMES]))
    pods.replace(listed([pod("a", node="n0"), pod("b", node="n0"), pod("c", node="n1")]))
    nodes, before = stored.select(NAMES), pods.snapshot()
    moved = before.before([("n0", ["a"])]).with_places([(pods.pods()[0], "n4")])
    for _ in range(2):
        assert list(before.count(nodes)) == [2, 1, 0, 0, 0]
        assert sum(moved.count(nodes)) == 3
        assert moved.count(nodes)[0] == 1
    pods.apply(event("DELETED", pod("c", node="n1")))
    assert list(pods.snapshot().count(nodes)) == [2, 0, 0, 0, 0]
    assert list(before.count(nodes)) == [2, 1, 0, 0, 0]


def test_more_selectors_than_are_remembered_are_counted_as_well() -> None:
    stored, pods = core.NodeStore(), core.PodStore()
    stored.replace(listed([node("n0")]))
    metadata = {"name": "p", "namespace": "ns", "uid": "p", "labels": {"app": "7"}}
    pods.replace(listed([pod("p", node="n0", metadata=metadata)]))
    nodes, snapshot = stored.select(["n0"]), pods.snapshot()
    for _ in range(2):
        counts = [snapshot.count(nodes, f"app={i}")[0] for i in range(200)]
        assert counts == [int(i == 7) for i in range(200)]


def test_a_pod_without_its_labels_is_an_error_in_its_namespace_only() -> None:
    large = {f"key{i}": "v" for i in range(100)}
    metadata = {"name": "p", "namespace": "large", "uid": "p", "labels": large}
    stored, pods = core.NodeStore(), core.PodStore(max_pod_bytes=500)
    stored.replace(listed([node("n0", {ZONE: "a"})]))
    pods.replace(listed([pod("p", node="n0", metadata=metadata)]))
    nodes, snapshot = stored.select(["n0"]), pods.snapshot()
    for _ in range(2):
        assert list(snapshot.count(nodes, "a=b", namespaces=["ns"])) == [0]
        with pytest.raises(TruncatedPodError):
            snapshot.count(nodes, "a=b")
        with pytest.raises(TruncatedPodError):
            snapshot.count_by(ZONE, nodes, "a=b", namespaces=["large", "ns"])
        with pytest.raises(TruncatedPodError):
            snapshot.with_places([(pods.pods()[0], "n1")]).placed_with_label("large", "a", "b")
        assert snapshot.with_places([(pods.pods()[0], "n1")]).placed_with_label("b", "a", "b") == []


def test_pods_without_their_labels_are_counted_where_no_label_is_asked_for() -> None:
    large = {f"key{i}": "v" for i in range(100)}
    metadata = {"name": "p", "namespace": "large", "uid": "p", "labels": large}
    stored, pods = core.NodeStore(), core.PodStore(max_pod_bytes=500)
    stored.replace(listed([node("n0", {ZONE: "a"})]))
    pods.replace(listed([pod("p", node="n0", metadata=metadata)]))
    assert list(pods.snapshot().count(stored.select(["n0"]))) == [1]


@pytest.mark.parametrize("others", [1, 20_000])
def test_each_of_many_namespaces_counts(others: int) -> None:
    stored, pods = core.NodeStore(), core.PodStore()
    stored.replace(listed([node("n0")]))
    shown = [shown_pod(name, "n0", "web", name, ends=False) for name in ("a", "m", "z", "zz")]
    pods.replace(listed(shown))
    namespaces = ["z", *(f"n{i}" for i in range(others)), "a"]
    for _ in range(2):
        assert list(pods.snapshot().count(stored.select(["n0"]), namespaces=namespaces)) == [2]


def test_a_plugin_that_counts_what_pods_use_refuses_to_answer_without_pods() -> None:
    stored, pods = core.NodeStore(), core.PodStore()
    stored.replace(listed([node("n0")]))
    pods.replace(listed([pod("p")]))
    [asked], nodes = pods.pods(), stored.select(["n0"])
    resources = [("cpu", 1)]
    fit = core.NativePlugin.node_resources_fit("LeastAllocated", resources, [], set(), set())
    balanced = core.NativePlugin.node_resources_balanced_allocation(resources)
    for call in (fit.filter_nodes, fit.score_nodes, balanced.score_nodes):
        with pytest.raises(RuntimeError, match="pods are not known here"):
            call(asked, nodes)


@given(ZONES, st.lists(st.sampled_from([*NAMES, "unknown"]), max_size=6), st.booleans())
def test_topology_is_the_value_of_each_node_by_its_number(
    zones: list[str | None], asked: list[str], whole: bool
) -> None:
    shown = [
        node(name, {ZONE: zone} if zone else {}) for name, zone in zip(NAMES, zones, strict=True)
    ]
    stored = core.NodeStore()
    stored.replace(listed(shown[:2]))
    stored.select(NAMES).topology(ZONE)
    stored.replace(listed(shown))
    nodes = stored.select(asked)
    if whole:
        body = b'{"Nodes":' + listed(shown) + b"}"
        found = core.read_args(body).nodes
        assert found is not None
        nodes = found
    codes, values = nodes.topology(ZONE)
    assert codes.format == "q"
    assert [None if code < 0 else values[code] for code in codes] == nodes.labels(ZONE)
    assert sorted(values) == sorted({value for value in nodes.labels(ZONE) if value is not None})


def test_nodes_show_the_pods_that_they_were_given_and_tell_whether_these_were_read() -> None:
    stored, pods = core.NodeStore(), core.PodStore()
    stored.replace(listed([node("n0"), node("n1")]))
    pods.replace(listed([pod("a", node="n1")]))
    plain = stored.nodes()
    for read in (lambda: plain.pods, lambda: plain[0].pods, lambda: plain[0].requested("cpu")):
        with pytest.raises(RuntimeError, match="set needs_pods = True"):
            read()
    for read_one in (
        lambda nodes: nodes.pods.pods_on("n1"),
        lambda nodes: nodes[1].pods,
        lambda nodes: next(iter(nodes.only(core.Mask([False, True])))).pods,
        lambda nodes: nodes.latest().infos()[1].pods,
    ):
        nodes = plain.with_pods(pods.snapshot())
        assert nodes.names == ["n0", "n1"]
        assert not nodes.pods_read
        assert [found.name for found in read_one(nodes)] == ["a"]
        assert nodes.pods_read
    assert not plain.pods_read
