"""PreFilter to NormalizeScore as kube-scheduler 1.36 runs them, to the letter of its framework."""

from typing import Any

import pytest
from tests.doors import command_line
from tests.doors.stories import Plugin, Said, configuration, unlabelled
from tests.doors.wire import raises

from kubextend import core, testing
from kubextend.framework import PreFilterResult, Rejection, Status

POD = testing.pod_manifest("p")
XYZ = ["x", "y", "z"]
NO = Status.unschedulable("no")


def rejecting(*names: str, status: Status = NO) -> list[Rejection]:
    """Reject some of the nodes x, y and z."""
    return [Rejection(core.Mask([name in names for name in XYZ]), status)]


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


FIRST, SECOND = Status.unschedulable("first"), Status.unschedulable("second")
NEVER = Status.unresolvable("never")
BOTH_FAIL = "node(s) didn't satisfy plugin(s) [A B] simultaneously"
# What A and B say; which were called; the reason of all nodes, whether it is final; who is kept.
PRE_FILTER: dict[str, tuple[Any, Any, str, str, bool, str]] = {
    "nothing to say": (None, None, "AB", "", False, "xyz"),
    "success": (Status.success(), None, "AB", "", False, "xyz"),
    "skip of one": (Status.skip(), None, "AB", "", False, "xyz"),
    "unresolvable stops at once": (NEVER, None, "A", "never", True, ""),
    "unschedulable lets the others run": (FIRST, None, "AB", "first", False, ""),
    "the last unschedulable counts": (FIRST, SECOND, "AB", "second", False, ""),
    "unresolvable after unschedulable counts": (FIRST, NEVER, "AB", "never", True, ""),
    "results intersect": (only("x", "y"), only("y", "z"), "AB", "", True, "y"),
    "a result beside all nodes": (only("x"), None, "AB", "", True, "x"),
    "nothing left by two": (only("x"), only("y"), "AB", BOTH_FAIL, True, ""),
    "nothing left by one": (only(), None, "A", "node(s) didn't satisfy plugin A", True, ""),
    "a result with a status": ((only("x"), Status.success()), None, "AB", "", True, "x"),
}


@pytest.mark.parametrize("case", PRE_FILTER.values(), ids=PRE_FILTER)
def test_pre_filter_plugins_decide_together(case: Any) -> None:
    first, second, called, reason, is_final, kept = case
    diary: list[str] = []
    cluster = testing.Cluster(
        Said("A", diary, pre_filter=first), Said("B", diary, pre_filter=second), nodes=XYZ
    )
    result = cluster.filter(POD)
    assert diary == [f"{name}.pre_filter" for name in called]
    assert result.kept == tuple(kept)
    assert result.unresolvable == (result.rejected.keys() if is_final else frozenset())
    if reason:
        assert set(result.rejected.values()) == {reason}


@pytest.mark.parametrize(
    ("says", "called", "rejected"),
    [
        ({"pre_filter": Status.skip(), "filter_nodes": rejecting("x")}, "A.pre B.filter", {}),
        ({"pre_filter": NO, "filter_nodes": []}, "A.pre", dict.fromkeys(XYZ, "no")),
        ({"filter_nodes": rejecting(*XYZ)}, "A.filter", dict.fromkeys(XYZ, "no")),
    ],
    ids=["Skip takes out the plugin's own Filter", "a rejection of all", "no node is left"],
)
def test_earlier_filters_decide_which_filters_run(says: Any, called: str, rejected: Any) -> None:
    diary: list[str] = []
    first, second = Said("A", diary, **says), Said("B", diary, filter_nodes=[])
    assert testing.Cluster(first, second, nodes=XYZ).filter(POD).rejected == rejected
    assert [call.rpartition("_")[0] for call in diary] == called.split()


def test_a_plugin_whose_pre_filter_failed_and_may_be_ignored_filters_nothing() -> None:
    calls: list[str] = []
    methods = {
        "pre_filter": raises(RuntimeError("down")),
        "filter_nodes": lambda *_: calls.append("filter_nodes"),
    }
    failing = type("Failing", (), {"name": "Failing", **methods})
    ignored = {"pluginConfig": [{"name": "Failing", "failurePolicy": "Ignore"}]}
    profile = command_line.profile("default-scheduler", multiPoint="Failing") | ignored
    cluster = testing.Cluster(configuration({"profiles": [profile]}, failing), nodes=XYZ)
    assert cluster.filter(POD).kept == ("x", "y", "z")
    assert calls == []


def test_the_first_filter_that_rejects_a_node_gives_its_status() -> None:
    first = Said("A", [], filter_nodes=rejecting("x", status=FIRST))
    second = Said("B", [], filter_nodes=rejecting("x", "y", status=NEVER))
    result = testing.Cluster(first, second, nodes=XYZ).filter(POD)
    assert (result.kept, result.unresolvable) == (("z",), {"y"})
    assert result.rejected == {"x": "first", "y": "never"}


@pytest.mark.parametrize("answer", [None, Status.success(), NO, NEVER, Status.pending("later")])
def test_a_filter_of_one_node_may_answer_each_of_these(answer: Status | None) -> None:
    result = testing.run_filter(Plugin(filter=lambda *_: answer), POD, ["x", "y"])
    reason = "" if answer is None else answer.reason
    assert result.rejected == ({"x": reason, "y": reason} if reason else {})


