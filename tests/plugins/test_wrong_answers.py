"""What a method answers that it may not answer is named: plugin, point, what came, what may.

Each method of every extension point is given each wrong answer.
"""

import ctypes
import re
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
from tests.doors.stories import Plugin

from kubextend import core, testing
from kubextend.errors import PluginError
from kubextend.framework import Code, PreFilterResult, Rejection, Status

POD, NODES = testing.pod_manifest("p"), ["n0", "n1"]
NO: Final = Status.unschedulable("no")


def filters(plugin: Any) -> object:
    return testing.run_filter(plugin, POD, NODES)


def scores(plugin: Any) -> object:
    return testing.run_score(plugin, POD, NODES)


def binds(plugin: Any) -> object:
    return testing.run_binding_cycle(plugin, POD, "n0", nodes=NODES)


def starts_and_stops(plugin: Any) -> None:
    with testing.Cluster(plugin) as cluster:
        pass
    for failure in cluster.failures:
        raise failure


def orders(plugin: Any) -> object:
    return testing.queue_order(plugin, [testing.make_pod("a"), testing.make_pod("b")])


class Point(NamedTuple):
    """The name of a point, what may come there, and what makes a plugin answer.

    Attributes:
        besides: the methods that the plugin needs as well.
        right: wrong answers of other methods that are right ones here.
        awaited: a coroutine is awaited, so what it brings counts.
    """

    name: str
    may: str
    run: Callable[[Any], object]
    besides: Mapping[str, Any] = MappingProxyType({})
    right: tuple[str, ...] = ("nothing",)
    awaited: bool = False


A_STATUS: Final = "a Status or None"
# What start and stop answer matters to nobody, unless somebody had to await it.
HARMLESS: Final = ("nothing", "a text", "a number", "bytes", "an object")
REJECTS: Final = {"filter": lambda *_: NO}
SCORES: Final = {"score": lambda *_: 1}
PASSES: Final = {"filter": lambda *_: None}
UNRESERVED: Final = {"reserve": lambda *_: NO}
POINTS: dict[str, Point] = {
    "less": Point("queueSort", "a bool", orders, right=()),
    "pre_filter": Point("PreFilter", "a Status, a PreFilterResult, both or None", filters),
    "filter_nodes": Point("Filter", "a sequence of Rejection", filters, right=()),
    "filter": Point("Filter", A_STATUS, filters),
    "post_filter": Point("PostFilter", A_STATUS, filters, REJECTS),
    "pre_score": Point("PreScore", A_STATUS, scores, SCORES),
    "score_nodes": Point("Score", "a sequence of int", scores, right=()),
    "score": Point("Score", "an int", scores, right=("a number",)),
    "normalize_score": Point("NormalizeScore", "a sequence of int", scores, SCORES, right=()),
    "reserve": Point("Reserve", A_STATUS, binds, {"unreserve": lambda *_: None}, awaited=True),
    "unreserve": Point("Unreserve", "None", binds, UNRESERVED, awaited=True),
    "permit": Point("Permit", "a Status, None or (Status.wait(), seconds)", binds, awaited=True),
    "pre_bind": Point("PreBind", A_STATUS, binds, awaited=True),
    "bind": Point("Bind", A_STATUS, binds, awaited=True),
    "post_bind": Point("PostBind", "None", binds, awaited=True),
    "start": Point("Start", "None", starts_and_stops, PASSES, right=(*HARMLESS, "a coroutine")),
    "stop": Point("Stop", "None", starts_and_stops, PASSES, right=HARMLESS),
}


async def a_coroutine() -> str:
    return "no"


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda *_: None, "NoneType"),
    "a text": (lambda *_: "no", "str 'no'"),
    "a number": (lambda *_: 7, "int 7"),
    "bytes": (lambda *_: b"no", "bytes b'no'"),
    "an object": (lambda *_: object(), "object"),
    "a coroutine": (lambda *_: a_coroutine(), "a coroutine"),
}
CASES = [
    pytest.param(method, does, shown, id=f"{method} answers {kind}")
    for method, point in POINTS.items()
    for kind, (does, shown) in WRONG.items()
    if kind not in point.right
]


def assert_named(method: str, does: Callable[..., Any], what: str) -> None:
    """Assert that the failure of a plugin with a wrong method names plugin, point and answer."""
    plugin = Plugin("Wrong", **{method: does, **POINTS[method].besides})
    with pytest.raises(PluginError, match=re.escape(what)) as raised:
        POINTS[method].run(plugin)
    assert '"Wrong"' in str(raised.value)
    assert raised.value.extension_point == POINTS[method].name


