"""The binding cycle: its order, what each step may say, waits in Permit, and what is undone."""

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors import wire
from tests.doors.stories import WAIT, Plugin, Said, stop_here

from kubextend import testing
from kubextend.framework import Status

NO = Status.unschedulable("no")
POINTS = ("reserve", "permit", "pre_bind", "bind")


def every(name: str, diary: list[str], **says: Any) -> Said:
    """Return a plugin with every method of the binding cycle."""
    methods = dict.fromkeys(("reserve", "unreserve", "permit", "pre_bind", "post_bind"))
    return Said(name, diary, **{"bind": Status.skip(), **methods, **says})


def bound(*plugins: Any) -> testing.Outcome:
    return testing.Cluster(*plugins).bind(testing.make_pod("p"), "node-0")


def test_every_step_runs_in_order_and_the_default_binds_where_all_skip() -> None:
    diary: list[str] = []
    assert bound(every("A", diary), every("B", diary)).node == "node-0"
    assert diary == [
        *("A.reserve", "B.reserve", "A.permit", "B.permit", "A.pre_bind", "B.pre_bind"),
        *("A.bind", "B.bind", "A.post_bind", "B.post_bind"),
    ]


def test_the_first_bind_plugin_that_does_not_skip_binds() -> None:
    diary: list[str] = []
    cluster = testing.Cluster(every("A", diary, bind=None), every("B", diary))
    assert cluster.bind(testing.make_pod("p"), "node-0").node == "node-0"
    assert "B.bind" not in diary
    assert cluster.bindings.nodes == {}, "kubextend posts no Binding of its own"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (NO, "no"),
        (OSError("x"), '{} plugin "A" failed'),
        (Status.error("x"), '{} plugin "A" failed'),
    ],
)
def test_a_failure_unreserves_all_in_reverse_order(point: str, said: Any, error: str) -> None:
    diary: list[str] = []
    outcome = bound(every("A", diary, **{point: said}), every("B", diary))
    name = {"pre_bind": "PreBind"}.get(point, point.capitalize())
    assert (outcome.node, outcome.error) == (None, error.format(name))
    steps = POINTS[: POINTS.index(point)]
    before = [f"{plugin}.{step}" for step in steps for plugin in "AB"]
    assert diary == [*before, f"A.{point}", "B.unreserve", "A.unreserve"]


def test_a_post_bind_or_an_unreserve_that_raises_changes_nothing_else() -> None:
    diary: list[str] = []
    assert bound(every("A", diary, post_bind=OSError("x"))).node == "node-0"
    raises = every("B", diary, unreserve=OSError("x"), permit=NO)
    assert bound(every("A", diary), raises).error == "no"
    assert diary[-2:] == ["B.unreserve", "A.unreserve"]


@pytest.mark.parametrize("decorated", [False, True])
def test_methods_may_be_async_also_behind_a_decorator(decorated: bool) -> None:
    diary: list[str] = []

    def saying(name: str, answer: Any) -> Callable[..., Any]:
        async def method(*_: Any) -> Any:
            await asyncio.sleep(0)
            diary.append(name)
            return answer

        calls = functools.wraps(method)(lambda *given: method(*given))  # noqa: PLW0108
        return calls if decorated else method

    says = dict.fromkeys(("reserve", "unreserve", "pre_bind", "bind", "post_bind"))
    says["permit"] = (Status.success(), 1.0)
    plugin = Plugin(**{name: saying(name, answer) for name, answer in says.items()})
    assert bound(plugin).error == ""
    assert diary == ["reserve", "permit", "pre_bind", "bind", "post_bind"]
    diary.clear()
    vars(plugin)["pre_bind"] = saying("pre_bind", NO)
    assert bound(plugin).error == "no"
    assert diary == ["reserve", "permit", "pre_bind", "unreserve"]


# Waits in Permit.


