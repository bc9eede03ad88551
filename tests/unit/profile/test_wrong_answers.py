"""Whatever a method answers that it may not answer is named: plugin, point, what came, what may.

Each method of every extension point is given each wrong answer.
"""

import asyncio
import ctypes
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
from profile_world import request, state

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import (
    METHODS_OF_POINT,
    PreFilterResult,
    QueuedPodInfo,
    Rejection,
)
from kubextend.framework.status import Code, Status
from kubextend.profile import (
    BindingCycle,
    BindingPlugins,
    PluginLimits,
    PluginStarts,
    Profile,
    WaitingPods,
    stops,
)
from kubextend.queue import Order, PreEnqueue
from kubextend.queue.entry import Entry

POD, NODES = request("n0", "n1")


class Point(NamedTuple):
    """How a method is brought to answer, and what its failure says.

    Attributes:
        name: the extension point in the message.
        may: what may come.
        run: makes a plugin answer through this method; raises or logs what is wrong.
        besides: the methods that the plugin needs beside it.
        right: wrong answers of other methods that are right ones here.
        awaited: a coroutine is awaited, so what it brings counts.
    """

    name: str
    may: str
    run: Callable[[Any], object]
    besides: Mapping[str, Any] = MappingProxyType({})
    right: tuple[str, ...] = ("nothing",)
    awaited: bool = False


def profile_of(**points: Any) -> Profile:
    return Profile("ml", **points)


def filters(plugin: Any) -> object:
    return profile_of(filter=[plugin]).run_filter_plugins(state(), POD, NODES)


def scores(plugin: Any) -> object:
    profile = profile_of(score=[(plugin, 1)])
    return profile.run_score_plugin(plugin, state(), POD, NODES)[0]


def pre_filters(plugin: Any) -> object:
    return profile_of(pre_filter=[plugin]).run_pre_filter_plugins(state(), POD, NODES)


def post_filters(plugin: Any) -> object:
    return profile_of(post_filter=[plugin]).run_post_filter_plugins(state(), POD, [])


def pre_scores(plugin: Any) -> object:
    profile = profile_of(pre_score=[plugin])
    return profile.run_pre_score_plugin(plugin, state(), POD, NODES)


def binds(plugin: Any) -> object:
    async def bound() -> None: ...

    def having(method: str) -> list[Any]:
        return [plugin] if hasattr(plugin, method) else []

    plugins = BindingPlugins(
        having("reserve"),
        having("permit"),
        having("pre_bind"),
        having("bind"),
        having("post_bind"),
    )
    cycle = BindingCycle(plugins, state(), POD, "n0", WaitingPods(), bound, PluginLimits())
    return asyncio.run(cycle.run())


def told(error: PluginError) -> None:
    """What the queue says of a failure."""
    raise error


def orders(plugin: Any) -> object:
    info = QueuedPodInfo(POD, 1.0)
    return Order(plugin, told).before(Entry(info, 1), Entry(info, 2))


def enqueues(plugin: Any) -> object:
    return PreEnqueue({POD.scheduler_name: [plugin]}, {}, told).why_held(POD)


def starts(plugin: Any) -> object:
    failures: list[PluginError] = []

    class Enough(Exception):  # noqa: N818  ends the second wait
        pass

    async def sleep(_: float) -> None:
        raise Enough

    def failed(error: PluginError, _: str) -> None:
        failures.append(error)

    made = PluginStarts([plugin], PluginLimits(), failed, sleep=sleep)
    try:
        asyncio.run(made.run())
    except BaseExceptionGroup:
        raise failures[0] from None
    return None


def stop(plugin: Any) -> None:
    stops.stop_sync(plugin, PluginLimits().failures)


