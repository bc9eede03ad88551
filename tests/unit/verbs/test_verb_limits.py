"""Plugins that raise, hang, or answer what they may not; by verb, policy and ignorable."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from verb_world import (
    Binder,
    Clock,
    Needs,
    Pods,
    Scores,
    Watched,
    counted,
    full_request,
    in_time,
    names_request,
    node,
    pod,
    preempt_request,
)

from kubextend import core
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.status import Code, Status
from kubextend.metrics import Metrics
from kubextend.profile import BindingPlugins, PluginLimits, Profile, Profiles
from kubextend.verbs import Verbs
from make_verbs import make_verbs
from skipping_loop import AT_MOST_S, now, run, skip

# Nobody waits for any of it: the tests skip it once the plugin hangs.
TIMEOUT_S = 600.0

NODES = [node("good", {"rdma": "true"}), node("plain")]


class Odd:
    """Does the same at each of its points."""

    name = "Odd"

    def __init__(self, does: Callable[..., Any], *points: str) -> None:
        for point in points:
            setattr(self, point, does)


def raises(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


def answers(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


class DiesError(BaseException):
    """What a panic of the core looks like to Python."""


def odd_verbs(
    odd: Odd, *, ignored: bool = False, timeout_s: float = TIMEOUT_S, **joined: Any
) -> Verbs:
    """Verbs with the odd plugin before one that rejects, and before one that scores."""

    def having(point: str, *others: Any) -> list[Any]:
        return [odd, *others] if hasattr(odd, point) else list(others)

    profile = Profile(
        "default-scheduler",
        pre_filter=having("pre_filter"),
        filter=having("filter_nodes", Needs()) if not hasattr(odd, "filter") else [odd, Needs()],
        post_filter=having("post_filter"),
        pre_score=having("pre_score"),
        score=[(plugin, 1) for plugin in (*having("score_nodes"), *having("score"), Scores(50))],
        binding=BindingPlugins(
            reserve=having("reserve"),
            permit=having("permit"),
            pre_bind=having("pre_bind"),
            bind=having("bind"),
            post_bind=having("post_bind"),
        ),
        ignored=frozenset({"Odd"} if ignored else ()),
    )
    joined.setdefault("watched", Watched().listing(*NODES))
    joined.setdefault("bind_timeout_s", timeout_s)
    metrics = Metrics()
    joined.setdefault("limits", PluginLimits(joined.pop("breaker_clock", None) or Clock(), metrics))
    return make_verbs(
        Profiles.of([profile]),
        metrics=metrics,
        http_timeout_s=timeout_s,
        clock=now,
        **joined,
    )


REQUEST: dict[str, bytes] = {
    "filter": names_request(["good", "plain"]),
    "prioritize": names_request(["good", "plain"]),
    "preempt": preempt_request({"good": ["v"], "plain": ["w"]}),
}
LEFT_OUT = {
    "filter": {"kept": ["good"], "error": ""},
    "prioritize": {"good": 5, "plain": 0},
}


def seen(verb: str, body: bytes) -> Any:
    """The answer in short."""
    answer = json.loads(body)
    match verb:
        case "filter":
            return {"kept": answer["NodeNames"] or [], "error": answer["Error"]}
        case "prioritize":
            return {entry["Host"]: entry["Score"] for entry in answer}
        case _:
            return answer


def failed(point: str) -> dict[str, Any]:
    text = f'{point} plugin "Odd" failed; kubextend\'s log says how'
    return {"kept": [], "error": text}


BAD_CALLS: dict[str, Callable[..., Any]] = {
    "raises Exception": raises(RuntimeError("0x7f3a")),
    "raises BaseException": raises(DiesError()),
    "raises SystemExit": raises(SystemExit(3)),
    "raises GeneratorExit": raises(GeneratorExit()),
    "raises StopIteration": raises(StopIteration()),
    "answers a number": answers(17),
    "answers a text": answers("good"),
    "answers NaN": answers(float("nan")),
    "answers an Error": answers(Status.error("no")),
    "answers Wait": answers(Status.wait()),
    "answers a reason that is no text": answers(Status(Code.UNSCHEDULABLE, 3)),  # type: ignore[arg-type]
    "answers a lone surrogate": answers(Status.unschedulable("\ud800")),
}
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
        "answers a mask of another size": answers(
            [Rejection(core.Mask([True] * 5), Status.unschedulable("no"))]
        ),
        "answers a rejection that is none": answers(
            [Rejection(core.Mask([True, True]), Status.success())]
        ),
        "answers the nodes by name": answers([Rejection(["good"], Status.unschedulable("no"))]),  # type: ignore[arg-type]
    },
}
BAD_FILTERS = [(point, bad) for point, calls in BAD_AT.items() for bad in calls]
POINT = {"pre_filter": "PreFilter", "filter": "Filter", "filter_nodes": "Filter"}


@pytest.mark.parametrize(("method", "bad"), BAD_FILTERS)
def test_a_filter_that_fails_does_what_its_policy_says(method: str, bad: str) -> None:
    odd = Odd(BAD_AT[method][bad], method)
    if method == "pre_filter":
        odd.filter_nodes = answers([])  # type: ignore[attr-defined]
    asked = REQUEST["filter"]
    fails = odd_verbs(odd)
    assert seen("filter", fails.filter(asked)) == failed(POINT[method])
    assert (
        counted(
            fails, "kubextend_plugin_failures_total", plugin="Odd", extension_point=POINT[method]
        )
        == 1
    )
    assert seen("filter", odd_verbs(odd, ignored=True).filter(asked)) == LEFT_OUT["filter"]
    ignorable = json.loads(odd_verbs(odd, ignorable=True).filter(asked))
    why = f'{POINT[method]} plugin "Odd" failed'
    assert ignorable["FailedAndUnresolvableNodes"] == {"good": why, "plain": why}
    assert not ignorable["NodeNames"]
    assert not ignorable["Error"]
    for policy in (False, True):
        preempted = odd_verbs(odd, ignored=policy).preempt(REQUEST["preempt"])
        assert json.loads(preempted) == {"NodeNameToMetaVictims": {}}


BAD_SCORES: dict[str, Any] = {
    "raises Exception": raises(RuntimeError("0x7f3a")),
    "raises BaseException": raises(DiesError()),
    "raises SystemExit": raises(SystemExit(3)),
    "answers None": answers(None),
    "answers too few": answers([1]),
    "answers too many": answers([1, 2, 3]),
    "answers texts": answers(["1", "2"]),
    "answers bytes": answers(b"\x01\x02"),
    "answers a bytearray": answers(bytearray(2)),
    "answers NaN": answers([float("nan"), 1]),
    "answers numbers with a point": answers([1.5, 2.5]),
    "answers 10^30": answers([10**30, 1]),
    "answers 101": answers([101, 1]),
    "answers -1": answers([-1, 1]),
    "answers a dict by name": answers({"good": 1, "plain": 2}),
}


@pytest.mark.parametrize("bad", BAD_SCORES)
def test_a_score_that_fails_is_left_out_and_the_others_count(bad: str) -> None:
    verbs = odd_verbs(Odd(BAD_SCORES[bad], "score_nodes"))
    assert seen("prioritize", verbs.prioritize(REQUEST["prioritize"])) == LEFT_OUT["prioritize"]
    assert (
        counted(verbs, "kubextend_plugin_failures_total", plugin="Odd", extension_point="Score")
        == 1
    )


def test_a_plugin_that_changes_what_it_was_given_changes_no_answer() -> None:
    def meddles(_state: Any, pod: core.Pod, nodes: core.Nodes) -> Sequence[Rejection]:
        nodes.names.clear()
        pod.labels.clear()
        next(iter(nodes.infos())).labels.clear()
        return []

    verbs = odd_verbs(Odd(meddles, "filter_nodes"))
    assert seen("filter", verbs.filter(REQUEST["filter"])) == LEFT_OUT["filter"]


def of_pod(name: str, namespace: str = "ml") -> bytes:
    return names_request(["good", "plain"], pod(name, namespace=namespace))


def test_a_request_that_is_answered_is_forgotten_with_its_task() -> None:
    verbs = odd_verbs(Odd(answers([]), "filter_nodes"))

    def tasks() -> int:
        return sum(isinstance(each, asyncio.Task) for each in gc.get_objects())

    async def scenario() -> int:
        # Tasks of other tests are gone; ours have to go without a collection.
        gc.collect()
        before = tasks()
        for _ in range(20):
            answer = await in_time(verbs, "filter", REQUEST["filter"], now())
            assert seen("filter", answer) == LEFT_OUT["filter"]
        await skip()
        return tasks() - before

    assert run(scenario()) < 20


# (method, what it answers, what the log says)
WRONG_ANSWERS: list[tuple[str, Any, str]] = [
    ("filter", True, "answered bool True where a Status or None is expected"),
    ("filter", "no", "answered str 'no' where a Status or None is expected"),
    ("filter", b"x" * 500, f"answered bytes b'{'x' * 78} where a Status or None is expected"),
    ("filter_nodes", None, "answered NoneType where a sequence of Rejection is expected"),
    ("filter_nodes", [True], "answered bool True where a Rejection is expected"),
    ("filter_nodes", "no", "answered str 'no' where a sequence of Rejection is expected"),
    ("pre_filter", False, "answered bool False where a Status, a PreFilterResult, both or None is"),
    ("pre_filter", (1, 2, 3), "answered tuple where a Status, a PreFilterResult, both"),
    ("score", 0.5, "answered float 0.5 where an int is expected"),
    ("score", "50", "answered str '50' where an int is expected"),
    ("score_nodes", None, "answered NoneType where a sequence of int is expected"),
    ("score_nodes", [1, 0.5], "answered float 0.5 where an int is expected"),
    ("permit", True, "answered bool True where a Status, None or (Status.wait(), seconds) is"),
    (
        "permit",
        (Status.wait(), "soon"),
        "answered str 'soon' where an int or a float as the seconds",
    ),
    ("permit", (Status.wait(), 1, 2), "where a Status, None or (Status.wait(), seconds) is"),
    ("reserve", True, "answered bool True where a Status or None is expected"),
    ("bind", "bound", "answered str 'bound' where a Status or None is expected"),
]


@pytest.mark.parametrize(("method", "answer", "said"), WRONG_ANSWERS)
def test_the_log_says_what_a_plugin_answered_and_what_it_may_answer(
    method: str, answer: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_of_failure(method, answers(answer))
    (record,) = failures_in(caplog)
    assert said in record.getMessage()
    assert record.getMessage().startswith(("filter fails", "left out", "bind fails"))


def log_of_failure(method: str, does: Callable[..., Any]) -> None:
    verb = {"score": "prioritize", "score_nodes": "prioritize"}.get(method, "filter")
    binding = method in {"reserve", "permit", "pre_bind", "bind", "post_bind"}
    odd = Odd(does, method)
    if binding:
        odd.unreserve = answers(None)  # type: ignore[attr-defined]
    verbs = odd_verbs(odd, ignored=not binding and verb == "prioritize", binder=Binder())
    if binding:
        of = pod("p")
        verbs.filter(names_request(["good"], of))
        body = {"PodName": "p", "PodNamespace": "ml", "PodUID": "uid-of-p", "Node": "good"}
        run(verbs.bind(json.dumps(body).encode()))
    else:
        of = pod("p")
        getattr(verbs, verb)(names_request(["good", "plain"], of))


def failures_in(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [
        record
        for record in caplog.records
        if record.name.startswith("kubextend.profile.plugin_failures")
    ]


@pytest.mark.parametrize("verb", ["filter", "filter_nodes", "pre_filter"])
def test_an_async_method_that_nobody_awaits_is_named_as_one(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def judge(*_: Any) -> Status:
        return Status.success()

    log_of_failure(verb, judge)
    (record,) = failures_in(caplog)
    assert "answered a coroutine where" in record.getMessage()
    assert "may be async" in record.getMessage()


@pytest.mark.parametrize(
    ("method", "point", "on_node"),
    [
        ("pre_filter", "PreFilter", ""),
        ("filter_nodes", "Filter", ""),
        ("filter", "Filter", "good"),
        ("pre_score", "PreScore", ""),
        ("score", "Score", "good"),
        ("score_nodes", "Score", ""),
        ("reserve", "Reserve", "good"),
        ("permit", "Permit", "good"),
        ("pre_bind", "PreBind", "good"),
        ("bind", "Bind", "good"),
    ],
)
def test_the_log_names_the_pod_that_a_plugin_failed_for(
    method: str, point: str, on_node: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Odd(raises(KeyError("team")), method)
    if method == "pre_score":
        failing.score = answers(1)  # type: ignore[attr-defined]
        verbs = odd_verbs(failing, ignored=True)
        verbs.prioritize(names_request(["good"], pod("p")))
    else:
        log_of_failure(method, raises(KeyError("team")))
    (record,) = failures_in(caplog)
    facts = {"plugin": "Odd", "extension_point": point, "pod": "ml/p", "uid": "uid-of-p"}
    facts |= {"profile": "default-scheduler"} | ({"node": on_node} if on_node else {})
    assert facts.items() <= vars(record).items()
    assert hasattr(record, "node") == bool(on_node)


def test_a_post_filter_that_fails_leaves_the_pod_unschedulable() -> None:
    verbs = odd_verbs(Odd(raises(RuntimeError("down")), "post_filter"))
    answer = json.loads(bytes(verbs.filter(names_request(["plain"]))))
    assert answer["Error"] == ""
    assert list(answer["FailedAndUnresolvableNodes"]) == ["plain"]
    counted_as = {"plugin": "Odd", "extension_point": "PostFilter"}
    assert counted(verbs, "kubextend_plugin_failures_total", **counted_as) == 1


class Hangs:
    """A way to hang that ends with the test."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.began = threading.Semaphore(0)
        self.calls = 0
        self.waited_for = False

    def sleep(self, *_: Any) -> Any:
        self._begins()
        self.waited_for |= not self.over.wait(AT_MOST_S)

    def spin(self, *_: Any) -> Any:
        self._begins()
        until_s = time.monotonic() + AT_MOST_S
        while not self.over.is_set() and not self.waited_for:
            self.waited_for = time.monotonic() > until_s

    async def sleep_async(self, *_: Any) -> Any:
        self._begins()
        await asyncio.Event().wait()

    async def begin(self, calls: int = 1) -> None:
        """This many more calls hang by now."""
        for _ in range(calls):
            assert await asyncio.to_thread(self.began.acquire, timeout=AT_MOST_S)

    def _begins(self) -> None:
        self.calls += 1
        self.began.release()