def test_a_held_pod_is_bound_when_every_plugin_has_allowed_it() -> None:
    pod = testing.make_pod("p")
    cluster = testing.Cluster(every("A", [], permit=WAIT), every("B", [], permit=WAIT))
    assert cluster.bind(pod, "node-0").waiting == ("A", "B")
    held = cluster.held(pod)
    assert [held.allow(name) for name in ("none", "A", "A")] == [False, True, False]
    cluster.advance(59)
    assert cluster.outcome(pod).waiting == ("B",)
    assert [held.allow("B"), held.reject("A", "too late")] == [True, False]
    cluster.advance()
    assert cluster.outcome(pod).node == "node-0"


def test_a_held_pod_is_sent_back_with_the_reason_and_stays_so() -> None:
    diary: list[str] = []
    pod = testing.make_pod("p")
    cluster = testing.Cluster(every("A", diary, permit=WAIT))
    cluster.bind(pod, "node-0")
    held = cluster.held(pod)
    assert [held.reject("A", "the gang is gone"), held.allow("A")] == [True, False]
    assert not held.reject("A", "again")
    cluster.advance()
    assert cluster.outcome(pod).error == "the gang is gone"
    assert diary[-1] == "A.unreserve"
    # A later rejection wins over a wait.
    assert bound(every("A", [], permit=WAIT), every("B", [], permit=NO)).error == "no"


@pytest.mark.parametrize(
    ("first", "second", "after_s", "waited"),
    [
        ((Status.wait(), 2), WAIT, 2, "2s"),
        ((Status.wait(), 0.02), None, 0.02, "20ms"),
        ((Status.wait(), 0.0), None, 0, "0s"),
        ((Status.wait(), float("-inf")), None, 0, "0s"),
        (Status.wait(), None, 0, "0s"),
        # The configuration allows no more.
        ((Status.wait(), 1e9), None, 60, "1m0s"),
    ],
)
def test_the_shortest_wait_rejects(first: Any, second: Any, after_s: float, waited: str) -> None:
    pod = testing.make_pod("p")
    cluster = testing.Cluster(every("A", [], permit=first), every("B", [], permit=second))
    cluster.bind(pod, "node-0")
    if after_s:
        cluster.advance(after_s - 0.01)
        assert cluster.outcome(pod).waiting
    cluster.advance(0.01)
    why = f"rejected due to timeout after waiting {waited} at plugin A"
    assert cluster.outcome(pod).error == why


def held_in(*namespaces: str, **most: int) -> list[str]:
    """Return why pods of these namespaces cannot be held, one after the other."""
    settings = {f"extender.{name}": number for name, number in most.items()}
    server = wire.Wire(every("A", [], permit=WAIT), nodes=["n"], settings=settings)
    said = []
    for number, namespace in enumerate(namespaces):
        pod = wire.pod(f"p{number}", namespace=namespace)
        server.show_pod(pod)
        call = server.begin_bind(pod, "n")
        server.until(lambda pod=pod, call=call: call.done or server.held(pod))
        said.append(call.answer().error if call.done else "")
    return said


def test_no_more_pods_are_held_than_may_be(caplog: pytest.LogCaptureFixture) -> None:
    allows = "wait already, as extender.maxHeldPods"
    most = {"maxHeldPods": 3, "maxHeldPodsPerNamespace": 2}
    full = f"2 pods of this namespace {allows}PerNamespace allows"
    assert held_in("a", "a", "a", "b", "c", **most) == ["", "", full, "", f"3 pods {allows} allows"]
    told = [each.getMessage() for each in caplog.records if "cannot be held" in each.getMessage()]
    assert len(told) == 1, "until a held pod leaves"