A_STATUS: Final = "a Status or None"
# What start and stop answer is nobody's business, unless somebody had to await it.
HARMLESS: Final = ("nothing", "a text", "a number", "bytes", "an object")
UNRESERVED: Final = {"reserve": lambda *_: Status.unschedulable("no room")}
POINTS: dict[str, Point] = {
    "pre_enqueue": Point("preEnqueue", A_STATUS, enqueues),
    "less": Point("queueSort", "a bool", orders, right=()),
    "pre_filter": Point("PreFilter", "a Status, a PreFilterResult, both or None", pre_filters),
    "filter_nodes": Point("Filter", "a sequence of Rejection", filters, right=()),
    "filter": Point("Filter", A_STATUS, filters),
    "post_filter": Point("PostFilter", A_STATUS, post_filters),
    "pre_score": Point("PreScore", A_STATUS, pre_scores),
    "score_nodes": Point("Score", "a sequence of int", scores, right=()),
    "score": Point("Score", "an int", scores, right=("a number",)),
    "normalize_score": Point(
        "NormalizeScore", "a sequence of int", scores, {"score": lambda *_: 1}, right=()
    ),
    "reserve": Point("Reserve", A_STATUS, binds, {"unreserve": lambda *_: None}, awaited=True),
    "unreserve": Point("Unreserve", "None", binds, UNRESERVED, awaited=True),
    "permit": Point("Permit", "a Status, None or (Status.wait(), seconds)", binds, awaited=True),
    "pre_bind": Point("PreBind", A_STATUS, binds, awaited=True),
    "bind": Point("Bind", A_STATUS, binds, awaited=True),
    "post_bind": Point("PostBind", "None", binds, awaited=True),
    "start": Point("Start", "None", starts, right=(*HARMLESS, "a coroutine")),
    "stop": Point("Stop", "None", stop, right=HARMLESS),
}


async def a_coroutine(*_: Any) -> str:
    return "no"


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda *_: None, "NoneType"),
    "a text": (lambda *_: "no", "str 'no'"),
    "a number": (lambda *_: 7, "int 7"),
    "bytes": (lambda *_: b"no", "bytes b'no'"),
    "an object": (lambda *_: object(), "object"),
    "a coroutine": (a_coroutine, "a coroutine"),
}
CASES = [
    pytest.param(method, does, shown, id=f"{method} answers {kind}")
    for method, point in POINTS.items()
    for kind, (does, shown) in WRONG.items()
    if kind not in point.right
]


def plugin_with(method: str, does: Callable[..., Any]) -> Any:
    methods = {method: does, **POINTS[method].besides}
    plugin = type("Wrong", (), {name: staticmethod(each) for name, each in methods.items()})()
    plugin.name = "Wrong"
    return plugin


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str, Any], str]:
    """What is raised or logged where a plugin answers through a method."""

    def run(method: str, plugin: Any) -> str:
        caplog.set_level(logging.WARNING)
        try:
            POINTS[method].run(plugin)
        except PluginError as error:
            return str(error)
        return "\n".join(f"{each.getMessage()} {each.exc_info}" for each in caplog.records)

    return run


@pytest.mark.parametrize(("method", "does", "shown"), CASES)
def test_a_wrong_answer_is_named_with_what_may_come(
    said: Callable[[str, Any], str], method: str, does: Callable[..., Any], shown: str
) -> None:
    point = POINTS[method]
    if shown == "a coroutine" and point.awaited:
        shown = "str 'no'"
    told = said(method, plugin_with(method, does))
    assert f"answered {shown} where {point.may} is expected" in told
    assert "Wrong" in told
    assert point.name in told


@pytest.mark.parametrize("method", POINTS)
def test_a_right_answer_is_no_failure(said: Callable[[str, Any], str], method: str) -> None:
    right: dict[str, Callable[..., Any]] = {
        "less": lambda *_: True,
        "filter_nodes": lambda *_: [],
        "score_nodes": lambda *_: [1, 2],
        "score": lambda *_: 1,
        "normalize_score": lambda *_: [1, 2],
    }
    assert said(method, plugin_with(method, right.get(method, lambda *_: None))) == ""


def test_every_method_of_every_point_is_tried() -> None:
    methods = {method for each in METHODS_OF_POINT.values() for method in each}
    assert set(POINTS) == methods | {"normalize_score", "start", "stop"}


