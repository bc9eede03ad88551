"""What people met in plugins that fail: at the doors that a plugin author and an operator use."""

import asyncio
import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubextend import Status, errors, testing
from kubextend.cli import main

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 60


def plugin(name: str = "P", **members: Any) -> type:
    """Return a plugin class with these methods."""
    return type(name, (), {"name": name, **members})


def raises(*_: Any) -> Any:
    message = "bad"
    raise ValueError(message)


def exits(*_: Any) -> Any:
    raise SystemExit(1)


def says_error(*_: Any) -> Status:
    return Status.error("cannot say")


def says_what_it_may_not(*_: Any) -> object:
    return object()


FAILS = [raises, exits, says_error, says_what_it_may_not]


def for_bad_pods(fails: Callable[..., Any], well: Any = None) -> Callable[..., Any]:
    """Return a method that fails for pods with the label ``bad``, and for others says ``well``."""

    def method(_self: Any, _state: Any, pod: Any, *_: Any) -> Any:
        return fails() if pod.labels.get("bad") else well

    return method


def nothing(*_: Any) -> None: ...


# The methods of a plugin with one that fails, and what the answer to a bad pod says.
POINTS: dict[str, tuple[Callable[[Any], type], str]] = {
    "PreFilter": (lambda fails: plugin(pre_filter=fails), 'PreFilter plugin "P" failed'),
    "Filter": (lambda fails: plugin(filter=fails), 'Filter plugin "P" failed'),
    "Reserve": (
        lambda fails: plugin(reserve=fails, unreserve=nothing),
        'Reserve plugin "P" failed',
    ),
    "Permit": (lambda fails: plugin(permit=fails), 'Permit plugin "P" failed'),
    "PreBind": (lambda fails: plugin(pre_bind=fails), 'PreBind plugin "P" failed'),
    "Bind": (lambda fails: plugin(bind=fails), 'Bind plugin "P" failed'),
}


@pytest.mark.parametrize("fails", FAILS)
@pytest.mark.parametrize("point", POINTS)
def test_pods_for_which_a_plugin_raises_take_it_from_no_other_pod(
    point: str, fails: Callable[..., Any]
) -> None:
    made, why = POINTS[point]
    cluster = testing.Cluster(made(for_bad_pods(fails)))
    for number in range(6):
        bad = testing.make_pod("bad", namespace=f"tenant-{number}", labels={"bad": "yes"})
        assert why in cluster.schedule(bad).error
    assert cluster.schedule(testing.make_pod("good", namespace="another")).node == "node-0"
    assert {failure.extension_point for failure in cluster.failures} == {point}
    assert len(cluster.failures) == 6


def test_scores_that_fail_for_one_tenants_pods_count_for_all_others() -> None:
    scores = plugin(score=for_bad_pods(raises, 70))
    cluster = testing.Cluster(scores, nodes=["a", "b"], weights={"P": 10})
    for number in range(6):
        bad = testing.make_pod("bad", namespace=f"tenant-{number}", labels={"bad": "yes"})
        assert cluster.prioritize(bad) == {}
    assert cluster.prioritize(testing.make_pod("good")) == {"a": 70, "b": 70}


def test_a_plugin_that_hangs_is_not_called_for_thirty_seconds_and_then_is_again() -> None:
    calls: list[str] = []

    async def hangs(_self: Any, _state: Any, pod: Any, _node: str) -> None:
        calls.append(pod.name)
        if pod.name == "hangs":
            await asyncio.sleep(1e6)

    cluster = testing.Cluster(plugin(pre_bind=hangs))
    hanging = testing.make_pod("hangs")
    outcome = cluster.schedule(hanging)
    while not outcome.answered:
        cluster.advance(1)
        outcome = cluster.outcome(hanging)
    assert 'PreBind plugin "P" failed' in outcome.error
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


def raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


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
    **{f"raises {type(error).__name__}": raising(error) for error in ERRORS},
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


def rejects(*_: Any) -> Status:
    return Status.unschedulable("no")


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
@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize("amiss", AMISS)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_every_unreserve_runs_whatever_one_of_them_does(
    amiss: str, odd: int, kind: type[Reserves]
) -> None:
    log: list[str] = []
    plugins = [Reserves(name, log) for name in "abc"]
    plugins[odd] = kind("abc"[odd], log, AMISS[amiss])
    with testing.Cluster(*plugins, plugin("No", pre_bind=rejects)) as cluster:
        assert settled(cluster, testing.make_pod("p")).error == "no"
        assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]
        [failure] = cluster.failures
    assert (failure.plugin, failure.extension_point) == ("abc"[odd], "Unreserve")


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_plugin_that_fails_while_a_pod_is_bound_is_followed_by_every_unreserve(
    error: BaseException, point: str, odd: int
) -> None:
    log: list[str] = []

    def fails(*_: Any) -> None:
        raise error

    plugins = [Reserves(name, log) for name in "abc"]
    plugins[odd] = type("Fails", (Reserves,), {point: fails})("abc"[odd], log)
    cluster = testing.Cluster(*plugins)
    outcome = settled(cluster, testing.make_pod("p"))
    assert f'plugin "{"abc"[odd]}" failed' in outcome.error
    assert [line for line in log if line.startswith("-")] == ["-c", "-b", "-a"]