@pytest.fixture
def hangs() -> Iterator[Hangs]:
    made = Hangs()
    yield made
    made.over.set()
    assert not made.waited_for


def asked(verbs: Verbs, verb: str) -> Any:
    """The answer in short, of a call in which no plugin hangs."""
    return seen(verb, run(in_time(verbs, verb, REQUEST[verb], now())))


async def while_it_hangs(answer: "asyncio.Task[bytes]", *, retried: bool = False) -> bytes:
    """The answer of a call that hangs: at 80 % of the time, or else once more after 60 %."""
    await skip(TIMEOUT_S * 0.5)
    assert not answer.done()
    await skip(TIMEOUT_S * 0.15)
    if not retried:
        assert not answer.done()
        await skip(TIMEOUT_S * 0.2)
    return await answer


def hung(
    hangs: Hangs, verbs: Verbs, verb: str, body: bytes = b"", *, retried: bool = False
) -> bytes:
    """The answer of a call in which a plugin hangs."""

    async def ask() -> bytes:
        asking = in_time(verbs, verb, body or REQUEST[verb], now())
        answer = asyncio.ensure_future(asking)
        await hangs.begin()
        return await while_it_hangs(answer, retried=retried)

    return run(ask())


HUNG_FILTERS = ["pre_filter", "filter_nodes", "filter"]


