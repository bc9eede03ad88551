"""Counts of pods by node and by topology domain, against a slow count."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.core_objects import event, listed, pod
from tests.doors.core_objects import node_with_room as node

from kubextend import core

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


@pytest.mark.slow
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