@pytest.mark.parametrize("kind", [Reserves, ReservesAsync])
@pytest.mark.parametrize("amiss", AMISS)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_every_unreserve_runs_where_a_newer_request_for_the_pod_ends_the_bind(
    amiss: str, kind: type[Reserves]
) -> None:
    log: list[str] = []
    plugins = [Reserves("a", log), kind("b", log, AMISS[amiss]), Reserves("c", log)]
    holds = plugin("Holds", permit=lambda *_: (Status.wait(), 60.0))
    with testing.Cluster(*plugins, holds) as cluster:
        pod = testing.make_pod("p")
        assert cluster.schedule(pod).waiting == ("Holds",)
        cluster.bind(pod, "node-1")
        for _ in range(300):
            if len(log) >= 6:
                break
            cluster.advance(1)
        assert log[:6] == ["+a", "+b", "+c", "-c", "-b", "-a"]


def test_an_unreserve_that_blocks_its_thread_keeps_no_other_pod_waiting() -> None:
    log: list[str] = []
    other_is_bound = threading.Event()
    held, rejected = testing.make_pod("held"), testing.make_pod("rejected")

    def blocks() -> None:
        cluster.held(held).allow("P")
        assert other_is_bound.wait(PATIENT_S)

    async def rejects_one(_self: Any, _state: Any, pod: Any, _node: str) -> Status:
        return Status.unschedulable("no") if pod.name == "rejected" else Status.success()

    def holds_one(_self: Any, _state: Any, pod: Any, _node: str) -> tuple[Status, float]:
        return (Status.wait() if pod.name == "held" else Status.success()), 60.0

    async def tells(*_: Any) -> None:
        other_is_bound.set()

    others = plugin(permit=holds_one, pre_bind=rejects_one, post_bind=tells)
    plugins = [Reserves("a", log), Reserves("b", log, blocks), Reserves("c", log)]
    with testing.Cluster(*plugins, others) as cluster:
        assert cluster.schedule(held).waiting == ("P",)
        assert cluster.schedule(rejected).error == "no"
        assert cluster.outcome(held).node == "node-0"
        assert cluster.failures == []
    assert log == ["+a", "+b", "+c", "+a", "+b", "+c", "-c", "-b", "-a"]


def test_a_method_that_a_plugin_has_lost_is_a_failure_and_every_other_unreserve_runs() -> None:
    log: list[str] = []

    def loses_it(self: Any) -> None:
        self.unreserve = None

    loses = plugin("Loses", __init__=loses_it, reserve=nothing, unreserve=nothing)
    cluster = testing.Cluster(Reserves("a", log), loses, plugin("No", bind=rejects))
    assert settled(cluster, testing.make_pod("p")).error == "no"
    assert log == ["+a", "-a"]
    assert cluster.failures[0].plugin == "Loses"


RESERVE_ALONE = "one of reserve and unreserve is missing: write both, if need be with an empty body"
NORMALIZE_ALONE = "normalize_score without score is never called: write score or score_nodes too"
# The bodies of classes that kubextend refuses, and with which sentence.
HALVES: dict[str, tuple[str, str]] = {
    "reserve": ("def reserve(self, state, pod, node_name): ...", RESERVE_ALONE),
    "unreserve": ("def unreserve(self, state, pod, node_name): ...", RESERVE_ALONE),
    "reserve, and no unreserve of its parent": (
        "def reserve(self, state, pod, node_name): ...\n    unreserve = None",
        RESERVE_ALONE,
    ),
    "an async reserve and a permit": (
        "async def reserve(self, state, pod, node_name): ...\n    permit = reserve",
        RESERVE_ALONE,
    ),
    "normalize_score": (
        "def filter(self, state, pod, node): ...\n    normalize_score = filter",
        NORMALIZE_ALONE,
    ),
    "an unreserve of two arguments": (
        "def reserve(self, state, pod, node_name): ...\n    def unreserve(self, state, pod): ...",
        "does not take (state, pod, node_name)",
    ),
    "an unreserve that is a property": (
        "def reserve(self, *_): ...\n    unreserve = property(lambda _: 1 / 0)",
        "unreserve does not take (state, pod, node_name)",
    ),
}
CONFIGURATION = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
cluster: {}
outOfTree: [MODULE:Half]
profiles:
- schedulerName: s
  plugins: {multiPoint: {enabled: [{name: Half}]}}
"""


@pytest.fixture
def half(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder with a module of its own name that has a class Half with one of the bodies."""
    module = f"half_{abs(hash(request.param))}"
    text = f"class Half:\n    name = 'Half'\n    {HALVES[request.param][0]}\n"
    (tmp_path / f"{module}.py").write_text(text)
    (tmp_path / "kubextend.yaml").write_text(CONFIGURATION.replace("MODULE", module))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("half", "sentence"), [(k, v[1]) for k, v in HALVES.items()], indirect=["half"]
)
def test_a_method_without_its_other_half_is_refused_in_one_sentence_everywhere(
    half: Path, sentence: str
) -> None:
    runner = CliRunner()
    for command in (["check"], ["serve", "--config"]):
        done = runner.invoke(main, [*command, str(half / "kubextend.yaml")])
        assert done.exit_code != 0
        assert sentence in done.output
    module = next(half.glob("half_*.py")).stem
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
