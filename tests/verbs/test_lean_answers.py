"""With ``extender.lastFilter``, filter's answer leaves out rejected nodes where a node passes.

What kube-scheduler does with such answers is in tests/e2e/test_lean_answers.py.
"""

import re
from typing import Any

import pytest
from tests.doors.stories import page_of_metrics
from tests.doors.wire import Plugin, Wire, needs, node, nominated, pod, scores

from kubextend.framework import Status
from kubextend.testing import Cluster

NO_RDMA, FULL = "no rdma", "node is full"
LEAN = {"extender.lastFilter": True}


def full(_state: object, _pod: object, at: Any) -> Status | None:
    return Status.unschedulable(FULL) if "full" in at.name else None


def nodes(*names: str) -> list[dict[str, Any]]:
    return [node(name, labels={} if "plain" in name else {"rdma": ""}) for name in names]


FITS = nodes("plain", "full", "good", "plain-too", "good-too")


def wire(settings: Any) -> Wire:
    """Return a server with a filter that rejects for good, and one that evictions may help."""
    return Wire(needs(reason=NO_RDMA), Plugin("Full", filter=full), settings=settings)


def test_rejected_nodes_are_left_out_where_a_node_passes_and_nothing_else_changes() -> None:
    told, lean = wire({}), wire(LEAN)
    wordy, short = (each.filter(pod(), whole=FITS).json for each in (told, lean))
    assert (wordy["FailedNodes"], wordy["Error"]) == ({"full": FULL}, "")
    assert wordy["FailedAndUnresolvableNodes"] == dict.fromkeys(["plain", "plain-too"], NO_RDMA)
    assert short == wordy | {"FailedNodes": None, "FailedAndUnresolvableNodes": None}
    assert counters(lean) == counters(told)
    assert any('result="feasible"' in line for line in counters(lean))
    (call,) = lean.decision(pod())["attempts"][0]["calls"]
    rejected = [(each["reason"], each["nodes"]) for each in call["nodes"]["rejected"]]
    assert rejected == [(NO_RDMA, 2), (FULL, 1)]
    rows = lean.get("/decisions/uid-of-pod/nodes").json["items"]
    reasons = {"plain": NO_RDMA, "full": FULL, "good": "", "plain-too": NO_RDMA, "good-too": ""}
    assert {row["node"]: row["reason"] for row in rows} == reasons


def counters(of: Wire) -> list[str]:
    lines = page_of_metrics(of).splitlines()
    return [line for line in lines if re.search("_(total|count){", line)]


def test_names_that_are_kept_stay_as_they_came() -> None:
    lean = Wire(needs(), nodes=nodes("plain", "b", "c"), settings=LEAN)
    body = b'{"Pod":{"metadata":{}},"Nodes":null,"NodeNames":["plain", "b", "\\u0063"]}'
    expected = b'{"Nodes":null,"NodeNames":["b","\\u0063"],"FailedNodes":null,'
    assert lean.post("/filter", body).body == (
        expected + b'"FailedAndUnresolvableNodes":null,"Error":""}'
    )


@pytest.mark.parametrize(
    ("names", "to"),
    [(["plain", "full"], ""), (["plain"], "plain"), (["full"], "full"), (["full"], "")],
)
def test_everything_is_told_where_no_node_passes(names: list[str], to: str) -> None:
    of = nominated(pod(), to) if to else pod()
    lean, told = (wire(each).filter(of, whole=nodes(*names)) for each in (LEAN, {}))
    assert lean.json == told.json
    assert set(lean.rejected) == set(names)


@pytest.mark.parametrize(
    ("names", "points"),
    [(["plain", "good", "full"], [0, 10, 0]), (["plain", "full"], [0, 0]), (["good"], [10])],
)
def test_prioritize_names_every_node_whatever_its_score(
    names: list[str], points: list[int]
) -> None:
    """kube-scheduler from 1.35 on breaks ties by chance, among nodes that an answer names alone."""
    said = Wire(scores(good=100), settings=LEAN).prioritize(pod(), whole=nodes(*names))
    assert said.json == [
        {"Host": name, "Score": each} for name, each in zip(names, points, strict=True)
    ]


def test_a_plugins_own_test_sees_every_reason() -> None:
    config = wire(LEAN).config
    with Cluster(config, nodes=FITS) as cluster:
        result = cluster.filter(pod())
    assert result.kept == ("good", "good-too")
    assert result.rejected == {"plain": NO_RDMA, "plain-too": NO_RDMA, "full": FULL}
