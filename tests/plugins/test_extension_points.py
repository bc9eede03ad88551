"""PreFilter to NormalizeScore as kube-scheduler 1.36 runs them, to the letter of its framework."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.doors.stories import Plugin, configuration, unlabelled

from kubextend import core, testing
from kubextend.framework import Code, PreFilterResult, Rejection, Status

POD = testing.pod_manifest("p")
XYZ = ["x", "y", "z"]
NO = Status.unschedulable("no")


class Said(Plugin):
    """A plugin that records its calls in ``diary``, and returns or raises what a test says."""

    def __init__(self, name: str, diary: list[str], **says: Any) -> None:
        super().__init__(name, **{method: self._method(method, says[method]) for method in says})
        self._diary = diary

    def _method(self, method: str, answer: Any) -> Any:
        def call(*_: Any) -> Any:
            self._diary.append(f"{self.name}.{method}")
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


def rejecting(*names: str, status: Status = NO) -> list[Rejection]:
    """Reject some of the nodes x, y and z."""
    return [Rejection(core.Mask([name in names for name in XYZ]), status)]


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


NEVER, FIRST, SECOND = (
    Status.unresolvable("never"),
    Status.unschedulable("first"),
    Status.unschedulable("second"),
)
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


def test_skip_of_pre_filter_takes_the_plugins_own_filter_out_and_no_other() -> None:
    diary: list[str] = []
    skips = Said("A", diary, pre_filter=Status.skip(), filter_nodes=rejecting("x"))
    cluster = testing.Cluster(skips, Said("B", diary, filter_nodes=[]), nodes=XYZ)
    assert cluster.filter(POD).kept == ("x", "y", "z")
    assert diary == ["A.pre_filter", "B.filter_nodes"]


def test_a_rejection_of_pre_filter_reaches_every_node_and_no_filter_runs() -> None:
    diary: list[str] = []
    plugin = Said("A", diary, pre_filter=NO, filter_nodes=[])
    assert testing.Cluster(plugin, nodes=XYZ).filter(POD).rejected == dict.fromkeys(XYZ, "no")
    assert diary == ["A.pre_filter"]


def test_a_plugin_whose_pre_filter_failed_and_may_be_ignored_filters_nothing() -> None:
    calls: list[str] = []

    class Failing:
        name = "Failing"

        def pre_filter(self, *_: Any) -> None:
            raise RuntimeError

        def filter_nodes(self, *_: Any) -> list[Rejection]:
            calls.append("filter_nodes")
            return []

    plugins = {"multiPoint": {"enabled": [{"name": "Failing"}]}}
    ignored = [{"name": "Failing", "failurePolicy": "Ignore"}]
    profile = {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": ignored}
    cluster = testing.Cluster(configuration({"profiles": [profile]}, Failing), nodes=XYZ)
    assert cluster.filter(POD).kept == ("x", "y", "z")
    assert calls == []


def test_the_first_filter_that_rejects_a_node_gives_its_status() -> None:
    cluster = testing.Cluster(
        Said("A", [], filter_nodes=rejecting("x", status=FIRST)),
        Said("B", [], filter_nodes=rejecting("x", "y", status=NEVER)),
        nodes=XYZ,
    )
    result = cluster.filter(POD)
    assert (result.kept, result.unresolvable) == (("z",), {"y"})
    assert result.rejected == {"x": "first", "y": "never"}


def test_no_filter_is_asked_once_no_node_is_left() -> None:
    diary: list[str] = []
    first = Said("A", diary, filter_nodes=rejecting(*XYZ))
    testing.Cluster(first, Said("B", diary, filter_nodes=[]), nodes=XYZ).filter(POD)
    assert diary == ["A.filter_nodes"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, ""),
        (Status.success(), ""),
        (NO, "no"),
        (NEVER, "never"),
        (Status.pending("later"), "later"),
    ],
)
def test_a_filter_of_one_node_may_answer_each_of_these(answer: Status | None, reason: str) -> None:
    result = testing.run_filter(Plugin(filter=lambda *_: answer), POD, ["x", "y"])
    assert result.rejected == ({"x": reason, "y": reason} if reason else {})


class Judges(Plugin):
    """Looks at one node after the other, knows only some of them, and rejects y."""

    def __init__(self, *known: str, **methods: Any) -> None:
        self.known = known
        super().__init__("Judges", filter=self.judge, **methods)

    def judge(self, _state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        if node.name not in self.known:
            raise KeyError(node.name)
        return NO if node.name == "y" else None


def test_a_filter_of_one_node_is_asked_only_about_nodes_that_are_left() -> None:
    first = Said("A", [], filter_nodes=rejecting("x", status=FIRST))
    result = testing.Cluster(first, Judges("y", "z"), nodes=XYZ).filter(POD)
    assert (result.kept, result.rejected) == (("z",), {"x": "first", "y": "no"})
    narrows = Judges("z", pre_filter=lambda *_: only("z"))
    assert testing.Cluster(narrows, nodes=XYZ).filter(POD).kept == ("z",)


def test_plugins_of_one_node_see_each_node_once_and_in_order() -> None:
    names = [str(number) for number in range(100)]
    seen: list[str] = []

    def odd(_state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        seen.append(node.name)
        return NO if int(node.name) % 2 else None

    def number(_state: Any, _pod: Any, node: core.NodeInfo) -> int:
        return int(node.name)

    assert testing.run_filter(Plugin(filter=odd), POD, names).kept == tuple(names[::2])
    assert seen == names
    scores = testing.run_score(Plugin(score=number), POD, names)
    assert scores == {name: int(name) for name in names}


@pytest.mark.parametrize(
    ("first", "second", "called"),
    [
        pytest.param(FIRST, None, "AB", id="unschedulable goes on"),
        pytest.param(None, None, "A", id="success ends it"),
        pytest.param(NEVER, None, "A", id="unresolvable ends it"),
        pytest.param(FIRST, SECOND, "AB", id="all unschedulable"),
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


def test_a_pre_score_that_skips_takes_its_score_out() -> None:
    skips = Said("A", [], pre_score=Status.skip(), score_nodes=[1, 2])
    other = Plugin("B", score_nodes=lambda *_: [30, 40])
    cluster = testing.Cluster(skips, other, nodes=["x", "y"], weights={"A": 10, "B": 10})
    assert cluster.prioritize(POD) == {"x": 30, "y": 40}


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
def test_scores_are_checked_after_normalize_score(
    scores: Sequence[int], normalized: Any, expected: Any
) -> None:
    says = {"score_nodes": scores} | ({} if normalized is None else {"normalize_score": normalized})
    cluster = testing.Cluster(Said("A", [], **says), nodes=["x", "y"], weights={"A": 10})
    points = cluster.prioritize(POD)
    if isinstance(expected, str):
        assert points == {}
        with pytest.raises(type(cluster.failures[0]), match=expected):
            raise cluster.failures[0]
    else:
        assert list(points.values()) == expected


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3), BaseException("y")])
@pytest.mark.parametrize("point", ["pre_filter", "filter_nodes", "filter"])
def test_what_a_plugin_raises_is_its_own_failure(raised: BaseException, point: str) -> None:
    cluster = testing.Cluster(Said("A", [], **{point: raised}))
    assert 'plugin "A" failed' in cluster.filter(POD).error
    [failure] = cluster.failures
    assert type(raised).__name__ in str(failure)


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


def test_an_error_says_which_node_a_filter_cannot_judge() -> None:
    def down(_state: Any, _pod: Any, node: core.NodeInfo) -> Status | None:
        return Status(Code.ERROR, "down") if node.name == "y" else None

    cluster = testing.Cluster(Plugin(filter=down), nodes=XYZ)
    cluster.filter(POD)
    [failure] = cluster.failures
    assert (failure.node, failure.pod) == ("y", "default/p")
