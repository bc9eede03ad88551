"""Tests that the generated nodes are like those that a real kube-scheduler sent."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from nodes import RDMA, Cluster

RECORDED = Path(__file__).parents[1] / "tests/data/wire/full/filter.json"


def recorded_node(*, managed_fields: bool) -> dict[str, Any]:
    node: dict[str, Any] = orjson.loads(RECORDED.read_bytes())["Nodes"]["items"][0]
    if not managed_fields:
        del node["metadata"]["managedFields"]
    return node


@pytest.mark.parametrize("managed_fields", [False, True])
def test_a_generated_node_has_the_shape_and_size_of_a_recorded_one(managed_fields: bool) -> None:
    recorded = recorded_node(managed_fields=managed_fields)
    item = Cluster.of(1, managed_fields=managed_fields).items[0]
    node = orjson.loads(item)
    assert [list(node), list(node["metadata"]), list(node["status"])] == [
        list(recorded),
        list(recorded["metadata"]),
        list(recorded["status"]),
    ]
    assert item.startswith(b'{"metadata":{"name":"')
    assert len(node["status"]["images"]) == len(recorded["status"]["images"])
    assert list(node["metadata"]["labels"]) == sorted(node["metadata"]["labels"])
    assert len(item) == pytest.approx(len(orjson.dumps(recorded)), rel=0.02)


def test_a_request_has_the_keys_of_a_recorded_one_in_their_order() -> None:
    recorded = orjson.loads(RECORDED.read_bytes())
    sent = orjson.loads(Cluster.of(2).full_body("pod"))
    assert list(sent) == list(recorded)
    assert list(sent["Nodes"]) == list(recorded["Nodes"])
    assert list(sent["Pod"]) == list(recorded["Pod"])
    assert list(sent["Pod"]["metadata"]) == list(recorded["Pod"]["metadata"])


def test_every_prefix_of_a_cluster_has_its_share_of_rdma_nodes() -> None:
    cluster = Cluster.of(100)
    labels = [orjson.loads(item)["metadata"]["labels"] for item in cluster.items]
    assert [entry.get(RDMA) == "true" for entry in labels] == list(cluster.has_rdma)
    assert [len(cluster.first(size).kept_names) for size in (5, 50, 100)] == [2, 20, 40]
    assert {len(entry) - (RDMA in entry) for entry in labels} == {31}


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert Cluster.of(3).full_body("pod") == Cluster.of(5).first(3).full_body("pod")