@pytest.mark.parametrize(("method", "does", "shown"), CASES)
def test_a_wrong_answer_is_named_with_what_may_come(method: str, does: Any, shown: str) -> None:
    if shown == "a coroutine" and POINTS[method].awaited:
        shown = "str 'no'"
    assert_named(method, does, f"answered {shown} where {POINTS[method].may} is expected")


RIGHT: dict[str, Any] = {
    "less": True,
    "filter_nodes": [],
    "score_nodes": [1, 2],
    "score": 1,
    "normalize_score": [1, 2],
}


@pytest.mark.parametrize("method", POINTS)
def test_a_right_answer_is_no_failure(method: str) -> None:
    right = {method: lambda *_: RIGHT.get(method), **POINTS[method].besides}
    POINTS[method].run(Plugin("Right", **right))


FOREIGN_INT64: Final[Any] = (
    ctypes.c_int64.__ctype_be__ if sys.byteorder == "little" else ctypes.c_int64.__ctype_le__
)
SECONDS: Final = "an int or a float as the seconds"
BAD_CODE: Any = "unschedulable"
NUMBER: Any = 2
NODE: Any = testing.make_node("n")
NODES_AS_NAMES: Final = PreFilterResult(frozenset([NODE]))
TEXT: Any = ["no"]
ALL_NODES: Final = Rejection(core.Mask([True] * 2), NO)
# Methods, answers of the right kind that hold something wrong, and what is said of them.
INSIDE: list[tuple[str, Any, str]] = [
    ("filter_nodes", [Rejection(TEXT, NO)], "list where a Mask in Rejection.nodes is expected"),
    ("filter_nodes", [Rejection(core.Mask([True] * 3), NO)], "a mask of 3 nodes where there are 2"),
    (
        "filter_nodes",
        (each for each in [ALL_NODES]),
        "answered generator where a sequence of Rejection is expected; return the values in a list",
    ),
    ("filter", Status(BAD_CODE, "no"), "a code that is no Code but str"),
    ("filter", Status.skip(), "a Status SKIP where success or a rejection is expected"),
    ("filter", Status(Code.WAIT, "why"), "answered a Status WAIT"),
    ("filter", Status.error("why"), "why"),
    ("filter", False, "answered bool False where a Status"),
    ("bind", Status(NUMBER, "no"), "a code that is no Code but int"),
    ("pre_filter", Status(Code.UNSCHEDULABLE, TEXT), "a reason that is no text but list"),
    ("pre_filter", NODES_AS_NAMES, "node_names must hold names, found NodeInfo"),
    ("pre_filter", Status(Code.WAIT, "why"), "why"),
    ("pre_filter", Status.pending("why"), "why"),
    ("post_filter", Status.error("broken"), "broken"),
    ("pre_score", NO, "a Status UNSCHEDULABLE (no) where success or Skip is expected"),
    ("score", True, "answered bool True where an int is expected"),
    ("score_nodes", [1], "1 scores for 2 nodes"),
    ("score_nodes", [1.5, 2.0], "TypeError"),
    (
        "score_nodes",
        memoryview(bytes(16)).cast("q", (2, 1)),
        "an array with the shape [2, 1] where one int64 for each node is expected",
    ),
    (
        "normalize_score",
        memoryview((FOREIGN_INT64 * 2)()),
        "int64 in the byte order of another machine where one int64 for each node is expected",
    ),
    ("permit", (Status.wait(), "30"), f"answered str '30' where {SECONDS}"),
    ("permit", (Status.wait(), True), f"answered bool True where {SECONDS}"),
    (
        "permit",
        (Status.wait(), timedelta(minutes=1)),
        f"timedelta where {SECONDS} of (Status, seconds) is expected; write total_seconds()",
    ),
]


@pytest.mark.parametrize(("method", "answer", "what"), INSIDE)
def test_what_is_wrong_within_an_answer_is_named(method: str, answer: Any, what: str) -> None:
    assert_named(method, lambda *_: answer, what)


def test_normalize_score_is_not_blamed_for_scores_that_are_none() -> None:
    normalize = lambda _state, _pod, of: core.normalize(of)  # noqa: E731
    with pytest.raises(
        PluginError, match="Score plugin: TypeError: answered NoneType where an int"
    ):
        scores(Plugin("Wrong", score=lambda *_: None, normalize_score=normalize))
