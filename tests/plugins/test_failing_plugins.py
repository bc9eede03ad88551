"""Plugins that fail: contained for other pods, and followed by every Unreserve."""

import asyncio
import importlib
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.doors import command_line
from tests.doors.stories import WAIT, Plugin
from tests.doors.wire import answers, raises

from kubextend import Status, core, errors, testing

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 60


def says_error(*_: Any) -> Status:
    return Status.error("cannot say")


FAILS = [raises(ValueError("bad")), raises(SystemExit(1)), says_error, lambda *_: object()]


def for_bad_pods(fails: Callable[..., Any], well: Any = None) -> Callable[..., Any]:
    """Return a method that fails for pods with the label ``bad``, and for others says ``well``."""
    return lambda _, pod, *__: fails() if pod.labels.get("bad") else well


def bad_pods() -> list[core.Pod]:
    return [
        testing.make_pod("bad", namespace=f"tenant-{number}", labels={"bad": "yes"})
        for number in range(6)
    ]


nothing = answers(None)
# The method of each point.
POINTS = {
    "PreFilter": "pre_filter",
    "Filter": "filter",
    "Reserve": "reserve",
    "Permit": "permit",
    "PreBind": "pre_bind",
    "Bind": "bind",
}


@pytest.mark.parametrize("fails", FAILS)
@pytest.mark.parametrize("point", POINTS)
def test_pods_for_which_a_plugin_raises_take_it_from_no_other_pod(point: str, fails: Any) -> None:
    methods = {POINTS[point]: for_bad_pods(fails)}
    both = methods | ({"unreserve": nothing} if point == "Reserve" else {})
    cluster = testing.Cluster(Plugin(**both))
    for bad in bad_pods():
        assert f'{point} plugin "P" failed' in cluster.schedule(bad).error
    assert cluster.schedule(testing.make_pod("good", namespace="another")).node == "node-0"
    assert {failure.extension_point for failure in cluster.failures} == {point}
    assert len(cluster.failures) == 6


def test_scores_that_fail_for_one_tenants_pods_count_for_all_others() -> None:
    scores = Plugin(score=for_bad_pods(FAILS[0], 70))
    cluster = testing.Cluster(scores, nodes=["a", "b"], weights={"P": 10})
    assert all(cluster.prioritize(bad) == {} for bad in bad_pods())
    assert cluster.prioritize(testing.make_pod("good")) == {"a": 70, "b": 70}


def test_a_plugin_that_hangs_is_not_called_for_thirty_seconds_and_then_is_again() -> None:
    calls: list[str] = []

    async def hangs(_state: Any, pod: Any, _node: str) -> None:
        calls.append(pod.name)
        if pod.name == "hangs":
            await asyncio.sleep(1e6)

    cluster = testing.Cluster(Plugin(pre_bind=hangs))
    assert 'PreBind plugin "P" failed' in settled(cluster, testing.make_pod("hangs")).error
    cluster.advance(29)
    assert 'PreBind plugin "P" failed' in cluster.schedule(testing.make_pod("soon")).error
    cluster.advance(1)
    assert cluster.schedule(testing.make_pod("later")).node == "node-0"
    assert calls == ["hangs", "later"]


class Odd(BaseException):
    """What a plugin may raise, though nothing that catches Exception sees it."""


class Unreadable(Exception):  # noqa: N818
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise self


async def cancels_its_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def hangs() -> None:
    await asyncio.Event().wait()


async def ignores_a_cancellation() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


ERRORS: list[BaseException] = [
    ValueError("bad"),
    Odd(),
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    asyncio.CancelledError(),
    Unreadable(),
]
# What an Unreserve does, on a thread or on the event loop.
AMISS: dict[str, Callable[[], Any]] = {
    **{f"raises {type(error).__name__}": raises(error) for error in ERRORS},
    "answers": Status.success,
    "cancels its own task": cancels_its_own_task,
    "hangs": hangs,
    "ignores a cancellation": ignores_a_cancellation,
}


class Reserves:
    """A plugin that notes its Reserve and Unreserve, and may do worse."""

    def __init__(
        self, name: str, log: list[str], amiss: Callable[[], Any] | None = None, **more: Any
    ) -> None:
        self.name = name
        self._log = log
        self._amiss = amiss
        vars(self).update(more)

    def reserve(self, *_: Any) -> None:
        self._log.append(f"+{self.name}")

    def unreserve(self, *_: Any) -> Any:
        self._log.append(f"-{self.name}")
        return None if self._amiss is None else self._amiss()


class ReservesAsync(Reserves):
    """A Reserve plugin whose Unreserve is async, so that it runs on the event loop."""

    async def unreserve(self, *_: Any) -> Any:
        answer = super().unreserve()
        return await answer if asyncio.iscoroutine(answer) else answer


rejects = answers(Status.unschedulable("no"))


def settled(cluster: testing.Cluster, pod: Any) -> testing.Outcome:
    """Schedule a pod, and let time pass until kube-scheduler has its answer."""
    outcome = cluster.schedule(pod)
    for _ in range(300):
        if outcome.answered:
            break
        cluster.advance(1)
        outcome = cluster.outcome(pod)
    return outcome


