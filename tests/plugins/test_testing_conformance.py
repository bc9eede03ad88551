"""conformance finds each thing that a plugin may do wrong, and nothing in one that is right."""

import itertools
from typing import Any

import pytest
from pydantic import BaseModel
from tests.doors.wire import answers, raises

from kubextend import core, testing
from kubextend.framework import Code, CycleState, PreFilterResult, QueuedPodInfo, Rejection, Status

pytestmark = pytest.mark.slow

COUNTER = itertools.count()


class Right:
    """Every point, as it should be."""

    name = "Right"

    class Args(BaseModel, extra="forbid"):
        limit: int = 3

    def __init__(self, args: Args) -> None:
        self._limit = args.limit
        self._reserved: set[str] = set()

    def pre_filter(self, _state: Any, pod: core.Pod, _nodes: Any) -> Status | PreFilterResult:
        return PreFilterResult() if pod.labels.get("disk") else Status.skip()

    def filter(self, _state: Any, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if node.label("disk") == pod.labels.get("disk"):
            return None
        return Status.unschedulable("another disk", f"{node.name} of {next(COUNTER)}")

    def post_filter(self, *_: Any) -> Status:
        return Status.unschedulable("nothing to be done")

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> None: ...

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        return node.allocatable("cpu")

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: list[int]) -> list[int]:
        return core.normalize(scores)

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        self._reserved.add(pod.uid)

    async def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        self._reserved.discard(pod.uid)

    async def permit(self, *_: Any) -> tuple[Status, float]:
        # The longest that a pod may be held.
        return Status.wait(), 15 * 60.0

    def pre_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...

    async def bind(self, *_: Any) -> Status:
        return Status.skip()

    def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def unblock(self, *_: object) -> str:
        return "another disk"

    def filters(self) -> None:
        """Help with a name that is near that of a method which is there."""


def test_a_plugin_that_keeps_every_rule_passes() -> None:
    testing.conformance(Right, args={"limit": 1})
    testing.conformance(Right(Right.Args()), cases=6)


def broken(name: str = "Broken", **members: Any) -> type:
    return type("Broken", (), {"name": name, **members})


def filtering(reason: Any) -> type:
    """A filter that rejects every node with what ``reason`` says of it."""
    return broken(filter=lambda _, __, pod, node: Status.unschedulable(reason(pod, node)))


def rejecting(mask: Any, **more: Any) -> type:
    """A filter of all nodes that rejects those of a mask."""
    no = Status.unschedulable("first")
    return broken(filter_nodes=lambda _, __, ___, nodes: [Rejection(mask(nodes), no)], **more)


def sorting(less: Any) -> type:
    return broken(less=lambda _, a, b: less(a, b))


def _takes_too_little(self: Any, state: Any, pod: Any) -> None: ...
async def _three(self: Any, state: Any, pod: Any, third: Any) -> None: ...
def _nothing(self: Any, state: Any, pod: Any, third: Any) -> None: ...


def _counts_on_the_class(self: Any, state: Any, pod: Any, third: Any) -> None:
    self.seen.append(pod.uid)


# As numpy.float64, a mean for example; numpy.int64 counts as an int.
_NUMPY_7 = type("float64", (float,), {"__module__": "numpy"})(7)


def _age(info: QueuedPodInfo) -> int:
    """0 to 3, so that some pods are equal."""
    return int(info.timestamp) % 2 + 2 * (len(info.pod.labels) % 2)


def _wants_two_disks(self: Any, state: Any, pod: Any, nodes: Any) -> Status | None:
    """Reads the nodes of the request as if they were all."""
    return Status.unresolvable("too few disks") if len(set(nodes.labels("disk"))) < 2 else None


def _wants_company_for_one_of_them(self: Any, state: Any, pod: Any, nodes: Any) -> Status | None:
    return Status.unresolvable("alone") if nodes.names == ["node-1"] else None


async def _yields_async(self: Any, *_: object) -> Any:
    yield


def _yields(self: Any, state: Any, pod: Any, node: Any) -> Any:
    yield


async def _coroutine() -> None: ...


def _once(self: Any, state: Any, pod: Any, node_name: Any) -> None:
    self.reserved = getattr(self, "reserved", 0) - 1
    if self.reserved < -2:
        message = "gave up twice"
        raise KeyError(message)


def args(**settings: str) -> type:
    return type("Args", (BaseModel,), {"model_config": settings})


