"""Checks answers of filter and prioritize against the generated nodes, not against our output."""

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
    """Check a full-mode filter answer: RDMA nodes kept byte for byte, others with their reason."""
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
    """Check a names-mode filter answer: names of RDMA nodes kept, others with their reason."""
    result = orjson.loads(answer)
    assert result["NodeNames"] == cluster.kept_names
    assert result["Nodes"] is None
    _check_rejections(cluster, result)


def check_nothing_rejected(cluster: Cluster, answer: bytes) -> None:
    """Check a names-mode filter answer that keeps every name."""
    result = orjson.loads(answer)
    assert result["NodeNames"] == list(cluster.names)
    assert not result["FailedNodes"]
    assert not result["FailedAndUnresolvableNodes"]
    assert not result["Error"]


def check_equal_scores(cluster: Cluster, answer: bytes) -> None:
    """Check a prioritize answer in which every node has score 50, which is 5 points on the wire."""
    assert orjson.loads(answer) == [{"Host": name, "Score": 5} for name in cluster.names]


def _check_rejections(cluster: Cluster, result: dict[str, Any]) -> None:
    rejected = dict.fromkeys(cluster.rejected_names, _REASON)
    assert result["FailedAndUnresolvableNodes"] == rejected
    assert not result["FailedNodes"]
    assert not result["Error"]