@pytest.mark.parametrize("way", ["sleep", "spin"])
@pytest.mark.parametrize("method", HUNG_FILTERS)
def test_a_filter_that_hangs_is_answered_for_in_time(hangs: Hangs, method: str, way: str) -> None:
    verbs = odd_verbs(Odd(getattr(hangs, way), method))
    assert seen("filter", hung(hangs, verbs, "filter")) == failed(POINT[method])
    # From now on it is left uncalled, and the answer is there at once.
    assert asked(verbs, "filter") == failed(POINT[method])
    assert hangs.calls == 1
    assert counted(verbs, "kubextend_plugin_breaker_open", plugin="Odd") == 1
    assert counted(verbs, "kubextend_plugin_stuck_threads", plugin="Odd") == 1
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="error") == 2


@pytest.mark.parametrize("method", HUNG_FILTERS)
def test_a_filter_that_hangs_and_may_be_ignored_is_left_out(hangs: Hangs, method: str) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, method), ignored=True)
    assert seen("filter", hung(hangs, verbs, "filter", retried=True)) == LEFT_OUT["filter"]
    assert asked(verbs, "filter") == LEFT_OUT["filter"]
    assert hangs.calls == 1


def test_a_filter_that_hangs_is_not_left_out_for_a_client_that_is_gone(hangs: Hangs) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, "filter_nodes"), ignored=True)

    def is_open() -> float:
        return counted(verbs, "kubextend_plugin_breaker_open", plugin="Odd")

    async def leave() -> None:
        asking = in_time(verbs, "filter", REQUEST["filter"], now())
        answer = asyncio.ensure_future(asking)
        await hangs.begin()
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        await skip(TIMEOUT_S * 0.65)
        assert is_open() == 0
        # Nobody waits, and yet it has hung.
        await skip(TIMEOUT_S * 0.2)
        assert is_open() == 1

    run(leave())
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="error") == 1