def test_a_pod_that_permit_holds_no_more_leaves_its_place_to_another_of_its_namespace() -> None:
    settings = {"extender.maxHeldPodsPerNamespace": 1}
    server = wire.Wire(every("A", [], permit=WAIT), nodes=["n"], settings=settings)
    for name in ("first", "second"):
        pod = wire.pod(name)
        server.show_pod(pod)
        call = server.begin_bind(pod, "n")
        server.until(lambda pod=pod, call=call: call.done or server.held(pod))
        held = server.held(pod)
        assert held, call.answer().error
        assert held.allow("A")
        assert call.answer().error == ""


# A client that leaves in the middle, as kube-scheduler does after its timeout.


class Reserves(Plugin):
    """A plugin whose async Reserve and Unreserve write into ``diary``."""

    def __init__(self, diary: list[str], **methods: Any) -> None:
        async def reserve(*_: Any) -> None:
            diary.append("reserve")

        async def unreserve(*_: Any) -> None:
            diary.append("unreserve")

        super().__init__("Reserves", reserve=reserve, unreserve=unreserve, **methods)


def leaves_in(method: str, *, answer: Any) -> tuple[list[str], wire.Wire]:
    """Let a client leave while a plugin waits in a method, catches that, and answers."""
    diary: list[str] = []
    began: list[str] = []

    async def catches(*_: Any) -> Any:
        began.append(method)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        diary.append(method)
        return answer

    pod = wire.pod("p")
    server = wire.Wire(Reserves(diary, **{method: catches}), nodes=["n"], pods=[pod])
    call = server.begin_bind(pod, "n")
    server.until(lambda: began)
    call.leave()
    server.until(lambda: call.done)
    return diary, server


@pytest.mark.parametrize(
    ("method", "answer"), [("permit", WAIT), ("permit", None), ("pre_bind", None)]
)
def test_a_bind_whose_cancellation_a_plugin_catches_ends(method: str, answer: Any) -> None:
    diary, server = leaves_in(method, answer=answer)
    assert diary == ["reserve", method, "unreserve"]
    assert server.binder.bound == {}


def test_a_pod_that_a_bind_plugin_binds_although_it_is_cancelled_is_bound() -> None:
    diary, server = leaves_in("bind", answer=None)
    assert diary == ["reserve", "bind"]
    assert server.assumed() == {"p": "n"}


def test_every_post_bind_runs_though_the_client_leaves_in_the_middle() -> None:
    told: list[str] = []
    go = asyncio.Event()

    async def slow(*_: Any) -> None:
        await go.wait()
        told.append("slow")

    pod = wire.pod("p")
    plugins = [Plugin("A", post_bind=slow), Plugin("B", post_bind=lambda *_: told.append("B"))]
    server = wire.Wire(*plugins, nodes=["n"], pods=[pod])
    call = server.begin_bind(pod, "n")
    server.until(lambda: server.binder.bound)
    call.leave()
    go.set()
    server.until(lambda: "B" in told)
    assert told == ["slow", "B"]
    assert server.binder.bound == {"uid-of-p": "n"}


@pytest.mark.parametrize("method", POINTS)
def test_a_call_that_outlives_its_client_is_undone_and_no_newer_bind_reserves(method: str) -> None:
    began, go = threading.Event(), threading.Event()
    diary: list[str] = []

    def hang(*_: Any) -> None:
        began.set()
        stop_here(go)
        diary.append(f"late {method}")

    pod = wire.pod("p")
    plugin = Reserves(diary)
    vars(plugin)[method] = hang
    server = wire.Wire(plugin, nodes=["n"], pods=[pod])
    call = server.begin_bind(pod, "n")
    server.until(began.is_set)
    call.leave()
    server.until(lambda: "unreserve" in diary)
    before = list(diary)
    newer = server.bind(pod, "n").error
    point = {"pre_bind": "PreBind"}.get(method, method.capitalize())
    assert newer == f"an earlier {point} of plugin Reserves for this pod has not returned"
    assert diary == before
    go.set()
    server.until(lambda: len(diary) == len(before) + 2)
    assert diary[-2:] == [f"late {method}", "unreserve"]