def test_a_filter_of_one_node_is_asked_only_about_nodes_that_are_left() -> None:
    asked: list[str] = []

    def judge(_state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        asked.append(node.name)
        return NO if node.name == "y" else None

    first = Said("A", [], filter_nodes=rejecting("x", status=FIRST))
    result = testing.Cluster(first, Plugin(filter=judge), nodes=XYZ).filter(POD)
    assert (result.kept, result.rejected) == (("z",), {"x": "first", "y": "no"})
    narrows = Plugin(filter=judge, pre_filter=lambda *_: only("z"))
    assert testing.Cluster(narrows, nodes=XYZ).filter(POD).kept == ("z",)
    assert asked == ["y", "z", "z"]


def test_plugins_of_one_node_see_each_node_once_and_in_order() -> None:
    names = [str(number) for number in range(100)]
    seen: list[str] = []

    def odd(_state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        seen.append(node.name)
        return NO if int(node.name) % 2 else None

    assert testing.run_filter(Plugin(filter=odd), POD, names).kept == tuple(names[::2])
    assert seen == names
    number = Plugin(score=lambda _, __, node: int(node.name))
    assert testing.run_score(number, POD, names) == {name: int(name) for name in names}


@pytest.mark.parametrize(
    ("first", "second", "called"),
    [
        *((FIRST, said, "AB") for said in (None, SECOND)),
        *((said, None, "A") for said in (None, NEVER)),
    ],
)
def test_post_filter_runs_until_one_has_an_answer(first: Any, second: Any, called: str) -> None:
    diary: list[str] = []
    cluster = testing.Cluster(
        Plugin("Rejects", filter=lambda *_: NO),
        Said("A", diary, post_filter=first),
        Said("B", diary, post_filter=second),
    )
    assert set(cluster.filter(POD).rejected.values()) == {"no"}
    assert diary == [f"{name}.post_filter" for name in called]


@pytest.mark.parametrize(
    ("scores", "normalized", "expected"),
    [
        pytest.param([0, 100], None, [0, 100], id="in range"),
        pytest.param([7, 700], [1, 100], [1, 100], id="normalized into the range"),
        pytest.param([-1, 5], None, '"A" Score plugin: .*-1', id="below the range"),
        pytest.param([0, 101], None, '"A" Score plugin: .*101', id="above the range"),
        pytest.param([0, 1], [0, 1000], '"A" NormalizeScore plugin: .*1000', id="out of it"),
        pytest.param([-(2**63), 2**63 - 1], [0, 100], [0, 100], id="of any size before"),
    ],
)
def test_scores_are_checked_after_normalize(scores: Any, normalized: Any, expected: Any) -> None:
    says = {"score_nodes": scores} | ({} if normalized is None else {"normalize_score": normalized})
    cluster = testing.Cluster(Said("A", [], **says), nodes=["x", "y"], weights={"A": 10})
    points = cluster.prioritize(POD)
    if isinstance(expected, str):
        assert points == {}
        with pytest.raises(type(cluster.failures[0]), match=expected):
            raise cluster.failures[0]
    else:
        assert list(points.values()) == expected


def test_a_pod_that_is_too_large_to_keep_stops_its_node_and_no_other() -> None:
    def reads(_state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        return NO if {"away": "yes"} in [each.labels for each in node.pods] else None

    def counts(_state: Any, pod: core.Pod, node: core.NodeInfo) -> int:
        return sum(pod.labels == each.labels for each in node.pods)

    def turned(_state: Any, _pod: Any, scores: Any) -> list[int]:
        return [100 - 100 * score // max(*scores, 1) for score in scores]

    away = testing.pod_manifest("small", uid="small", node_name="x", labels={"away": "yes"})
    pods = [away, unlabelled(node="y")]
    result = testing.run_filter(Plugin(filter=reads, needs_pods=True), POD, XYZ, pods=pods)
    too_large = "node(s) have a pod that is too large to be judged"
    assert (result.kept, result.rejected) == (("z",), {"x": "no", "y": too_large})
    plain = [testing.pod_manifest("plain", uid="plain", node_name="x"), unlabelled(node="y")]
    # The node that cannot be judged has the lowest score, whatever scores mean.
    for methods, expected in (({}, [1, 0, 0]), ({"normalize_score": turned}, [0, 0, 100])):
        plugin = Plugin(score=counts, needs_pods=True, **methods)
        assert list(testing.run_score(plugin, POD, XYZ, pods=plain).values()) == expected


def test_statuses_that_differ_in_their_detail_are_one_reason_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def room(_state: Any, _pod: Any, node: core.NodeInfo) -> Status:
        return Status.unschedulable("no room", f"{node.name} has 3 of 9 Gb/s")

    caplog.set_level("INFO", "kubextend")
    assert set(testing.run_filter(Plugin(filter=room), POD, XYZ).rejected.values()) == {"no room"}
    (record,) = [each for each in caplog.records if "no room" in each.getMessage()]
    assert record.getMessage() == "pod default/p, 3 nodes: no room (details differ by node)"
    assert vars(record)["uid"] == POD["metadata"]["uid"]