FAILS, ZERO, NO_ROUTE = raises(ZeroDivisionError("x")), answers(0), raises(OSError("no route"))
REMOVES: dict[str, Any] = {
    "__init__": lambda self: setattr(self, "reserved", set()),
    "reserve": lambda self, _, pod, __: self.reserved.add(pod.uid),
    "unreserve": lambda self, _, pod, __: self.reserved.remove(pod.uid),
}
STARTS_LATER = broken(score=ZERO, start=lambda _: _coroutine())
# The rules, plugins that break them, and what is said of each.
BROKEN: dict[str, list[tuple[type, str]]] = {
    "has a name": [
        (broken(name=""), "name is ''"),
        (broken(name=" x"), "no configuration can name ' x'"),
    ],
    "has a name of its own": [(broken("NodeName", score=_nothing), "kube-scheduler's own plugin")],
    "can be made": [
        (broken(), "extends nothing (define one of: pre_enqueue, less, pre_filter"),
        (broken(normalize_score=_nothing), "without score"),
        (broken(reserve=_nothing), "is missing: write both"),
        (
            broken(score=ZERO, start=_yields_async),
            "start has a yield, so a call of it runs nothing",
        ),
        (
            broken(score=ZERO, stop=lambda _, handle: None),
            "takes what nobody gives (def stop(self))",
        ),
        (broken(reserve=answers(None), unreserve=_yields), "unreserve has a yield"),
        (broken(filter=_three), "(def filter(self, state, pod, node)"),
        (broken(filter=_three), "filter is async"),
        (
            broken(filter=_nothing, __init__=lambda _, args: None),
            "write class Args(BaseModel, extra=",
        ),
        (broken(filter=_nothing, Args=args(extra="forbid")), "write def __init__(self, args)"),
        (
            broken(filter=_takes_too_little),
            "(self: Any, state: Any, pod: Any) -> None does not take",
        ),
        (broken(filter=7), "filter does not take"),
        (broken(filter=_nothing, __init__=lambda _: 1 / 0), "ZeroDivisionError: division by zero"),
        (broken(less=_nothing), "does not take (a, b)"),
        (broken(pre_enqueue=_nothing), "does not take (pod)"),
    ],
    "spells its methods": [
        (broken(score=ZERO, fitler=ZERO), "kubextend never calls fitler: rename it to filter"),
        (broken(score=ZERO, preBind=ZERO), "kubextend never calls preBind: rename it to pre_bind"),
        (broken(filter=_nothing, fitler=ZERO), "calls filter and never fitler: take one out, or"),
        (
            broken(filter=_nothing, unblok=ZERO),
            "kubextend never calls unblok: rename it to unblock",
        ),
    ],
    "names resources in informers": [
        (broken(filter=_nothing, informers=("PVC",)), "'PVC' names no resource")
    ],
    "keeps its state in the instance": [
        (
            broken(filter=_counts_on_the_class, seen=[]),
            "seen changed, and all profiles share it: make",
        )
    ],
    "refuses unknown Args": [
        (broken(filter=_nothing, Args=dict), 'extra="forbid"'),
        (broken(filter=_nothing, Args=args()), 'extra="forbid"'),
    ],
    "starts and stops": [
        (STARTS_LATER, "start: TypeError: answered a coroutine where None is expected"),
        (STARTS_LATER, "write async def start(self)"),
        (broken(score=ZERO, stop=lambda _: _coroutine()), "stop: TypeError: answered a coroutine"),
        (
            broken(score=ZERO, start=NO_ROUTE),
            'no route; if it needs a server, test without=["start"]',
        ),
    ],
    "does not raise": [
        (broken(score=answers(1.5)), "Score plugin: TypeError"),
        (broken(score=answers(1.5)), "round it yourself: int(score)"),
        (broken(score=answers(_NUMPY_7)), "round a float of NumPy yourself: int(score)"),
        (broken(score=answers(101)), "101"),
        (broken(filter_nodes=raises(KeyError("x"))), 'running "Broken" Filter plugin: KeyError'),
        (broken(filter=answers("no")), 'running "Broken" Filter plugin:'),
        (
            broken(pre_filter=answers(Status(Code.WAIT))),
            "where success, a rejection or Skip is expected",
        ),
        (broken(pre_bind=FAILS), "pre_bind: ZeroDivisionError"),
        (broken(less=FAILS), "less: ZeroDivisionError"),
        (broken(pre_enqueue=FAILS), "pre_enqueue: Zero"),
        (
            broken(score_nodes=lambda _, __, ___, nodes: [max(nodes.allocatable("cpu")) % 7]),
            "ValueError: max()",
        ),
    ],
    "a node that passes also passes alone": [
        (broken(pre_filter=_wants_two_disks), "'too few disks' rejects it alone"),
        (broken(pre_filter=_wants_company_for_one_of_them), "'alone' rejects it alone"),
    ],
    "a rejection has a reason": [(filtering(lambda *_: ""), "has none")],
    "reasons are short": [
        (filtering(lambda *_: "x" * 121), "xxx"),
        (filtering(lambda *_: "two\nlines"), "two\\nlines"),
    ],
    "reasons are stable": [
        (filtering(lambda _, node: f"{node.name} is full"), "names the node"),
        (filtering(lambda pod, _: f"no {pod.uid}"), "the pod"),
        (
            filtering(lambda _, node: f"{node.allocatable('cpu')} left"),
            "differ in a number; put it into Status.detail",
        ),
    ],
    "reasons are few": [
        (filtering(lambda _, node: chr(97 + int(node.name[5:]))), "different ones in one answer")
    ],
    "filter is deterministic": [
        (filtering(lambda *_: f"asked {chr(97 + next(COUNTER) % 26)}"), "first")
    ],
    "filter does not depend on the order of nodes": [
        (rejecting(lambda nodes: core.Mask(at == 0 for at in range(len(nodes)))), "backwards")
    ],
    "score does not depend on the order of nodes": [
        (broken(score_nodes=lambda _, __, ___, nodes: list(range(len(nodes)))), "backwards")
    ],
    "both grains say the same": [
        (
            broken(score=answers(1), score_nodes=lambda _, __, ___, nodes: [2] * len(nodes)),
            "score_nodes",
        ),
        (rejecting(lambda nodes: nodes.everything(), filter=answers(None)), "filter_nodes"),
    ],
    "reserve answers what it may": [(broken(reserve=answers(True), unreserve=_nothing), "True")],
    "unreserve answers nothing": [
        (broken(reserve=answers(None), unreserve=answers(Status.success())), "return None")
    ],
    "unreserve is idempotent": [
        (broken(**REMOVES), "use discard(…) or pop(…, None)"),
        (
            broken(reserve=_nothing, unreserve=_once),
            "KeyError: 'gave up twice' in unreserve, reserve, unreserve",
        ),
    ],
    "permit answers what it may": [(broken(permit=answers(3)), "3")],
    "permit says how long to wait": [
        (broken(permit=answers(Status.wait())), "at once"),
        (
            broken(permit=answers((Status.wait(), "30"))),
            "str '30': return (Status.wait(), seconds as a float)",
        ),
    ],
    "permit waits at most 15 minutes": [(broken(permit=answers((Status.wait(), 901))), "901 s")],
    "bind answers what it may": [(broken(bind=answers(1)), "1")],
    "postBind answers what it may": [(broken(post_bind=answers(1)), "1")],
    "less answers a bool": [(broken(less=answers(None)), "None")],
    "less is a strict order": [
        (broken(less=answers(True)), "go before each other"),
        (sorting(lambda a, b: a.timestamp <= b.timestamp), "go before each other"),
    ],
    "less is transitive": [(sorting(lambda a, b: (_age(b) - _age(a)) % 3 == 1), "not on")],
    "less is transitive in what is equal": [
        (sorting(lambda a, b: _age(b) - _age(a) > 1), "not on")
    ],
    "preEnqueue answers what it may": [
        (broken(pre_enqueue=answers(True)), "True"),
        (broken(pre_enqueue=answers(Status.error("no"))), "no"),
    ],
}


@pytest.mark.parametrize(
    ("rule", "plugin", "what"), [(rule, *row) for rule, rows in BROKEN.items() for row in rows]
)
def test_a_broken_rule_is_found_and_named(rule: str, plugin: type, what: str) -> None:
    found = testing.violations(plugin)
    assert [violation for violation in found if violation.rule == rule and what in violation.what]


def test_a_point_that_is_left_out_is_not_run() -> None:
    testing.conformance(broken(bind=FAILS, score=ZERO), without=["bind"])
    testing.conformance(broken(score=ZERO, start=NO_ROUTE), without=["start"])


def test_two_plugins_that_differ_on_one_case_are_told_apart() -> None:
    def of_all(selector: str) -> type:
        points = lambda _, __, ___, nodes: [100 * bit for bit in nodes.matches(selector)]  # noqa: E731
        return broken(score_nodes=points)

    one = broken(score=lambda _, __, ___, node: 100 if node.label("disk") == "ssd" else 0)
    other, wrong = of_all("disk=ssd"), of_all("disk")
    assert testing.assert_same_answers(one, other, cases=100) > 20
    with pytest.raises(AssertionError, match=r"^case \d+ of seed 0: "):
        testing.assert_same_answers(one, wrong, cases=100)
