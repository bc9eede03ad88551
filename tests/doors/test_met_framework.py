"""What people met in plugins that fail: at the doors that a plugin author and an operator use."""

import asyncio
import importlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from kubextend import Status, app, cli, discovery, errors, testing

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


TOKEN = "0123456789abcdef"
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
        done = runner.invoke(cli.main, [*command, str(half / "kubextend.yaml")])
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
        lambda: discovery.known_plugins({"Half": given}),
    ):
        with pytest.raises(errors.KubextendError, match=re.escape(sentence)):
            refuses()
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        testing.conformance(given)


def failures_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says of failing plugins, with tracebacks, as any handler writes it."""
    formatter = logging.Formatter()
    return [formatter.format(each) for each in caplog.records if "running " in each.getMessage()]


def frames_of(text: str) -> list[str]:
    return re.findall(r'File "([^"]+)"', text)


def test_a_plugin_that_raises_for_one_pod_has_its_own_frames_in_the_log_once_and_then_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = testing.Cluster(plugin(filter=for_bad_pods(raises)))
    bad = testing.make_pod("bad", labels={"bad": "yes"})
    for _ in range(30):
        assert cluster.schedule(bad).error.endswith("; kubextend's log says how")
        cluster.advance(10)
    # The calls are 10 s apart, so a line a minute comes with each sixth one after the first.
    first, *later = failures_in(caplog)
    assert "ValueError: bad" in first
    assert frames_of(first) == [__file__, __file__]
    assert len(first.splitlines()) <= 10
    assert all(len(line.splitlines()) == 1 and "ValueError: bad" in line for line in later)
    told = [int(count) for count in re.findall(r"(\d+) times so far", " ".join(later))]
    assert told == [1 + 6 * minute for minute in (1, 2, 3, 4)]
    assert len(cluster.failures) == 30


def test_pods_that_fail_in_turn_by_the_same_error_share_a_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = testing.Cluster(plugin(filter=for_bad_pods(raises)))
    pods = [testing.make_pod(name, uid=name, labels={"bad": "yes"}) for name in ("a", "b")]
    for _ in range(20):
        for pod in pods:
            cluster.schedule(pod)
        cluster.advance(5)
    first, again = failures_in(caplog)
    assert frames_of(first)
    assert re.findall(r"(\d+) times so far$", again) == ["25"]
    assert len(cluster.failures) == 40


def test_another_error_another_line_and_another_plugin_have_their_own_frames(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_self: Any, _state: Any, pod: Any, *_: Any) -> None:
        if pod.name == "type":
            raise KeyError(pod.name)
        if pod.name == "line":
            raise ValueError(pod.name)
        raise ValueError(pod.name)

    cluster = testing.Cluster(plugin("P", pre_filter=fails))
    other = testing.Cluster(plugin("Q", pre_filter=fails))
    for each, name in ((cluster, "p"), (cluster, "type"), (cluster, "line"), (other, "p")):
        each.schedule(testing.make_pod(name))
    assert [len(frames_of(line)) for line in failures_in(caplog)] == [1, 1, 1, 1]


# How many other kinds of errors come in between, and whether the log then tells of the first again.
@pytest.mark.parametrize(("others", "again"), [(100, []), (300, [True])])
def test_kinds_of_errors_that_never_end_are_forgotten_and_then_told_as_new(
    others: int, again: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_self: Any, _state: Any, pod: Any, *_: Any) -> None:
        kind = type(f"Error{pod.name}", (Exception,), {})
        raise kind

    cluster = testing.Cluster(plugin(filter=fails), nodes=1)
    for number in [*range(1 + others), 0, 0]:
        cluster.filter(testing.make_pod(f"p{number}"))
    told = [line for line in failures_in(caplog) if "Errorp0:" in line]
    assert [bool(frames_of(line)) for line in told] == [True, *again]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "method", ["reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind", "start", "stop"]
)
def test_frames_of_kubextend_and_of_the_event_loop_are_in_no_traceback_of_a_plugin(
    method: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def raises_async(*_: Any) -> None:
        raises()

    pair = {"reserve": nothing, "unreserve": nothing, "filter": nothing}
    given = {**pair, method: raises if kind == "sync" else raises_async}
    ends = {"pre_bind": rejects} if method == "unreserve" else {}
    with testing.Cluster(plugin(**{**given, **ends})) as cluster:
        cluster.schedule(testing.make_pod("p"))
    [first] = failures_in(caplog)
    assert set(frames_of(first)) == {__file__}
    assert "ValueError: bad" in first


@pytest.mark.parametrize("method", ["pre_filter", "post_filter", "pre_score", "score"])
def test_frames_of_kubextend_are_in_no_traceback_of_a_plugin_that_filters_or_scores(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"filter": rejects if method == "post_filter" else nothing, "score": lambda *_: 0}
    cluster = testing.Cluster(plugin(**{**given, method: raises}))
    pod = testing.make_pod("p")
    cluster.filter(pod)
    cluster.prioritize(pod)
    first = failures_in(caplog)[0]
    assert frames_of(first) == [__file__]


async def asked_for_decisions(config: Path, plugin_class: type, times: int) -> None:
    """Filter pods of a server with a plugin, and ask as often what the last one lacks."""
    made = app.create_app(discovery.load(config, {"P": plugin_class}))
    transport = httpx.ASGITransport(app=made)
    nodes = {"items": [testing.node_manifest("n")]}
    async with httpx.AsyncClient(transport=transport, base_url="http://kubextend") as client:
        for number in range(times):
            pod = testing.pod_manifest(f"p{number}")
            body = {"Pod": pod, "Nodes": nodes, "NodeNames": None}
            await client.post("/filter", json=body)
            found = await client.get(
                f"/decisions?pod=default/p{number}", headers={"Authorization": f"Bearer {TOKEN}"}
            )
            assert found.status_code == 200, found.text


def test_an_unblock_that_raises_is_in_the_log_with_its_own_frames_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    config = tmp_path / "kubextend.yaml"
    config.write_text(
        f"""\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