@pytest.mark.parametrize("kind", [Reserves, ReservesAsync])
@pytest.mark.parametrize("amiss", AMISS)
@pytest.mark.parametrize("ends", ["another plugin rejects", "a newer request comes"])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_every_unreserve_runs_whatever_one_of_them_does(ends: str, amiss: str, kind: Any) -> None:
    log: list[str] = []
    plugins = [Reserves("a", log), kind("b", log, AMISS[amiss]), Reserves("c", log)]
    rejected = ends == "another plugin rejects"
    last = Plugin("Last", pre_bind=rejects) if rejected else Plugin("Last", permit=answers(WAIT))
    pod = testing.make_pod("p")
    with testing.Cluster(*plugins, last) as cluster:
        if rejected:
            assert settled(cluster, pod).error == "no"
        else:
            assert cluster.schedule(pod).waiting == ("Last",)
            cluster.bind(pod, "node-1")
            for _ in range(300):
                if len(log) < 6:
                    cluster.advance(1)
        assert log[:6] == ["+a", "+b", "+c", "-c", "-b", "-a"]
        failure = cluster.failures[0]
    assert (failure.plugin, failure.extension_point) == ("b", "Unreserve")


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_plugin_that_fails_during_a_bind_is_followed_by_every_unreserve(
    error: Any, point: str
) -> None:
    log: list[str] = []
    fails = Reserves("b", log, **{point: raises(error)})
    cluster = testing.Cluster(Reserves("a", log), fails, Reserves("c", log))
    assert 'plugin "b" failed' in settled(cluster, testing.make_pod("p")).error
    assert [line for line in log if line.startswith("-")] == ["-c", "-b", "-a"]


def test_an_unreserve_that_blocks_its_thread_keeps_no_other_pod_waiting() -> None:
    log: list[str] = []
    other_is_bound = threading.Event()
    held, rejected = testing.make_pod("held"), testing.make_pod("rejected")

    def blocks() -> None:
        cluster.held(held).allow("P")
        assert other_is_bound.wait(PATIENT_S)

    async def rejects_one(_state: Any, pod: Any, _node: str) -> Status:
        return Status.unschedulable("no") if pod.name == "rejected" else Status.success()

    def holds_one(_state: Any, pod: Any, _node: str) -> tuple[Status, float]:
        return WAIT if pod.name == "held" else (Status.success(), 60.0)

    async def tells(*_: Any) -> None:
        other_is_bound.set()

    others = Plugin(permit=holds_one, pre_bind=rejects_one, post_bind=tells)
    plugins = [Reserves("a", log), Reserves("b", log, blocks), Reserves("c", log)]
    with testing.Cluster(*plugins, others) as cluster:
        assert cluster.schedule(held).waiting == ("P",)
        assert cluster.schedule(rejected).error == "no"
        assert cluster.outcome(held).node == "node-0"
        assert cluster.failures == []
    assert log == ["+a", "+b", "+c", "+a", "+b", "+c", "-c", "-b", "-a"]


def test_a_method_that_a_plugin_has_lost_is_a_failure_and_every_other_unreserve_runs() -> None:
    log: list[str] = []
    loses = Plugin("Loses", reserve=lambda *_: delattr(loses, "unreserve"), unreserve=nothing)
    cluster = testing.Cluster(Reserves("a", log), loses, Plugin("No", bind=rejects))
    assert settled(cluster, testing.make_pod("p")).error == "no"
    assert log == ["+a", "-a"]
    assert cluster.failures[0].plugin == "Loses"


RESERVE_ALONE = "one of reserve and unreserve is missing: write both, if need be with an empty body"
NORMALIZE_ALONE = "normalize_score without score is never called: write score or score_nodes too"
RESERVE = "def reserve(self, state, pod, node_name): ..."
# The bodies of classes that kubextend refuses, and with which sentence.
HALVES = [
    (RESERVE, RESERVE_ALONE),
    ("def unreserve(self, state, pod, node_name): ...", RESERVE_ALONE),
    (f"{RESERVE}\n    unreserve = None", RESERVE_ALONE),
    (f"async {RESERVE}\n    permit = reserve", RESERVE_ALONE),
    ("fitler = print", "kubextend never calls fitler: rename it to filter"),
    ("def filter(self, *_): ...\n    normalize_score = filter", NORMALIZE_ALONE),
    (f"{RESERVE}\n    def unreserve(self, pod): ...", "does not take (state, pod, node_name)"),
    (
        f"{RESERVE}\n    unreserve = property(lambda _: 1 / 0)",
        "unreserve does not take (state, pod, node_name)",
    ),
]


@pytest.mark.parametrize("half", range(len(HALVES)))
def test_a_method_without_its_other_half_is_refused_in_one_sentence_everywhere(
    half: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, sentence = HALVES[half]
    module = f"half_{half}"
    command_line.write(tmp_path / f"{module}.py", f"class Half:\n    name = 'Half'\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    profiles = [command_line.profile("s", multiPoint="Half")]
    tree = command_line.configuration(outOfTree=[f"{module}:Half"], profiles=profiles, cluster={})
    file = command_line.write(tmp_path / "kubextend.yaml", tree)
    for command in (["check", file], ["serve", "--config", file]):
        done = command_line.run(*command)
        assert done.exit_code != 0
        assert sentence in done.output
    given = importlib.import_module(module).Half
    pod = testing.make_pod()
    for refuses in (
        lambda: testing.Cluster(given),
        lambda: testing.Cluster(given()),
        lambda: testing.run_filter(given, pod),
        lambda: testing.run_binding_cycle(given, pod),
    ):
        with pytest.raises(errors.KubextendError, match=re.escape(sentence)):
            refuses()
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        testing.conformance(given)