@pytest.mark.parametrize("body", [REQUEST["filter"], full_request(NODES)])
def test_a_filter_that_hangs_rejects_where_errors_are_ignored(hangs: Hangs, body: bytes) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, "filter_nodes"), ignorable=True)
    answer = json.loads(hung(hangs, verbs, "filter", body))
    why = 'Filter plugin "Odd" failed'
    assert answer["FailedAndUnresolvableNodes"] == {"good": why, "plain": why}
    assert not answer["Error"]


def test_a_request_that_waits_for_a_thread_all_its_time_is_rejected_where_errors_are_ignored(
    hangs: Hangs,
) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, "filter_nodes"), ignorable=True)
    threads = verbs.limits._verb_threads._most

    async def ask() -> list[bytes]:
        now_s = now()
        # More than there are threads: the last of them never begin.
        asking = [in_time(verbs, "filter", REQUEST["filter"], now_s) for _ in range(threads + 4)]
        answers = asyncio.gather(*asking)
        await hangs.begin(threads)
        return await while_it_hangs(answers)  # type: ignore[arg-type, return-value]

    answers = [json.loads(body) for body in run(ask())]
    assert len(answers) == threads + 4
    assert not any(answer["Error"] or answer["NodeNames"] for answer in answers)


@pytest.mark.parametrize("method", ["pre_score", "score_nodes", "score"])
def test_a_score_that_hangs_is_left_out_and_the_others_count(hangs: Hangs, method: str) -> None:
    odd = Odd(hangs.sleep, method, *({"score_nodes"} if method == "pre_score" else ()))
    verbs = odd_verbs(odd)
    answer = hung(hangs, verbs, "prioritize", retried=True)
    assert seen("prioritize", answer) == LEFT_OUT["prioritize"]
    assert asked(verbs, "prioritize") == LEFT_OUT["prioritize"]
    assert hangs.calls == 1