FOREIGN_INT64: Final[Any] = (
    ctypes.c_int64.__ctype_be__ if sys.byteorder == "little" else ctypes.c_int64.__ctype_le__
)
SECONDS: Final = "an int or a float as the seconds"
# Answers of the right kind that hold something wrong: the method, the answer, what is said.
INSIDE: dict[str, tuple[str, Any, str]] = {
    "nodes by name": (
        "filter_nodes",
        [Rejection(["n0"], Status.unschedulable("no"))],  # type: ignore[arg-type]
        "answered list where a Mask in Rejection.nodes is expected",
    ),
    "a code that is a text": (
        "filter",
        Status("unschedulable", "no"),  # type: ignore[arg-type]
        "a code that is no Code but str",
    ),
    "a code that is a number": (
        "bind",
        Status(2, "no"),  # type: ignore[arg-type]
        "a code that is no Code but int",
    ),
    "a reason that is a list": (
        "pre_filter",
        Status(Code.UNSCHEDULABLE, ["no"]),  # type: ignore[arg-type]
        "a reason that is no text but list",
    ),
    "nodes in the place of names": (
        "pre_filter",
        PreFilterResult(frozenset(NODES.infos())),  # type: ignore[arg-type]
        "node_names must hold names, found NodeInfo",
    ),
    "a score too few": ("score_nodes", [1], "1 scores for 2 nodes"),
    "a bool as a score": ("score", True, "answered bool True where an int is expected"),
    "scores in a table": (
        "score_nodes",
        memoryview(bytes(16)).cast("q", (2, 1)),
        "an array with the shape [2, 1] where one int64 for each node is expected",
    ),
    "scores from another machine": (
        "normalize_score",
        memoryview((FOREIGN_INT64 * 2)()),
        "int64 in the byte order of another machine where one int64 for each node is expected",
    ),
    "a mask too long": (
        "filter_nodes",
        [Rejection(core.Mask([True] * 3), Status.unschedulable("no"))],
        "a mask of 3 nodes where there are 2",
    ),
    "rejections one by one": (
        "filter_nodes",
        (each for each in [Rejection(core.Mask([True] * 2), Status.unschedulable("no"))]),
        "answered generator where a sequence of Rejection is expected; return the values in a list",
    ),
    "Skip of a filter": (
        "filter",
        Status.skip(),
        "answered a Status SKIP where success or a rejection is expected",
    ),
    "a rejection of PreScore": (
        "pre_score",
        Status.unschedulable("full"),
        "answered a Status UNSCHEDULABLE (full) where success or Skip is expected",
    ),
    "a wait in words": ("permit", (Status.wait(), "30"), f"answered str '30' where {SECONDS}"),
    "a wait of True": ("permit", (Status.wait(), True), f"answered bool True where {SECONDS}"),
    "a wait of a timedelta": (
        "permit",
        (Status.wait(), timedelta(minutes=1)),
        f"timedelta where {SECONDS} of (Status, seconds) is expected; write total_seconds()",
    ),
}


@pytest.mark.parametrize(("method", "answer", "what"), INSIDE.values(), ids=INSIDE)
def test_what_is_wrong_within_an_answer_is_named(
    said: Callable[[str, Any], str], method: str, answer: Any, what: str
) -> None:
    told = said(method, plugin_with(method, lambda *_: answer))
    assert what in told
    assert "Wrong" in told
    assert POINTS[method].name in told


def test_normalize_score_is_not_blamed_for_scores_that_are_none(
    said: Callable[[str, Any], str],
) -> None:
    plugin = plugin_with("score", lambda *_: None)
    plugin.normalize_score = lambda _state, _pod, given: core.normalize(given)
    assert "Score plugin: TypeError: answered NoneType where an int" in said("score", plugin)


@pytest.mark.parametrize("score", [-(2**63), -1, 101, 2**63 - 1])
def test_a_score_of_any_size_is_for_normalize_score_to_bring_into_range(
    said: Callable[[str, Any], str], score: int
) -> None:
    def fails(*_: Any) -> list[int]:
        message = "no range"
        raise ValueError(message)

    plugin = plugin_with("score", lambda *_: score)
    plugin.normalize_score = fails
    assert "NormalizeScore plugin: ValueError: no range" in said("score", plugin)


def test_an_error_says_which_node_a_filter_cannot_judge() -> None:
    plugin = plugin_with(
        "filter", lambda _state, _pod, node: Status.error("down") if node.name == "n1" else None
    )
    with pytest.raises(PluginError) as raised:
        filters(plugin)
    assert (raised.value.node, raised.value.pod) == ("n1", f"{POD.namespace}/{POD.name}")
