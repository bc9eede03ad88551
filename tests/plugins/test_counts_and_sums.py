"""Counts by selector, sums of scores, and what Prometheus may answer."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from kubextend import core, testing
from kubextend.prometheus import NodeLabel, PrometheusError, read_vector

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def listed(kind: str, items: Iterable[Mapping[str, Any]]) -> bytes:
    metadata = {"resourceVersion": "1"}
    return json.dumps({"kind": kind, "metadata": metadata, "items": list(items)}).encode()


def event(kind: str, of: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": of}).encode()


def in_rack(name: str, rack: int) -> Mapping[str, Any]:
    return {"metadata": {"name": name, "labels": {"rack": f"r{rack}"}}}


def of_app(name: str, app: int, namespace: str, node: str) -> Mapping[str, Any]:
    labels = {"app": f"a{app}"}
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def test_more_selectors_than_are_remembered_are_right_while_pods_and_labels_change() -> None:
    """Counts of 512 selectors and matches of 64 are remembered; here more are asked for."""
    draw = random.Random(65)
    names = [f"n{number}" for number in range(20)]
    racks = {name: number for number, name in enumerate(names)}
    pods = {f"p{of}": (of % 700, f"ns{of % 3}", names[of % 20]) for of in range(2100)}
    nodes, store = core.NodeStore(), core.PodStore()
    nodes.replace(listed("NodeList", itertools.starmap(in_rack, racks.items())))
    store.replace(listed("PodList", (of_app(name, *pod) for name, pod in pods.items())))
    for _ in range(3):
        snapshot, every = store.snapshot(), nodes.select(names)
        expected = Counter(pods.values())
        for _, app, namespace in itertools.product(range(2), range(700), ("ns0", "ns1")):
            counts = snapshot.count(every, f"app=a{app}", namespaces=[namespace])
            assert list(counts) == [expected[app, namespace, name] for name in names]
        for _, rack in itertools.product(range(2), range(100)):
            assert list(every.matches(f"rack=r{rack}")) == [racks[name] == rack for name in names]
        changed = draw.sample(names, 5)
        for name, (_, namespace, node) in [*pods.items()]:
            if node in changed and draw.random() < 0.5:
                pods[name] = draw.randrange(700), namespace, node
                store.apply(event("MODIFIED", of_app(name, *pods[name])))
            elif node in changed and draw.random() < 0.5:
                store.apply(event("DELETED", of_app(name, *pods.pop(name))))
        for name in changed:
            racks[name] = draw.randrange(100)
            nodes.apply(event("MODIFIED", in_rack(name, racks[name])))


@pytest.mark.parametrize(
    ("scores", "total"),
    [
        ([HIGHEST, HIGHEST], HIGHEST),
        ([LOWEST, LOWEST], LOWEST),
        ([HIGHEST, 1, -1], HIGHEST),
        ([LOWEST, -1, 1], LOWEST),
        ([HIGHEST, HIGHEST, LOWEST, LOWEST], -2),
        ([60, 40], 100),
        ([], 0),
    ],
)
def test_a_sum_of_scores_beyond_64_bits_is_the_nearest(scores: Sequence[int], total: int) -> None:
    plugin = core.NativePlugin.label_match([], [("", "", score) for score in scores])
    nodes = testing.make_nodes(2)
    assert list(plugin.score_nodes(testing.make_pod("p"), nodes)) == [total] * 2


def test_weighted_scores_beyond_64_bits_are_the_nearest_that_fits() -> None:
    for score in (HIGHEST, LOWEST):
        assert list(core.weigh([([score], HIGHEST)] * 2)) == [score]


INSTANCE = NodeLabel("instance")
EMPTY = '{"status":"success","data":{"resultType":"vector","result":[]}}'


@pytest.mark.parametrize(
    "body",
    [
        EMPTY,
        EMPTY.replace("[]", "null"),
        EMPTY.replace("[]}", 'null},"warnings":["w"],"infos":null'),
        '{"status":"success","data":null}',
        '{"status":"success","data":null,"warnings":null,"error":""}',
    ],
)
def test_an_empty_answer_of_prometheus_may_be_null(body: str) -> None:
    assert read_vector(body.encode(), INSTANCE) == read_vector(EMPTY.encode(), INSTANCE)
    assert read_vector(body.encode(), INSTANCE).by_node == {}


def test_a_series_without_labels_names_no_node() -> None:
    vector = read_vector(
        EMPTY.replace("[]", '[{"metric":null,"value":[1,"5"]}]').encode(), INSTANCE
    )
    assert (vector.by_node, vector.dropped) == ({}, {"no_node": 1})


@pytest.mark.parametrize(
    "body",
    [
        '{"status":"success","data":{"resultType":"matrix","result":null}}',
        '{"status":"success","data":{"resultType":null,"result":null}}',
        '{"status":"error","data":null,"error":"no"}',
    ],
)
def test_an_answer_that_is_no_instant_vector_stays_an_error(body: str) -> None:
    with pytest.raises(PrometheusError):
        read_vector(body.encode(), INSTANCE)
