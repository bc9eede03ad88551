"""QueueSort and PreEnqueue plugins in the queue, and what they do to it when they fail."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.queue_stories import PreEnqueuePlugin, Queue, pod

from kubextend import Status, core
from kubextend.framework import Code, QueuedPodInfo


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


@pytest.mark.parametrize(
    ("less", "what"),
    [
        (raising(ValueError("no")), "ValueError: no"),
        (raising(SystemExit(1)), "SystemExit: 1"),
        (lambda _a, _b: None, "TypeError: answered NoneType where a bool is expected"),
        (lambda _a, _b: 1, "TypeError: answered int 1 where a bool is expected"),
    ],
)
def test_where_less_fails_the_order_is_that_of_kube_scheduler(
    less: Callable[..., Any], what: str
) -> None:
    queue = Queue(plugin=Sort(less))
    queue.show(pod("b", second=2), pod("a", second=1), pod("rich", priority=1, second=3))
    assert queue.drain() == ["rich", "a", "b"]
    failed = {(each.plugin, each.extension_point) for each in queue.failures}
    assert failed == {("Sort", "queueSort")}
    assert all(each.message.endswith(f": {what}") for each in queue.failures)
    told = " ".join(each.message for each in queue.failures)
    assert all(f"default/{name}" in told for name in ("a", "b", "rich"))


def failing_on_bad(a: str, b: str) -> bool:
    if "p7" in {a, b}:
        raise ValueError
    return a < b


@pytest.mark.parametrize(
    "less",
    [
        lambda _a, _b: True,
        lambda _a, _b: False,
        lambda a, b: (int(a[1:]) - int(b[1:])) % 3 == 0,
        failing_on_bad,
    ],
    ids=["always", "never", "in circles", "fails on one pod"],
)
@pytest.mark.parametrize("by_namespace", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_less_that_makes_no_order_loses_no_pod(
    less: Callable[[str, str], bool], by_namespace: bool, seed: int
) -> None:
    rng = random.Random(seed)
    queue = Queue(plugin=Sort(less), window=3, by_namespace=by_namespace)
    names = [f"p{number}" for number in range(60)]
    queue.show(*(pod(name, namespace=rng.choice("ab")) for name in names))
    deleted = rng.sample(names, 20)
    queue.gone(*deleted[:10])
    made = queue.release()
    queue.gone(*made, *{*deleted} - {*made})
    made += queue.drain()
    assert len(made) == len({*made})
    assert {*names} - {*deleted} <= {*made} <= {*names} - {*deleted[:10]}


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
    queue = Queue(pre_enqueue=(PreEnqueuePlugin(lambda _: answer),))
    queue.show(pod("a"))
    assert queue.due() == ([] if why else ["a"])
    if why:
        assert (queue.state("a"), queue.why("a")) == ("held", why)
    assert queue.failures == []


def test_the_first_plugin_that_objects_is_named_and_the_next_not_asked() -> None:
    asked: list[str] = []

    def plugin(name: str, answer: Status | None) -> PreEnqueuePlugin:
        return PreEnqueuePlugin(lambda _: (asked.append(name), answer)[1], name)

    rejecting = plugin("B", Status.unschedulable("b"))
    queue = Queue(pre_enqueue=(plugin("A", None), rejecting, plugin("C", None)))
    queue.show(pod("a"))
    assert queue.due() == []
    assert queue.why("a") == "held back by B: b"
    assert asked == ["A", "B"]


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (raising(ValueError("no")), "ValueError: no"),
        (raising(SystemExit(1)), "SystemExit: 1"),
        (lambda _: True, "TypeError: answered bool True where a Status or None is expected"),
        (lambda _: Status.error("no API"), "TypeError: no API"),
        (lambda _: Status.skip(), "TypeError: answered SKIP"),
    ],
)
def test_a_failing_pre_enqueue_plugin_holds_the_pod_back_unless_its_failures_are_ignored(
    answer: Callable[[core.Pod], Any], what: str, ignored: bool
) -> None:
    names = frozenset({"P"} if ignored else ())
    queue = Queue(pre_enqueue=(PreEnqueuePlugin(answer),), ignored=names)
    queue.show(pod("a"))
    assert queue.due() == (["a"] if ignored else [])
    if not ignored:
        assert queue.why("a") == "held back by P: it failed"
    failed = [str(each) for each in queue.failures]
    assert failed == [f'running "P" preEnqueue plugin: for default/a: {what}']


def test_a_plugin_is_asked_about_a_held_pod_less_and_less_often_and_at_once_if_it_changes() -> None:
    queue = Queue(holds={"a": "not yet"})
    queue.show(pod("a"))
    for pause_s in (1, 2, 4, 8, 10, 10):
        assert queue.due() == []
        assert queue.next_look_s() == pause_s
        queue.clock.pass_s(pause_s)
    queue.holds["a"] = "nor now"
    queue.show(pod("a", labels={"x": "y"}))
    assert queue.due() == []
    assert (queue.why("a"), queue.next_look_s()) == ("nor now", 1.0)
    del queue.holds["a"]
    queue.clock.pass_s(1)
    assert queue.due() == ["a"]


def test_pods_that_may_go_do_not_wait_until_a_slow_plugin_was_asked_about_all() -> None:
    clock = Queue().clock
    asked: list[str] = []

    def slowly(made: core.Pod) -> Status | None:
        asked.append(made.name)
        clock.pass_s(0.1)
        return None if made.priority else Status.pending("not yet")

    queue = Queue(window=20, pre_enqueue=(PreEnqueuePlugin(slowly),), clock=clock)
    queue.show(*(pod(f"held{number}", second=number) for number in range(30)))
    queue.show(pod("a", priority=1), pod("b", priority=1))
    assert queue.due() == ["a", "b"]
    assert len(asked) < 15
    # The next look is at once.
    assert queue.next_look_s() == 0.0
    while queue.next_look_s() == 0.0:
        queue.due()
    assert {*asked} >= {f"held{number}" for number in range(30)}
