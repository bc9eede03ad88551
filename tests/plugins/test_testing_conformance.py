"""conformance finds each thing that a plugin may do wrong, and nothing in one that is right."""

import itertools
from typing import Any

import pytest
from pydantic import BaseModel

from kubextend import core, testing
from kubextend.errors import KubextendError
from kubextend.framework import Code, CycleState, PreFilterResult, QueuedPodInfo, Rejection, Status
from kubextend.plugins import HighCommPodFilter, LabelMatch, RdmaAware

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

    def pre_filter(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Status | PreFilterResult | None:
        return PreFilterResult() if pod.labels.get("disk") else Status.skip()

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if node.label("disk") == pod.labels.get("disk"):
            return None
        return Status.unschedulable("another disk", f"{node.name} of {next(COUNTER)}")

    def post_filter(self, state: CycleState, pod: core.Pod, rejections: Any) -> Status:
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

    async def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> tuple[Status, float]:
        # The longest that a pod may be held.
        return Status.wait(), 15 * 60.0

    def pre_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...

    async def bind(self, state: CycleState, pod: core.Pod, node_name: str) -> Status:
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
    testing.conformance(Right(Right.Args()))


@pytest.mark.parametrize("plugin", [HighCommPodFilter, RdmaAware])
def test_the_native_filters_pass(plugin: type) -> None:
    labels = {"high-comm": ("true", ""), "rdma": ("true", "false")}
    testing.conformance(plugin, labels=labels)


def test_label_match_passes_with_filters_and_scores() -> None:
    args = {
        "filters": [{"nodeSelector": "disk!=hdd", "reason": "slow disk"}],
        "scores": [{"nodeSelector": "disk=ssd", "score": 60}],
    }
    testing.conformance(LabelMatch, args=args)


def broken(name: str = "Broken", **members: Any) -> type:
    return type("Broken", (), {"name": name, **members})


def filtering(reason: Any) -> type:
    """A filter that rejects every node with what ``reason`` says of it."""
    return broken(filter=lambda _, __, pod, node: Status.unschedulable(reason(pod, node)))


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
    if len(set(nodes.labels("disk"))) < 2:
        return Status.unresolvable("fewer than two disks")
    return None


def _wants_company_for_one_of_them(self: Any, state: Any, pod: Any, nodes: Any) -> Status | None:
    return Status.unresolvable("alone") if nodes.names == ["node-1"] else None


class _ClosedArgs(BaseModel, extra="forbid"):
    limit: int = 3


async def _yields_async(self: Any, *_: object) -> Any:
    yield


def _yields(self: Any, state: Any, pod: Any, node: Any) -> Any:
    yield


async def _coroutine() -> None: ...


def _fails(self: Any) -> None:
    message = "no route"
    raise OSError(message)


def _raises_at_the_end(self: Any, state: Any, pod: Any, node_name: Any) -> None:
    self.reserved.remove(pod.uid)


def _once(self: Any, state: Any, pod: Any, node_name: Any) -> None:
    self.reserved = getattr(self, "reserved", 0) - 1
    if self.reserved < -2:
        message = "gave up twice"
        raise KeyError(message)


@pytest.mark.parametrize(
    ("plugin", "rule", "what"),
    [
        (broken(name=""), "has a name", "name is ''"),
        (broken(name=" x"), "has a name", "no configuration can name ' x'"),
        (
            broken(name="NodeName", score=_nothing),
            "has a name of its own",
            "NodeName is kube-scheduler's own plugin",
        ),
        (broken(), "can be made", "extends nothing (define one of: pre_enqueue, less, pre_filter"),
        (broken(normalize_score=_nothing), "can be made", "without score"),
        (broken(reserve=_nothing), "can be made", "is missing: write both"),
        (
            broken(score=_nothing, fitler=_nothing),
            "spells its methods",
            "kubextend never calls fitler: rename it to filter",
        ),
        (
            broken(score=_nothing, preBind=_nothing),
            "spells its methods",
            "kubextend never calls preBind: rename it to pre_bind",
        ),
        (
            broken(filter=_nothing, informers=("PVC",)),
            "names resources in informers",
            "'PVC' names no resource",
        ),
        (
            broken(filter=_counts_on_the_class, seen=[]),
            "keeps its state in the instance",
            "seen changed, and all profiles share it: make an object of its own in __init__",
        ),
        (
            broken(filter=_nothing, fitler=_nothing),
            "spells its methods",
            "kubextend calls filter and never fitler: take one out, or rename it",
        ),
        (
            broken(filter=_nothing, unblok=_nothing),
            "spells its methods",
            "kubextend never calls unblok: rename it to unblock",
        ),
        (
            broken(pre_filter=_wants_two_disks),
            "a node that passes also passes alone",
            "'fewer than two disks' rejects it alone",
        ),
        (
            broken(pre_filter=_wants_company_for_one_of_them),
            "a node that passes also passes alone",
            "'alone' rejects it alone",
        ),
        (
            broken(score=lambda *_: 0, start=lambda _: _coroutine()),
            "starts and stops",
            "start: TypeError: answered a coroutine where None is expected",
        ),
        (
            broken(score=lambda *_: 0, start=lambda _: _coroutine()),
            "starts and stops",
            "write async def start(self)",
        ),
        (
            broken(score=lambda *_: 0, stop=lambda _: _coroutine()),
            "starts and stops",
            "stop: TypeError: answered a coroutine",
        ),
        (
            broken(score=lambda *_: 0, start=_fails),
            "starts and stops",
            'start: OSError: no route; if it needs a server, test without=["start"]',
        ),
        (
            broken(score=lambda *_: 0, start=_yields_async),
            "can be made",
            "start has a yield, so a call of it runs nothing: take the yield out",
        ),
        (
            broken(score=lambda *_: 0, stop=lambda _, handle: None),
            "can be made",
            "takes what nobody gives (def stop(self))",
        ),
        (
            broken(reserve=lambda *_: None, unreserve=_yields),
            "can be made",
            "unreserve has a yield",
        ),
        (
            broken(reserve=lambda *_: None, unreserve=lambda *_: Status.success()),
            "unreserve answers nothing",
            "return None",
        ),
        (
            broken(
                __init__=lambda self: setattr(self, "reserved", set()),
                reserve=lambda self, _, pod, __: self.reserved.add(pod.uid),
                unreserve=_raises_at_the_end,
            ),
            "unreserve is idempotent",
            "use discard(…) or pop(…, None)",
        ),
        (
            broken(filter=_three),
            "can be made",
            "(def filter(self, state, pod, node)",
        ),
        (
            broken(filter=_nothing, __init__=lambda _, args: None),
            "can be made",
            'write class Args(BaseModel, extra="forbid") into the class',
        ),
        (
            broken(
                filter=_nothing,
                Args=type("Args", (BaseModel,), {"model_config": {"extra": "forbid"}}),
            ),
            "can be made",
            "the class has Args: write def __init__(self, args)",
        ),
        (
            broken(score=lambda *_: 1.5),
            "does not raise",
            "round it yourself: int(score)",
        ),
        (
            broken(score=lambda *_: _NUMPY_7),
            "does not raise",
            "round a float of NumPy yourself: int(score)",
        ),
        (
            broken(filter=_takes_too_little),
            "can be made",
            "filter(self: Any, state: Any, pod: Any) -> None does not take",
        ),
        (broken(filter=7), "can be made", "filter does not take"),
        (broken(filter=_three), "can be made", "filter is async"),
        (broken(filter=_nothing, Args=dict), "refuses unknown Args", 'extra="forbid"'),
        (
            broken(filter=_nothing, Args=type("Args", (BaseModel,), {})),
            "refuses unknown Args",
            'extra="forbid"',
        ),
        (
            broken(filter=_nothing, __init__=lambda _: 1 / 0),
            "can be made",
            "ZeroDivisionError: division by zero",
        ),
        (filtering(lambda *_: ""), "a rejection has a reason", "has none"),
        (filtering(lambda *_: "x" * 121), "reasons are short", "xxx"),
        (filtering(lambda *_: "two\nlines"), "reasons are short", "two\\nlines"),
        (filtering(lambda _, node: f"{node.name} is full"), "reasons are stable", "names the node"),
        (filtering(lambda pod, _: f"no {pod.uid}"), "reasons are stable", "the pod"),
        (
            filtering(lambda _, node: f"{node.allocatable('cpu')} left"),
            "reasons are stable",
            "differ in a number; put it into Status.detail",
        ),
        (
            filtering(lambda _, node: chr(97 + int(node.name.removeprefix("node-")))),
            "reasons are few",
            "different ones in one answer",
        ),
        (
            filtering(lambda *_: f"asked {chr(97 + next(COUNTER) % 26)}"),
            "filter is deterministic",
            "first",
        ),
        (
            broken(
                filter_nodes=lambda _, __, ___, nodes: [
                    Rejection(
                        core.Mask(index == 0 for index in range(len(nodes))),
                        Status.unschedulable("first"),
                    )
                ]
            ),
            "filter does not depend on the order of nodes",
            "backwards",
        ),
        (
            broken(filter_nodes=lambda *_: {}["x"]),
            "does not raise",
            'running "Broken" Filter plugin: KeyError',
        ),
        (
            broken(filter=lambda *_: "no"),
            "does not raise",
            'running "Broken" Filter plugin:',
        ),
        (broken(score=lambda *_: 101), "does not raise", "101"),
        (broken(score=lambda *_: 1.5), "does not raise", "Score plugin: TypeError"),
        (
            broken(score_nodes=lambda _, __, ___, nodes: list(range(len(nodes)))),
            "score does not depend on the order of nodes",
            "backwards",
        ),
        (
            broken(score_nodes=lambda _, __, ___, nodes: [max(nodes.allocatable("cpu")) % 7]),
            "does not raise",
            "ValueError: max()",
        ),
        (
            broken(score=lambda *_: 1, score_nodes=lambda _, __, ___, nodes: [2] * len(nodes)),
            "both grains say the same",
            "score_nodes",
        ),
        (
            broken(
                filter=lambda *_: None,
                filter_nodes=lambda _, __, ___, nodes: [
                    Rejection(nodes.everything(), Status.unschedulable("no"))
                ],
            ),
            "both grains say the same",
            "filter_nodes",
        ),
        (
            broken(pre_filter=lambda *_: Status(Code.WAIT)),
            "does not raise",
            "answered a Status WAIT where success, a rejection or Skip is expected",
        ),
        (
            broken(reserve=_nothing, unreserve=_once),
            "unreserve is idempotent",
            "KeyError: 'gave up twice' in unreserve, reserve, unreserve",
        ),
        (
            broken(reserve=lambda *_: True, unreserve=_nothing),
            "reserve answers what it may",
            "True",
        ),
        (broken(permit=lambda *_: 3), "permit answers what it may", "3"),
        (broken(permit=lambda *_: Status.wait()), "permit says how long to wait", "at once"),
        (
            broken(permit=lambda *_: (Status.wait(), 901)),
            "permit waits at most 15 minutes",
            "901 s",
        ),
        (
            broken(permit=lambda *_: (Status.wait(), "30")),
            "permit says how long to wait",
            "str '30': return (Status.wait(), seconds as a float)",
        ),
        (broken(pre_bind=lambda *_: 1 / 0), "does not raise", "pre_bind: ZeroDivisionError"),
        (broken(bind=lambda *_: 1), "bind answers what it may", "1"),
        (broken(post_bind=lambda *_: 1), "postBind answers what it may", "1"),
        (broken(less=_nothing), "can be made", "does not take (a, b)"),
        (broken(pre_enqueue=_nothing), "can be made", "does not take (pod)"),
        (broken(less=lambda _, a, b: 1 / 0), "does not raise", "less: ZeroDivisionError"),
        (broken(less=lambda _, a, b: None), "less answers a bool", "None"),
        (broken(less=lambda _, a, b: True), "less is a strict order", "go before each other"),
        (
            broken(less=lambda _, a, b: a.timestamp <= b.timestamp),
            "less is a strict order",
            "go before each other",
        ),
        (
            broken(less=lambda _, a, b: (_age(b) - _age(a)) % 3 == 1),
            "less is transitive",
            "not on",
        ),
        (
            broken(less=lambda _, a, b: _age(b) - _age(a) > 1),
            "less is transitive in what is equal",
            "not on",
        ),
        (broken(pre_enqueue=lambda _, pod: 1 / 0), "does not raise", "pre_enqueue: Zero"),
        (broken(pre_enqueue=lambda _, pod: True), "preEnqueue answers what it may", "True"),
        (
            broken(pre_enqueue=lambda _, pod: Status.error("no")),
            "preEnqueue answers what it may",
            "no",
        ),
    ],
)
def test_a_broken_rule_is_found_and_named(plugin: type, rule: str, what: str) -> None:
    found = testing.violations(plugin)
    assert [violation for violation in found if violation.rule == rule and what in violation.what]


def test_a_point_that_is_left_out_is_not_run() -> None:
    plugin = broken(bind=lambda *_: 1 / 0, score=lambda *_: 0)
    testing.conformance(plugin, without=["bind"])
    testing.conformance(broken(score=lambda *_: 0, start=_fails), without=["start"])


def test_two_plugins_that_differ_on_one_case_are_told_apart() -> None:
    one = broken(score=lambda _, __, ___, node: 100 if node.label("disk") == "ssd" else 0)
    other = broken(
        score_nodes=lambda _, __, ___, nodes: [100 * bit for bit in nodes.matches("disk=ssd")]
    )
    wrong = broken(
        score_nodes=lambda _, __, ___, nodes: [100 * bit for bit in nodes.matches("disk")]
    )
    assert testing.assert_same_answers(one, other, cases=100) > 20
    with pytest.raises(AssertionError, match=r"^case \d+ of seed 0: "):
        testing.assert_same_answers(one, wrong, cases=100)


class _Typo:
    name = "Typo"

    def fitler(self, *_: Any) -> None: ...


class _Nameless:
    def filter(self, *_: Any) -> None: ...


class _OddArgs(_Nameless):
    name = "OddArgs"
    Args = dict


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (_Typo, "_Typo extends nothing (kubextend never calls fitler: rename it to filter"),
        (_Typo(), "_Typo extends nothing (kubextend never calls fitler: rename it to filter"),
        (_Nameless, "_Nameless has no name (give the class a name"),
        (_OddArgs, "_OddArgs: its Args are no pydantic model (class Args(pydantic.BaseModel))"),
    ],
)
def test_a_class_that_is_no_plugin_is_refused_with_a_sentence(plugin: Any, says: str) -> None:
    with pytest.raises(KubextendError) as caught:
        testing.run_filter(plugin, testing.make_pod())
    assert str(caught.value).startswith(says)
    with pytest.raises(AssertionError, match="of the framework's rules"):
        testing.conformance(plugin)
