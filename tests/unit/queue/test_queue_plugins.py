"""What plugins do to the queue when they fail."""

from collections.abc import Callable
from typing import Any

import pytest
from queue_world import OURS, Queue, pod

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.framework.status import Code, Status
from kubextend.queue import PreEnqueue, State


class Sort:
    """A QueueSort plugin that does what a test says."""

    name = "Sort"

    def __init__(self, less: Callable[[str, str], Any]) -> None:
        self._less = less

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> Any:
        return self._less(a.pod.name, b.pod.name)


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


def all_due(queue: Queue) -> list[str]:
    names: list[str] = []
    while due := queue.release():
        names += due
        for name in due:
            queue.queue.forget(f"uid-{name}")
    return names


@pytest.mark.parametrize(
    ("less", "what"),
    [
        pytest.param(raising(ValueError("no")), "ValueError: no", id="raises"),
        pytest.param(raising(SystemExit(1)), "SystemExit: 1", id="wants to end the process"),
        pytest.param(
            lambda _a, _b: None,
            "TypeError: answered NoneType where a bool is expected",
            id="answers nothing",
        ),
        pytest.param(
            lambda _a, _b: 1, "TypeError: answered int 1 where a bool is expected", id="a number"
        ),
    ],
)
def test_where_less_fails_the_order_is_that_of_kube_scheduler(
    less: Callable[..., Any], what: str
) -> None:
    queue = Queue(plugin=Sort(less))
    queue.observe(pod("b", second=2), pod("a", second=1), pod("rich", priority=1, second=3))
    assert all_due(queue) == ["rich", "a", "b"]
    assert {(each.plugin, each.extension_point) for each in queue.failures} == {
        ("Sort", "queueSort")
    }
    assert all(each.message.endswith(f": {what}") for each in queue.failures)
    told = " ".join(each.message for each in queue.failures)
    assert all(f"default/{name}" in told for name in ("a", "b", "rich"))


def test_a_less_that_fails_on_one_pod_loses_none() -> None:
    def less(a: str, b: str) -> bool:
        if "bad" in {a, b}:
            raise ValueError
        return a < b

    queue = Queue(plugin=Sort(less))
    queue.observe(*(pod(name) for name in ("c", "bad", "a", "d", "b")))
    names = all_due(queue)
    assert sorted(names) == ["a", "b", "bad", "c", "d"]


@pytest.mark.parametrize("answer", [True, False])
def test_a_less_that_contradicts_itself_loses_no_pod(answer: bool) -> None:
    queue = Queue(plugin=Sort(lambda _a, _b: answer), window=3)
    queue.observe(*(pod(f"p{number}") for number in range(20)))
    assert sorted(all_due(queue)) == sorted(f"p{number}" for number in range(20))
    assert queue.failures == []


class Enqueue:
    """A PreEnqueue plugin that answers what a test says."""

    def __init__(self, name: str, answer: Callable[[core.Pod], Any]) -> None:
        self.name = name
        self._answer = answer

    def pre_enqueue(self, made: core.Pod) -> Any:
        return self._answer(made)


def pre_enqueue(
    *plugins: Enqueue, ignored: frozenset[str] = frozenset()
) -> tuple[PreEnqueue, list[PluginError]]:
    failures: list[PluginError] = []
    return (
        PreEnqueue({OURS: plugins}, {OURS: ignored}, failures.append),
        failures,
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, ""),
        (Status.success(), ""),
        (Status.unschedulable("no quota"), "held back by P: no quota"),
        (Status.unresolvable("no quota"), "held back by P: no quota"),
        (Status.pending("no quota", detail="3 of 9"), "held back by P: no quota"),
        (Status(Code.UNSCHEDULABLE), "held back by P: UNSCHEDULABLE"),
    ],
)
def test_a_pre_enqueue_plugin_holds_a_pod_back_or_lets_it_pass(answer: Any, why: str) -> None:
    made, failures = pre_enqueue(Enqueue("P", lambda _: answer))
    assert made.why_held(pod("a")) == why
    assert failures == []


def test_the_first_plugin_that_objects_is_named_and_the_next_not_asked() -> None:
    asked: list[str] = []

    def plugin(name: str, answer: Status | None) -> Enqueue:
        return Enqueue(name, lambda _: (asked.append(name), answer)[1])

    made, _ = pre_enqueue(
        plugin("A", None), plugin("B", Status.unschedulable("b")), plugin("C", None)
    )
    assert made.why_held(pod("a")) == "held back by B: b"
    assert asked == ["A", "B"]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        pytest.param(raising(ValueError("no")), "ValueError: no", id="raises"),
        pytest.param(raising(SystemExit(1)), "SystemExit: 1", id="wants to end the process"),
        pytest.param(
            lambda _: True,
            "TypeError: answered bool True where a Status or None is expected",
            id="answers something else",
        ),
        pytest.param(
            lambda _: Status.error("no API"), "TypeError: no API", id="says that it cannot say"
        ),
        pytest.param(lambda _: Status.skip(), "TypeError: answered SKIP", id="skips"),
    ],
)
def test_a_failing_pre_enqueue_plugin_holds_the_pod_back_unless_it_may_be_ignored(
    answer: Callable[[core.Pod], Any], what: str
) -> None:
    made, failures = pre_enqueue(Enqueue("P", answer))
    assert made.why_held(pod("a")) == "held back by P: it failed"
    assert [str(each) for each in failures] == [
        f'running "P" preEnqueue plugin: for default/a: {what}'
    ]
    made, failures = pre_enqueue(Enqueue("P", answer), ignored=frozenset({"P"}))
    assert made.why_held(pod("a")) == ""
    assert [str(each) for each in failures] == [
        f'running "P" preEnqueue plugin: for default/a: {what}'
    ]


def test_only_the_plugins_of_the_pods_own_profile_are_asked() -> None:
    made, _ = pre_enqueue(Enqueue("P", lambda _: Status.unschedulable("never")))
    assert made.why_held(pod("a", scheduler="another")) == ""


def test_a_pod_is_released_once_its_plugin_lets_it() -> None:
    open_to_all = [False]
    plugin = Enqueue("P", lambda _: None if open_to_all[0] else Status.pending("closed"))
    made, _ = pre_enqueue(plugin)
    queue = Queue(why_held=made.why_held)
    queue.observe(pod("a"))
    assert queue.due() == []
    assert queue.state("a") is State.HELD
    open_to_all[0] = True
    queue.clock.pass_s(1)
    assert queue.due() == ["a"]