extender: {{nodeCacheCapable: false}}
server: {{decisions: {{tokenFile: {tmp_path / "token"}}}}}
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: P}}]}}}}
"""
    )
    asyncio.run(asked_for_decisions(config, plugin(filter=rejects, unblock=raises), 3))
    told = [line for line in failures_in(caplog) if "unblock" in line]
    assert [set(frames_of(line)) for line in told] == [{__file__}]


def test_a_plugin_that_asks_too_much_of_kubextend_sees_its_own_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def reads_pods(_self: Any, _state: Any, _pod: Any, node: Any) -> None:
        assert node.pods is not None

    testing.Cluster(plugin(filter=reads_pods)).schedule(testing.make_pod("p"))
    [first] = failures_in(caplog)
    assert frames_of(first) == [__file__]
    assert "needs_pods = True" in first


class Gpus:
    """Looks at pods with a team alone, as a generated pod has none."""

    name = "Gpus"

    def pre_filter(self, _state: Any, pod: Any, _nodes: Any) -> Status | None:
        return None if pod.labels.get("team") else Status.unresolvable("no team")

    def filter(self, _state: Any, _pod: Any, node: Any) -> Status | None:
        if node.allocatable("nvidia.com/gpu"):
            return None
        return Status.unschedulable("no GPU")

    def score(self, _state: Any, _pod: Any, _node: Any) -> int:
        return 7

    def reserve(self, *_: Any) -> None: ...

    def unreserve(self, *_: Any) -> None: ...


TEAM = testing.pod_manifest("train", labels={"team": "red"})
GPU = testing.node_manifest("gpu-0", allocatable={"nvidia.com/gpu": "8"})
PLAIN = testing.node_manifest("plain-0")


def test_conformance_says_which_method_was_never_called_and_takes_what_reaches_it() -> None:
    with pytest.raises(AssertionError) as caught:
        testing.conformance(Gpus)
    reached_by = "pass pods= and nodes= that pass it"
    never = f"was never called: pre_filter rejected every generated pod; {reached_by}"
    assert f"filter {never}" in str(caught.value)
    assert f"score {never}" in str(caught.value)
    assert f"reserve {never}" in str(caught.value)
    with pytest.raises(AssertionError) as caught:
        testing.conformance(Gpus, pods=[TEAM])
    never = f"was never called: filter rejected every given pod; {reached_by}"
    assert f"reserve {never}" in str(caught.value)
    assert "- filter" not in str(caught.value)
    testing.conformance(Gpus, pods=[TEAM], nodes=[PLAIN, GPU])


def differing(**members: Any) -> type:
    return type("Gpus", (Gpus,), members)


FAULTS: dict[str, tuple[type, str]] = {
    "a filter that raises": (differing(filter=raises), "ValueError: bad"),
    "a score that raises": (differing(score=raises), "ValueError: bad"),
    "a normalize_score that raises": (differing(normalize_score=raises), "ValueError: bad"),
    "a permit that raises": (differing(permit=raises), "permit: ValueError: bad"),
    "a post_filter that raises": (differing(post_filter=raises), "PostFilter plugin: ValueError"),
    "a pre_score that raises": (differing(pre_score=raises), "PreScore plugin: ValueError"),
    "a pre_bind that raises": (differing(pre_bind=raises), "pre_bind: ValueError: bad"),
    "an unblock that raises": (differing(unblock=raises), "unblock: ValueError: bad"),
    "an unblock without a text": (differing(unblock=nothing), "unblock answers a text: None"),
    "a reason with the node's name": (
        differing(filter=lambda *given: Status.unschedulable(f"{given[3].name} has no GPU")),
        "names the node or the pod",
    ),
    "a reason with the pod's name": (
        differing(filter=lambda *given: Status.unschedulable(f"no GPU for {given[2].name}")),
        "names the node or the pod",
    ),
    "a reason of permit with the node's name": (
        differing(permit=lambda *given: Status.unschedulable(f"{given[3]} is full")),
        "names the node or the pod",
    ),
    "a pre_score that skips": (
        differing(pre_score=lambda *_: Status.skip()),
        "score was never called: pre_score skipped every given pod",
    ),
    "a pre_filter that skips": (
        differing(pre_filter=lambda *_: Status.skip()),
        "filter was never called: pre_filter skipped every given pod",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_conformance_finds_a_fault_in_every_method_that_given_pods_reach(fault: str) -> None:
    faulty, what = FAULTS[fault]
    with pytest.raises(AssertionError, match=re.escape(what)):
        testing.conformance(faulty, pods=[TEAM], nodes=[PLAIN, GPU], cases=6)


def test_conformance_has_no_complaint_of_a_reason_in_which_a_nodes_name_is_part_of_a_word() -> None:
    testing.conformance(Gpus, pods=[TEAM], nodes=[testing.make_node("a"), GPU], cases=6)


class ReadsItsObject:
    """Lets pods of a PodGroup pass that has the right object in an informer, or a bound member."""

    name = "ReadsItsObject"
    informers = ("configmaps",)
    needs_pods = True

    def __init__(self, handle: Any) -> None:
        self._informer = handle.informer("configmaps")

    def pre_filter(self, _state: Any, pod: Any, _nodes: Any) -> Status | None:
        found = self._informer.get(pod.namespace, "open")
        return None if found else Status.unresolvable("closed")

    def filter(self, _state: Any, _pod: Any, node: Any) -> Status | None:
        return (
            None if "friend" in [pod.name for pod in node.pods] else Status.unschedulable("alone")
        )

    def permit(self, *_: Any) -> None: ...


def test_conformance_takes_the_objects_of_informers_and_pods_that_are_on_nodes() -> None:
    given = {"objects": {"configmaps": [{"metadata": {"namespace": "default", "name": "open"}}]}}
    with pytest.raises(AssertionError, match="filter was never called"):
        testing.conformance(ReadsItsObject, cases=6)
    with pytest.raises(AssertionError, match="permit was never called: filter rejected"):
        testing.conformance(ReadsItsObject, **given, cases=6)
    friend = testing.make_pod("friend", node_name="node-0")
    testing.conformance(ReadsItsObject, pods=[friend], **given, cases=6)


def test_a_cluster_says_which_methods_were_called() -> None:
    cluster = testing.Cluster(Gpus, nodes=[GPU, PLAIN])
    cluster.schedule(testing.make_pod("p"))
    assert cluster.called == {("Gpus", "PreFilter")}
    cluster.schedule(TEAM)
    assert cluster.called >= {("Gpus", "Filter"), ("Gpus", "Reserve")}