@pytest.mark.parametrize("ignored", [False, True])
def test_nobody_is_evicted_where_a_filter_hangs(hangs: Hangs, ignored: bool) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, "filter_nodes"), ignored=ignored)
    assert json.loads(hung(hangs, verbs, "preempt")) == {"NodeNameToMetaVictims": {}}


def test_what_took_the_time_is_blamed_and_not_what_was_called_last(hangs: Hangs) -> None:
    clock = Clock()

    class Quick(Odd):
        name = "Quick"

    def takes_long(*_: Any) -> list[Rejection]:
        clock.now_s += 3
        return []

    def hangs_at_last(*_: Any) -> None:
        clock.now_s += 2
        hangs.sleep()

    slow = Odd(takes_long, "filter_nodes")
    profile = Profile("default-scheduler", filter=[slow, Quick(hangs_at_last, "filter_nodes")])
    metrics = Metrics()
    verbs = make_verbs(
        Profiles.of([profile]),
        watched=Watched().listing(*NODES),
        metrics=metrics,
        limits=PluginLimits(clock, metrics),
        http_timeout_s=TIMEOUT_S,
        clock=now,
    )
    assert seen("filter", hung(hangs, verbs, "filter")) == failed("Filter")
    assert counted(verbs, "kubextend_plugin_breaker_open", plugin="Odd") == 1
    assert counted(verbs, "kubextend_plugin_breaker_open", plugin="Quick") == 0


