"""Plugins that raise, or answer what they may not: by extension point and failurePolicy."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.wire import Plugin, Wire, answers, needs, node, pod, raises, scores

from kubextend import core
from kubextend.framework import Code, PreFilterResult, Rejection, Status

NODES = [node("good", labels={"rdma": ""}), node("plain")]
P = pod("p")


def wire_of(odd: Plugin, **parts: Any) -> Wire:
    """The odd plugin comes before one that rejects, and before one that scores."""
    return Wire(odd, needs(), scores(good=50), **{"nodes": NODES, "pods": [P]} | parts)


def failures(wire: Wire, point: str) -> float:
    labels = {"plugin": "Odd", "extension_point": point}
    return wire.metric("kubextend_plugin_failures_total", **labels)


# A panic of the core looks to Python like an exception that is no Exception.
BAD_CALLS: dict[str, Callable[..., Any]] = {
    "raises Exception": raises(RuntimeError("0x7f3a")),
    "raises a panic": raises(BaseException("panic")),
    "raises SystemExit": raises(SystemExit(3)),
    "raises GeneratorExit": raises(GeneratorExit()),
    "answers a number": answers(17),
    "answers NaN": answers(float("nan")),
    "answers an Error": answers(Status.error("no")),
    "answers Wait": answers(Status.wait()),
    "answers a reason that is no text": answers(Status(Code.UNSCHEDULABLE, 3)),  # type: ignore[arg-type]
    "answers a lone surrogate": answers(Status.unschedulable("\ud800")),
}
NO = Status.unschedulable("no")
BAD_AT: dict[str, dict[str, Callable[..., Any]]] = {
    "pre_filter": BAD_CALLS
    | {
        "names no set": answers(PreFilterResult(["good"])),  # type: ignore[arg-type]
        "answers a tuple of three": answers((None, None, None)),
    },
    "filter": BAD_CALLS,
    "filter_nodes": BAD_CALLS
    | {
        "answers None": answers(None),
        "answers other things in a list": answers(["good"]),
        "answers a mask of another size": answers([Rejection(core.Mask([True] * 5), NO)]),
        "answers a rejection that is none": answers(
            [Rejection(core.Mask([True, True]), Status.success())]
        ),
        "answers the nodes by name": answers([Rejection(["good"], NO)]),  # type: ignore[arg-type]
        "answers a reason that is None": answers(
            [Rejection(core.Mask([True, True]), Status.unschedulable(None))]  # type: ignore[arg-type]
        ),
    },
}
POINT = {"pre_filter": "PreFilter", "filter": "Filter", "filter_nodes": "Filter"}


@pytest.mark.parametrize(
    ("method", "bad"), [(method, bad) for method, calls in BAD_AT.items() for bad in calls]
)
def test_a_filter_that_fails_does_what_its_policy_says(method: str, bad: str) -> None:
    odd, point = Plugin("Odd", **{method: BAD_AT[method][bad]}), POINT[method]
    wire = wire_of(odd)
    said = wire.filter(P)
    assert (said.kept, said.rejected) == ([], {})
    assert said.error == f'{point} plugin "Odd" failed; kubextend\'s log says how'
    assert failures(wire, point) == 1
    assert wire.metric("kubextend_verb_requests_total", verb="filter", result="error") == 1
    # Nobody is evicted, though the plugin may be ignored.
    assert wire.preempt(P, {"good": ["v"], "plain": ["w"]}).victims == {}
    left_out = wire_of(odd, ignored=["Odd"])
    assert (left_out.filter(P).kept, left_out.filter(P).error) == (["good"], "")
    assert left_out.preempt(P, {"good": ["v"], "plain": ["w"]}).victims == {}


@pytest.mark.parametrize("method", BAD_AT)
def test_a_filter_that_fails_rejects_all_nodes_where_errors_are_ignored(method: str) -> None:
    odd = Plugin("Odd", **{method: raises(RuntimeError("0x7f3a"))})
    wire = wire_of(odd, settings={"extender.ignorable": True})
    why = f'{POINT[method]} plugin "Odd" failed'
    for said in (wire.filter(P), wire.filter(P, whole=NODES)):
        assert (said.kept, said.error) == ([], "")
        assert said.unresolvable == {"good": why, "plain": why}
    assert wire.metric("kubextend_verb_requests_total", verb="filter", result="error") == 2


def test_a_post_filter_that_fails_leaves_the_pod_unschedulable() -> None:
    wire = wire_of(Plugin("Odd", post_filter=raises(RuntimeError("down"))))
    said = wire.filter(P, ["plain"])
    assert (said.error, said.unresolvable) == ("", {"plain": "no rdma"})
    assert failures(wire, "PostFilter") == 1


@pytest.mark.parametrize(
    "bad",
    [
        raises(BaseException("panic")),
        answers((Status.wait(), float("nan"))),
        answers(Status.error("no")),
    ],
)
def test_a_permit_that_fails_is_an_error_of_bind(bad: Callable[..., Any]) -> None:
    wire = wire_of(Plugin("Odd", permit=bad))
    wire.filter(P)
    assert wire.bind(P, "good").error == 'Permit plugin "Odd" failed'
    assert wire.binder.bound == {}


def test_a_plugin_that_changes_what_it_was_given_changes_no_answer() -> None:
    def meddle(_state: Any, of: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        nodes.names.clear()
        of.labels.clear()
        next(iter(nodes.infos())).labels.clear()
        return []

    assert wire_of(Plugin("Odd", filter_nodes=meddle)).filter(P).kept == ["good"]


# What the log says, which is all that the author of a plugin hears of it.


def log_of_failure(
    caplog: pytest.LogCaptureFixture, method: str, does: Callable[..., Any]
) -> logging.LogRecord:
    methods = {method: does}
    if method == "reserve":
        methods["unreserve"] = answers(None)
    if method == "pre_score":
        methods["score"] = answers(1)
    wire = wire_of(Plugin("Odd", **methods))
    if "score" in method:
        wire.prioritize(P)
    else:
        wire.filter(P)
    if method in {"reserve", "permit"}:
        wire.bind(P, "good")
    (record,) = [each for each in caplog.records if getattr(each, "plugin", "") == "Odd"]
    return record


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("filter", b"x" * 500, f"answered bytes b'{'x' * 78} where a Status or None is expected"),
        ("filter_nodes", [True], "answered bool True where a Rejection is expected"),
        ("pre_filter", (1, 2, 3), "answered tuple where a Status, a PreFilterResult, both"),
        ("score_nodes", [1, 0.5], "answered float 0.5 where an int is expected"),
        ("permit", (Status.wait(), "soon"), "answered str 'soon' where an int or a float as the"),
    ],
)
def test_the_log_says_what_a_plugin_answered_and_what_it_may_answer(
    method: str, answer: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = log_of_failure(caplog, method, answers(answer)).getMessage()
    assert said in message
    assert message.startswith(("filter fails", "left out", "bind fails"))


@pytest.mark.parametrize("method", BAD_AT)
def test_the_log_names_an_async_method_that_nobody_awaits(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def judge(*_: Any) -> Status:
        return Status.success()

    message = log_of_failure(caplog, method, judge).getMessage()
    assert "answered a coroutine where" in message
    assert "may be async" in message


@pytest.mark.parametrize(
    ("method", "point", "on_node"),
    [
        ("pre_filter", "PreFilter", ""),
        ("filter_nodes", "Filter", ""),
        ("filter", "Filter", "good"),
        ("pre_score", "PreScore", ""),
        ("score", "Score", "good"),
        ("reserve", "Reserve", "good"),
        ("permit", "Permit", "good"),
    ],
)
def test_the_log_names_the_pod_that_a_plugin_failed_for(
    method: str, point: str, on_node: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = log_of_failure(caplog, method, raises(KeyError("team")))
    facts = {"extension_point": point, "pod": "ml/p", "uid": "uid-of-p"}
    facts |= {"profile": "default-scheduler"} | ({"node": on_node} if on_node else {})
    assert facts.items() <= vars(record).items()
    assert hasattr(record, "node") == bool(on_node)
