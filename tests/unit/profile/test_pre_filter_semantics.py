"""PreFilter, to the letter of RunPreFilterPlugins in kube-scheduler 1.36."""

from typing import Any

import pytest
from profile_world import Said, request, state

from kubextend.errors import PluginError
from kubextend.framework.plugin import PreFilterResult
from kubextend.framework.status import Code, Status
from kubextend.profile import Profile


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE

# What A and B say; which were called; the code and reason that every node gets; the nodes left.
CASES: dict[str, tuple[Any, Any, str, Code, str, set[str] | None]] = {
    "nothing to say": (None, None, "AB", Code.SUCCESS, "", None),
    "success": (Status.success(), None, "AB", Code.SUCCESS, "", None),
    "skip of one": (Status.skip(), None, "AB", Code.SUCCESS, "", None),
    "unresolvable stops at once": (
        *(Status.unresolvable("never"), None, "A", UNRESOLVABLE, "never", None),
    ),
    "unschedulable lets the others run": (
        *(Status.unschedulable("not now"), None, "AB", Code.UNSCHEDULABLE, "not now", None),
    ),
    "the last unschedulable counts": (
        Status.unschedulable("first"),
        *(Status.unschedulable("second"), "AB", Code.UNSCHEDULABLE, "second", None),
    ),
    "unresolvable after unschedulable counts": (
        Status.unschedulable("first"),
        *(Status.unresolvable("never"), "AB", UNRESOLVABLE, "never", None),
    ),
    "results intersect": (only("x", "y"), only("y", "z"), "AB", Code.SUCCESS, "", {"y"}),
    "a result beside all nodes": (only("x"), None, "AB", Code.SUCCESS, "", {"x"}),
    "nothing left by two": (
        only("x"),
        only("y"),
        "AB",
        UNRESOLVABLE,
        "node(s) didn't satisfy plugin(s) [A B] simultaneously",
        set(),
    ),
    "nothing left by one": (
        *(only(), None, "A", UNRESOLVABLE, "node(s) didn't satisfy plugin A", set()),
    ),
    "a result with a status": (
        *((only("x"), Status.success()), None, "AB", Code.SUCCESS, "", {"x"}),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_pre_filter_plugins_say_together(case: Any) -> None:
    first, second, called, code, reason, left = case
    pod, nodes = request("x", "y", "z")
    diary: list[str] = []
    plugins = [Said("A", diary, pre_filter=first), Said("B", diary, pre_filter=second)]
    outcome = Profile("s", pre_filter=plugins).run_pre_filter_plugins(state(), pod, nodes)
    assert diary == [f"{name}.pre_filter" for name in called]
    assert (outcome.status.code, outcome.status.reason) == (code, reason)
    if code is Code.SUCCESS:
        assert outcome.result.node_names == left


@pytest.mark.parametrize("code", [Code.ERROR, Code.WAIT, Code.PENDING])
def test_any_other_code_is_the_plugins_failure(code: Code) -> None:
    pod, nodes = request("x")
    plugin = Said("A", [], pre_filter=Status(code, "why"))
    with pytest.raises(PluginError, match=r'"A" PreFilter plugin: .*why'):
        Profile("s", pre_filter=[plugin]).run_pre_filter_plugins(state(), pod, nodes)


def test_skip_takes_the_plugins_own_filter_out_and_no_other() -> None:
    pod, nodes = request("x")
    diary: list[str] = []
    skipping = Said("A", diary, pre_filter=Status.skip(), filter_nodes=[])
    other = Said("B", diary, filter_nodes=[])
    profile = Profile("s", pre_filter=[skipping], filter=[skipping, other])
    assert profile.find_nodes_that_fit(state(), pod, nodes).kept.all()
    assert diary == ["A.pre_filter", "B.filter_nodes"]


def test_nodes_outside_the_result_are_unresolvable_and_not_asked_about() -> None:
    pod, nodes = request("x", "y", "z")
    plugin = Said("A", [], pre_filter=only("y"))
    outcome = Profile("s", pre_filter=[plugin]).find_nodes_that_fit(state(), pod, nodes)
    assert list(outcome.kept) == [False, True, False]
    [rejection] = outcome.rejections
    assert rejection.nodes.indices() == [0, 2]
    assert rejection.status.code is UNRESOLVABLE


def test_a_rejection_reaches_every_node_and_no_filter_runs() -> None:
    pod, nodes = request("x", "y")
    diary: list[str] = []
    plugin = Said("A", diary, pre_filter=Status.unschedulable("not now"), filter_nodes=[])
    profile = Profile("s", pre_filter=[plugin], filter=[plugin])
    outcome = profile.find_nodes_that_fit(state(), pod, nodes)
    assert not outcome.kept.any()
    assert [(r.nodes.count(), r.status.reason) for r in outcome.rejections] == [(2, "not now")]
    assert diary == ["A.pre_filter"]


def test_a_plugin_whose_pre_filter_failed_and_may_be_ignored_filters_nothing() -> None:
    pod, nodes = request("x")
    diary: list[str] = []
    failing = Said("A", diary, pre_filter=RuntimeError("down"), filter_nodes=[])
    other = Said("B", diary, filter_nodes=[])
    profile = Profile("s", pre_filter=[failing], filter=[failing, other], ignored=frozenset({"A"}))
    left_out: list[str] = []
    outcome = profile.find_nodes_that_fit(
        state(), pod, nodes, lambda error: left_out.append(error.plugin)
    )
    assert outcome.kept.all()
    assert diary == ["A.pre_filter", "B.filter_nodes"]
    assert left_out == ["A"]