def test_a_thread_that_comes_back_changes_nothing_and_is_stuck_no_longer(hangs: Hangs) -> None:
    verbs = odd_verbs(Odd(hangs.sleep, "filter_nodes"))
    hung(hangs, verbs, "filter")
    hangs.over.set()
    until_s = time.monotonic() + AT_MOST_S
    while counted(verbs, "kubextend_plugin_stuck_threads", plugin="Odd"):
        assert time.monotonic() < until_s
        time.sleep(0.001)
    for result in ("ok", "failed"):
        assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result=result) == 0
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="error") == 1


BINDING = json.dumps(
    {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "good"}
).encode()
BOUND_AT = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}


def bound(verbs: Verbs) -> str:
    """The Error of a bind that follows a filter, where no plugin hangs."""
    verbs.filter(REQUEST["filter"])
    error: str = json.loads(run(verbs.bind(BINDING)))["Error"]
    return error


# Of the last 20 s plugins get nothing, of the last 15 nothing but Unreserve and PostBind gets any,
# and of the last 5 nobody.
PLUGINS_S, ALL_S, CLEANUP_S = TIMEOUT_S - 20, TIMEOUT_S - 15, TIMEOUT_S - 5


def hung_bind(hangs: Hangs, verbs: Verbs, until_s: float) -> str:
    """The Error of a bind in which a plugin hangs until this many seconds have passed."""
    verbs.filter(REQUEST["filter"])

    async def ask() -> bytes:
        answer = asyncio.ensure_future(verbs.bind(BINDING))
        await hangs.begin()
        await skip(PLUGINS_S / 2)
        assert not answer.done()
        await skip(until_s - PLUGINS_S / 2)
        return await answer

    error: str = json.loads(run(ask()))["Error"]
    return error


@pytest.mark.parametrize("way", ["sleep", "sleep_async"])
def test_a_hanging_plugin_is_blamed_also_where_the_loop_sees_all_deadlines_at_once(
    hangs: Hangs, way: str
) -> None:
    verbs = odd_verbs(Odd(getattr(hangs, way), "pre_bind"), binder=Binder())
    assert hung_bind(hangs, verbs, ALL_S) == 'PreBind plugin "Odd" failed'
    assert counted(verbs, "kubextend_plugin_breaker_open", plugin="Odd") == 1


