"""The filter verb: which nodes it keeps, what it says of the others, and when it says nothing."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.doors.wire import (
    Plugin,
    Wire,
    answers,
    names_request,
    needs,
    node,
    nominated,
    pod,
    rejects,
    whole_request,
)

from kubextend.framework import CycleState, Handle, Rejection, Status

UNKNOWN = "node is not in kubextend's node cache"
GOOD, BAD = node("good", labels={"rdma": "true"}), node("bad")
FIELDS = {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}


def test_filter_answers_whole_nodes_with_the_very_nodes_that_came() -> None:
    odd = {**GOOD, "spec": {"x": [1.50, None]}}
    said = Wire(needs()).filter(pod(), whole=[odd, BAD])
    assert set(said.json) == FIELDS
    assert said.json["Nodes"]["items"] == [odd]
    assert (said.unresolvable, said.error) == ({"bad": "no rdma"}, "")


def test_filter_answers_names_with_names_in_the_order_of_the_request() -> None:
    wire = Wire(needs(), nodes=[GOOD, BAD, node("also", labels={"rdma": ""})])
    said = wire.filter(pod(), ["also", "bad", "good"])
    assert set(said.json) == FIELDS
    assert (said.kept, said.json["Nodes"]) == (["also", "good"], None)
    assert said.rejected == {"bad": "no rdma"}


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (Status.unschedulable("full"), "FailedNodes"),
        (Status.unresolvable("full"), "FailedAndUnresolvableNodes"),
    ],
)
def test_the_status_of_a_filter_decides_whether_preemption_may_help(
    status: Status, field: str
) -> None:
    said = Wire(Plugin(filter=answers(status))).filter(pod(), whole=[node("n")])
    assert said.json[field] == said.rejected == {"n": "full"}


def test_filter_tells_at_most_eight_different_reasons() -> None:
    keys = [f"k{number}" for number in range(12)]
    wire = Wire(*(needs(key, f"no {key}", name=key.upper()) for key in keys))
    nodes = [node(f"n{key}", labels=dict.fromkeys(set(keys) - {key}, "")) for key in keys]
    said = wire.filter(pod(), whole=nodes).rejected
    assert set(said) == {f"n{key}" for key in keys}
    assert len({*said.values()}) == 8
    assert said["nk0"] == "no k0"


@pytest.mark.parametrize(
    ("plugin", "of"),
    [(needs(), pod(scheduler_name="other")), (Plugin(permit=answers(None)), pod())],
    ids=["a pod that is passed through", "a profile without filters"],
)
def test_nodes_that_no_filter_is_for_pass_even_before_they_are_listed(
    plugin: Plugin, of: Any
) -> None:
    wire = Wire(plugin, settings={"passThrough": ["other"]})
    assert wire.filter(of, whole=[BAD, GOOD]).json["Nodes"]["items"] == [BAD, GOOD]
    assert wire.filter(of, ["x", "y"]).kept == ["x", "y"]
    wire.nodes.synced = False
    assert wire.filter(of, ["x", "y"]).kept == ["x", "y"]


NEITHER = "the request has neither Nodes nor NodeNames"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"Pod":{},"Nodes":null,"NodeNames":null}', NEITHER),
        (b"{}", NEITHER),
        (b"null", NEITHER),
        (names_request(None, ["a"]), "the request has no Pod"),
        (whole_request(None, [BAD]), "the request has no Pod"),
        (names_request(pod(), ["a"]), "the nodes are not listed yet"),
    ],
)
def test_what_filter_cannot_decide_is_an_error_and_never_a_rejection(
    body: bytes, text: str
) -> None:
    for ignorable in (False, True):
        wire = Wire(needs(), settings={"extender.ignorable": ignorable})
        wire.nodes.synced = False
        said = wire.post("/filter", body)
        assert said.status == 200
        assert text in said.error
        assert (said.json["Nodes"], said.json["NodeNames"], said.rejected) == (None, None, {})
        assert wire.metric("kubextend_verb_requests_total", verb="filter", result="error") == 1


def test_names_without_access_to_a_cluster_are_an_error_that_says_both_remedies() -> None:
    said = Wire(needs(), cluster=False).filter(pod(), ["a"])
    assert "nodeCacheCapable: false" in said.error
    assert "configure `cluster`" in said.error


def test_whole_nodes_are_filtered_before_the_first_list_and_replace_no_watched_node() -> None:
    wire = Wire(needs(), nodes=[node("n")])
    wire.nodes.synced = False
    brought = [node("n", labels={"rdma": ""}), node("m", labels={"rdma": ""})]
    assert wire.filter(pod(), whole=brought).kept == ["n", "m"]
    wire.nodes.synced = True
    assert wire.filter(pod(), ["n"]).rejected == {"n": "no rdma"}
    assert "not seen" in wire.filter(pod(), ["m"]).error


def test_whole_nodes_that_were_seen_before_are_recognised_and_counted() -> None:
    wire = Wire(needs(), nodes=["n"])
    for _ in range(3):
        wire.filter(pod(), whole=[node("a"), node("b")])
    for name, counted in {"nodes": 2, "hits_total": 4, "misses_total": 2}.items():
        assert wire.metric(f"kubextend_node_store_{name}", store="request") == counted


def test_filter_keeps_no_node_of_none_and_reads_the_fields_of_old_schedulers() -> None:
    wire = Wire(needs())
    said = wire.filter(pod(), whole=[])
    assert (said.kept, said.error) == ([], "")
    old = json.dumps({"pod": pod(), "nodes": {"items": [GOOD, BAD]}}).encode()
    said = wire.post("/filter", old)
    assert (said.kept, said.rejected) == (["good"], {"bad": "no rdma"})
    assert wire.metric("kubextend_verb_requests_total", verb="filter", result="ok") == 2
    assert wire.metric("kubextend_verb_nodes_sum", verb="filter") == 2


def test_unknown_nodes_are_rejected_where_a_known_node_passes_and_that_uses_their_seconds() -> None:
    wire = Wire(needs("!rdma"), nodes=[GOOD, BAD])
    said = wire.filter(pod(), ["new", "good", "bad"])
    assert (said.kept, said.rejected) == (["bad"], {"new": UNKNOWN, "good": "no rdma"})
    wire.skip(11)
    assert wire.filter(pod(), ["new"]).rejected == {"new": UNKNOWN}


def test_unknown_nodes_are_an_error_for_ten_seconds_where_no_known_node_passes() -> None:
    wire = Wire(needs(), nodes=[BAD])
    for seconds, is_error in [(0.0, True), (9.9, True), (0.1, False), (290.0, False)]:
        wire.skip(seconds)
        said = wire.filter(pod(), ["bad", "new"])
        assert ("has not seen some of the nodes yet" in said.error) is is_error
        assert said.rejected == ({} if is_error else {"new": UNKNOWN, "bad": "no rdma"})
    assert "newer" not in wire.filter(pod(), ["bad", "newer"]).rejected
    wire.show_node(node("newer", labels={"rdma": ""}))
    assert wire.filter(pod(), ["bad", "newer"]).kept == ["newer"]


def test_where_errors_are_ignored_unknown_nodes_are_rejected_and_wake_the_pod_once_known() -> None:
    wire = Wire(needs(), nodes=[BAD], settings={"extender.ignorable": True})
    said = wire.filter(pod("p"), ["bad", "new"])
    assert (said.kept, said.error) == ([], "")
    assert said.unresolvable == {"new": UNKNOWN, "bad": "no rdma"}
    wire.show_node(node("new", labels={"rdma": ""}))
    assert wire.activator.woken == ["p"]


@pytest.mark.parametrize("ignorable", [False, True])
def test_post_filter_is_not_told_of_a_pod_that_a_node_may_fit_which_the_watch_has_yet_to_bring(
    ignorable: bool,
) -> None:
    plugin = rejects("bad")
    wire = Wire(plugin, nodes=["bad"], settings={"extender.ignorable": ignorable})
    assert bool(wire.filter(pod(), ["bad", "new"]).error) is not ignorable
    assert plugin.told == []
    assert wire.filter(pod("p"), ["bad"]).rejected == {"bad": "its name"}
    assert plugin.told == ["p"]


def test_the_nominated_node_alone_is_no_reason_to_say_that_a_pod_fits_nowhere() -> None:
    plugin, of = rejects("bad", "worse"), nominated(pod("p"), "bad")
    wire = Wire(plugin, nodes=["bad", "worse"])
    for cycle in (1, 2):
        assert wire.filter(of, ["bad"]).rejected == {"bad": "its name"}
        assert plugin.told == ["p"] * (cycle - 1)
        wire.filter(of)
        assert plugin.told == ["p"] * cycle


def test_a_pod_that_in_tree_filters_leave_its_nominated_node_alone_is_woken_like_others() -> None:
    plugin, of = rejects("bad"), nominated(pod("p"), "bad")
    wire = Wire(plugin, nodes=["bad"])
    for _ in range(2):
        wire.filter(of)
    plugin.names.clear()
    wire.changed()
    assert wire.activator.woken == ["p"]


def test_a_pod_that_passes_on_another_node_than_its_nominated_one_is_not_woken() -> None:
    plugin, of = rejects("bad"), nominated(pod("p"), "bad")
    wire = Wire(plugin, nodes=["bad", "good"])
    wire.filter(of, ["bad"])
    assert wire.filter(of).kept == ["good"]
    plugin.names.clear()
    wire.changed()
    assert (wire.activator.woken, plugin.told) == ([], [])


@pytest.mark.parametrize(("most", "attempts", "kept"), [(21, 2, 20), (20, 18, 16), (1, 18, 0)])
def test_sixteen_nodes_are_judged_alone_where_that_may_help(
    most: int, attempts: int, kept: int
) -> None:
    """At most so many pods on all nodes together."""
    asked: list[int] = []

    class Zone:
        name = "Zone"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter_nodes(self, state: CycleState, _pod: Any, nodes: Any) -> Sequence[Rejection]:
            pods = self.handle.pods(state)
            assert pods is not None
            asked.append(sum(len(pods.pods_on(name)) for name in nodes.names))
            full = Status.unschedulable("full")
            return [Rejection(nodes.everything(), full)] if asked[-1] >= most else []

    names = [f"n{number:02}" for number in range(20)]
    waiting = [nominated(pod(f"for-{name}"), name) for name in names]
    wire = Wire(Zone, nodes=names, pods=waiting)
    said = wire.filter(pod())
    # The attempt without nominated pods, the one with all of them, and those of single nodes.
    assert len(asked) == attempts
    assert said.kept == names[:kept]
    assert said.rejected == dict.fromkeys(names[kept:], "full")
