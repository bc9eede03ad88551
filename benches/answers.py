"""What an answer must say, worked out from the generated nodes and never from our own output."""

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson

from nodes import Cluster

__all__ = [
    "Check",
    "check_equal_scores",
    "check_full_answer",
    "check_names_answer",
    "check_nothing_rejected",
]

Check: TypeAlias = Callable[[Cluster, bytes], None]

_REASON = "Node does not support RDMA"


def check_full_answer(cluster: Cluster, answer: bytes) -> None:
    """Kept nodes are those with the label, byte for byte as they were sent; the others say why."""
    result = orjson.loads(answer)
    kept = result["Nodes"]["items"]
    assert len(kept) == len(cluster.kept_items)
    assert kept[0] == orjson.loads(cluster.kept_items[0])
    sent = b",".join(cluster.kept_items)
    start = answer.index(cluster.kept_items[0])
    assert answer[start : start + len(sent)] == sent
    assert result["NodeNames"] is None
    _check_rejections(cluster, result)


def check_names_answer(cluster: Cluster, answer: bytes) -> None:
    """Kept names are those of the nodes with the label; the others say why."""
    result = orjson.loads(answer)
    assert result["NodeNames"] == cluster.kept_names
    assert result["Nodes"] is None
    _check_rejections(cluster, result)


def check_nothing_rejected(cluster: Cluster, answer: bytes) -> None:
    """Every name is kept."""
    result = orjson.loads(answer)
    assert result["NodeNames"] == list(cluster.names)
    assert not result["FailedNodes"]
    assert not result["FailedAndUnresolvableNodes"]
    assert not result["Error"]


def check_equal_scores(cluster: Cluster, answer: bytes) -> None:
    """Every node has 50 points of 100, a tenth of them on the wire."""
    assert orjson.loads(answer) == [{"Host": name, "Score": 5} for name in cluster.names]


def _check_rejections(cluster: Cluster, result: dict[str, Any]) -> None:
    rejected = dict.fromkeys(cluster.rejected_names, _REASON)
    assert result["FailedAndUnresolvableNodes"] == rejected
    assert not result["FailedNodes"]
    assert not result["Error"]