@pytest.mark.parametrize("way", ["sleep", "spin", "sleep_async"])
@pytest.mark.parametrize("method", BOUND_AT)
def test_a_bind_whose_plugin_hangs_is_an_error_in_time(hangs: Hangs, method: str, way: str) -> None:
    unreserved: list[str] = []
    odd = Odd(getattr(hangs, way), method)
    if method == "reserve":
        odd.unreserve = lambda *_: unreserved.append("Odd")  # type: ignore[attr-defined]
    binder = Binder()
    verbs = odd_verbs(odd, binder=binder)
    assert hung_bind(hangs, verbs, PLUGINS_S) == f'{BOUND_AT[method]} plugin "Odd" failed'
    assert not binder.bound
    assert bound(verbs) == f'{BOUND_AT[method]} plugin "Odd" failed'
    assert hangs.calls == 1
    # What it may have reserved is given up all the same, although its breaker is open.
    assert len(unreserved) == (2 if method == "reserve" else 0)


def test_a_hanging_unreserve_does_not_hold_up_the_answer(hangs: Hangs) -> None:
    odd = Odd(answers(None), "reserve")
    odd.unreserve = hangs.sleep  # type: ignore[attr-defined]
    odd.pre_bind = raises(RuntimeError("no"))  # type: ignore[attr-defined]
    verbs = odd_verbs(odd, binder=Binder())
    assert hung_bind(hangs, verbs, CLEANUP_S) == 'PreBind plugin "Odd" failed'


def test_a_pre_filter_that_hangs_at_bind_holds_its_thread_for_the_timeout_of_other_verbs(
    hangs: Hangs,
) -> None:
    odd = Odd(answers(None), "reserve", "unreserve")
    odd.pre_filter = hangs.sleep  # type: ignore[attr-defined]
    pods = Pods().showing(pod("pod"))
    verbs = odd_verbs(odd, timeout_s=5, bind_timeout_s=TIMEOUT_S, binder=Binder(), pods=pods)

    async def ask() -> bytes:
        # No filter came before: the attempt is lost.
        answer = asyncio.ensure_future(verbs.bind(BINDING))
        await hangs.begin()
        await skip(6)
        assert answer.done()
        return await answer

    assert json.loads(run(ask()))["Error"] == 'PreFilter plugin "Odd" failed'


BAD_PERMITS: dict[str, Any] = {
    "raises": raises(DiesError()),
    "answers a number": answers(3),
    "waits for NaN seconds": answers((Status.wait(), float("nan"))),
    "waits for a text": answers((Status.wait(), "soon")),
    "answers three": answers((Status.wait(), 1, 2)),
    "answers an Error": answers(Status.error("no")),
}


@pytest.mark.parametrize("bad", BAD_PERMITS)
def test_a_permit_that_fails_is_an_error(bad: str) -> None:
    binder = Binder()
    error = bound(odd_verbs(Odd(BAD_PERMITS[bad], "permit"), binder=binder))
    assert error == 'Permit plugin "Odd" failed'
    assert not binder.bound


def test_a_wake_up_asks_a_hanging_filter_once_and_goes_on(hangs: Hangs) -> None:
    watched = Watched().listing(node("plain"))

    woken: list[str] = []

    class Activator:
        def activate(self, pods: Any) -> None:
            woken.extend(pod.name for pod in pods)

    rejecting = [Rejection(core.Mask([True]), Status.unschedulable("no"))]
    odd = Odd(answers(rejecting), "filter_nodes")
    verbs = odd_verbs(odd, watched=watched, activator=Activator(), timeout_s=0.2)
    verbs.filter(names_request(["plain"]))
    profile = verbs.profiles.by_scheduler_name["default-scheduler"]
    profile.__dict__["_filters"] = ((odd, hangs.sleep),)
    verbs.nodes_changed()
    verbs.nodes_changed()
    assert hangs.calls <= 1
    # Nobody can say whether it passes; an Error is tried again, a parked pod is not.
    assert woken == ["pod"]
