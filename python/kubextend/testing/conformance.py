"""Checks on generated cases that a plugin keeps the rules of the framework.

A rule is a function that yields the plugin's violations of one rule of the framework. The checks
need no cluster: a plugin that needs a Kubernetes client gets the client that the caller passes.
"""

import asyncio
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.errors import KubextendError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.framework.spelling import misspelt_methods
from kubextend.framework.status import Code, Status
from kubextend.profile.waiting_pods import MAX_PERMIT_WAIT_S
from kubextend.scheduling_queue import info_of
from kubextend.testing.cases import Case, generated_cases
from kubextend.testing.cluster import Cluster, FilterResult
from kubextend.testing.objects import Manifest, NodesLike, PodLike, make_nodes, pod_of
from kubextend.testing.one_plugin import EXACT_WEIGHT, checked

__all__ = ["Violation", "conformance", "violations"]

_LONGEST_REASON: Final = 120
# An answer has at most 8 different reasons, and the last of them stands for all further reasons.
_MOST_REASONS: Final = 7
_AFTER_FILTER: Final = ("score", "reserve", "permit", "preBind", "bind", "postBind")
_QUEUED: Final = 12
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the framework that a plugin breaks.

    Attributes:
        rule: the rule in a few words.
        what: what the plugin did.
    """

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class _RaisedError(Exception):
    """A method that was called directly raised an error."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A plugin under test, and how the test runs the plugin.

    Attributes:
        plugin: the plugin as it was given.
        options: further arguments of the Cluster that runs the plugin, besides nodes and pods.
        cases: the cases to try.
        points: the extension points to run, and ``start`` if start and stop are to be run.
        called: the extension points of the verbs that were called so far.
    """

    plugin: Any
    options: Mapping[str, Any]
    cases: Sequence[Case]
    points: frozenset[str]
    called: set[str] = field(default_factory=set)

    def cluster(self, case: Case, *beside: Any, instead: Any = None) -> Cluster:
        """Return the cluster of a case with the plugin, or one instead, and others beside it."""
        plugin = self.plugin if instead is None else instead
        weights = {self.plugin.name: EXACT_WEIGHT}
        return Cluster(
            plugin, *beside, nodes=case.nodes, pods=case.pods, weights=weights, **self.options
        )

    def filtered(self, case: Case, *beside: Any, instead: Any = None) -> FilterResult:
        """Return the answer of filter; raise PluginError if the plugin fails."""
        cluster = self.cluster(case, *beside, instead=instead)
        result = cluster.filter(case.pod)
        self._note(cluster, case)
        return checked(cluster, result)

    def scored(self, case: Case, instead: Any = None) -> dict[str, int]:
        """Return the scores of the nodes that pass; raise PluginError if the plugin fails."""
        cluster = self.cluster(case, _Beside(), instead=instead)
        kept = cluster.filter(case.pod).kept
        scores = cluster.prioritize(case.pod, kept) if kept or not case.nodes else {}
        self._note(cluster, case)
        return checked(cluster, scores)

    def made(self, cluster: Cluster) -> Any:
        """Return the instance of the plugin in a cluster."""
        return next(each for each in cluster.plugins if each.name == self.plugin.name)

    def _note(self, cluster: Cluster, case: Case) -> None:
        if case.nodes:
            self.called.update(point for name, point in cluster.called if name == self.plugin.name)


class _Beside:
    """A plugin beside the one under test: lets PreScore run, and PostFilter if it rejects.

    Args:
        status: its answer about every node.

    Attributes:
        state: the CycleState of the last attempt.
    """

    name = "Beside"

    def __init__(self, status: Status | None = None) -> None:
        self._status = status
        self.state = CycleState()

    def filter(self, state: CycleState, *_: object) -> Status | None:
        self.state = state
        return self._status

    def score(self, *_: object) -> int:
        return 0


class _BrokenRules(AssertionError):  # noqa: N818  what an author reads is its text
    """The rules that a plugin breaks.

    Attributes:
        violations: the broken rules.
    """

    def __init__(self, plugin: Any, violations: Sequence[Violation]) -> None:
        self.violations = violations
        listed = "\n".join(f"- {violation}" for violation in violations)
        name = getattr(plugin, "name", plugin)
        super().__init__(f"{name} breaks {len(violations)} of the framework's rules:\n{listed}")


def conformance(  # noqa: PLR0913  all but one by name
    plugin: Any,
    *,
    args: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    pods: Iterable[PodLike] = (),
    nodes: NodesLike | None = None,
    objects: Mapping[str, Iterable[Manifest]] | None = None,
    kubernetes_client: Any = None,
    without: Collection[str] = (),
    cases: int = 50,
) -> None:
    """Assert that a plugin keeps the rules of the framework, in generated cases.

    One call is a whole test. A method that no case reaches breaks a rule, too.

    Args:
        plugin: the class of the plugin, or an instance.
        args: the plugin's Args, as in ``pluginConfig``, if it is given as a class.
        labels: values by label key for nodes and pods; give the keys that the plugin reads.
        pods: pods to place instead of generated ones; one with a ``node_name`` is on that node.
        nodes: nodes instead of generated ones, in any form that ``make_nodes`` takes.
        objects: the objects of informers, by the resource as in a plugin's ``informers``.
        kubernetes_client: the client that the plugin finds as ``handle.kubernetes_client``.
        without: extension points that are not run, such as a ``bind`` that calls a real API;
            ``start`` leaves out start and stop.
        cases: how many cases to generate.

    Raises: AssertionError: the plugin breaks rules; the message lists every broken rule.
    """
    if broken := [violation for rule in _FORM for violation in rule(plugin)]:
        raise _BrokenRules(plugin, broken)
    points = RegisteredPlugin(plugin.name, plugin).extension_points | {"start"}
    given = {} if args is None else {plugin.name: args}
    options = {"args": given, "kubernetes_client": kubernetes_client, "objects": objects}
    tried = [*generated_cases(cases, labels, pods=pods, nodes=nodes)]
    if broken := _misconduct(_Subject(plugin, options, tried, points - {*without})):
        raise _BrokenRules(plugin, broken)


def violations(plugin: Any, **inputs: Any) -> Sequence[Violation]:
    """Return the rules that a plugin breaks.

    Args:
        plugin: the class of the plugin, or an instance.
        **inputs: the arguments of ``conformance``.
    """
    try:
        conformance(plugin, **inputs)
    except _BrokenRules as error:
        return error.violations
    return ()


def _misconduct(subject: _Subject) -> list[Violation]:
    try:
        subject.cluster(subject.cases[0])
    except KubextendError as error:
        return [Violation("can be made", str(error))]
    broken: dict[str, Violation] = {}
    before = _on_class(subject.plugin)
    for rule in _CONDUCT:
        try:
            for violation in rule(subject):
                broken.setdefault(violation.rule, violation)
        except (PluginError, _RaisedError) as error:
            broken.setdefault(str(error), Violation("does not raise", str(error)))
    for name, value in _on_class(subject.plugin).items():
        if before.get(name) != value:
            what = (
                f"{name} changed, and all profiles share it: make an object of its own in __init__"
            )
            broken[name] = Violation("keeps its state in the instance", what)
    return [*broken.values()]


def _on_class(plugin: Any) -> Mapping[str, str]:
    """Return what a plugin's class has, as text."""
    owner = plugin if isinstance(plugin, type) else type(plugin)
    names = [name for name in dir(owner) if not name.startswith("__")]
    return {name: repr(inspect.getattr_static(owner, name)) for name in names}


def _has_a_name(plugin: Any) -> Iterator[Violation]:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name.strip():
        yield Violation("has a name", f"name is {name!r}; give the class one")
    elif name != name.strip() or name == "*":
        yield Violation("has a name", f"no configuration can name {name!r}")
    elif name in IN_TREE_PLUGINS:
        yield Violation("has a name of its own", f"{name} is kube-scheduler's own plugin")


def _spells_its_methods(plugin: Any) -> Iterator[Violation]:
    for what in misspelt_methods(plugin):
        yield Violation("spells its methods", what)


def _declares_resources(plugin: Any) -> Iterator[Violation]:
    try:
        _ = RegisteredPlugin(str(getattr(plugin, "name", "")), plugin).informers
    except KubextendError as error:
        yield Violation("names resources in informers", str(error))


def _takes_closed_args(plugin: Any) -> Iterator[Violation]:
    model = getattr(plugin, "Args", BaseModel)
    if model is not BaseModel and getattr(model, "model_config", {}).get("extra") != "forbid":
        what = 'a mistyped argument would pass unseen: class Args(BaseModel, extra="forbid")'
        yield Violation("refuses unknown Args", what)


def _filters_soundly(subject: _Subject) -> Iterator[Violation]:
    if not subject.points & {"preFilter", "filter"}:
        return
    reasons: set[str] = set()
    for case in subject.cases:
        result = subject.filtered(case)
        if result.error:
            yield Violation("filter answers", result.error)
        if not case.nodes:
            continue
        if len(set(result.rejected.values())) > _MOST_REASONS:
            what = f"{len(set(result.rejected.values()))} different ones in one answer"
            yield Violation("reasons are few", what)
        for reason in result.rejected.values():
            yield from _judge_reason(reason, case)
        reasons |= set(result.rejected.values())
        yield from _compare_filter(subject, case, result)
    without_numbers = {_NUMBER.sub("#", reason) for reason in reasons}
    if len(without_numbers) < len(reasons):
        what = f"{sorted(reasons)[:3]} differ in a number; put it into Status.detail"
        yield Violation("reasons are stable", what)


def _judge_reason(reason: str, case: Case) -> Iterator[Violation]:
    of_pod = {case.pod["metadata"]["name"], case.pod["metadata"]["uid"]} - {"pod"}
    names = of_pod.union(node["metadata"]["name"] for node in case.nodes)
    if not reason.strip():
        yield Violation("a rejection has a reason", "a Status has none")
    elif len(reason) > _LONGEST_REASON or "\n" in reason:
        yield Violation("reasons are short", f"{reason!r}")
    elif any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", reason) for name in names):
        what = f"{reason!r} names the node or the pod; put that into Status.detail"
        yield Violation("reasons are stable", what)


def _judge_status(point: str, answer: object, case: Case) -> Iterator[Violation]:
    """Judge what a method answered that returns a Status or None."""
    if not isinstance(answer, Status | None):
        yield Violation(f"{point} answers what it may", f"{answer!r}")
    elif answer is not None and answer.is_rejected:
        yield from _judge_reason(answer.reason, case)


def _compare_filter(subject: _Subject, case: Case, first: FilterResult) -> Iterator[Violation]:
    again = subject.filtered(case)
    if again != first:
        yield Violation("filter is deterministic", f"first {first}, then {again}")
    other = subject.filtered(case.backwards())
    if (set(other.kept), other.rejected) != (set(first.kept), first.rejected):
        what = f"{first}, backwards {other}"
        yield Violation("filter does not depend on the order of nodes", what)
    for node in first.kept:
        alone = checked(cluster := subject.cluster(case), cluster.filter(case.pod, [node]))
        if why := alone.rejected.get(node):
            what = (
                f"{node} passes among all nodes, and {why!r} rejects it alone; preempt and bind "
                "ask about some nodes alone: read the others from handle.snapshot(state)"
            )
            yield Violation("a node that passes also passes alone", what)


def _answers_in_post_filter(subject: _Subject) -> Iterator[Violation]:
    for case in subject.cases if "postFilter" in subject.points else ():
        subject.filtered(case, _Beside(Status.unschedulable("every node is rejected")))
    yield from ()


def _unblocks_soundly(subject: _Subject) -> Iterator[Violation]:
    for case in subject.cases if hasattr(subject.plugin, "unblock") else ():
        cluster = subject.cluster(case)
        rejected = cluster.filter(case.pod).rejected
        nodes = [node for node in make_nodes(case.nodes).infos() if node.name in rejected]
        for node in (None, *nodes[:1]):
            said = _called(subject.made(cluster), "unblock", pod_of(case.pod), node)
            if not isinstance(said, str):
                yield Violation("unblock answers a text", f"{said!r}")


def _scores_soundly(subject: _Subject) -> Iterator[Violation]:
    if not subject.points & {"preScore", "score"}:
        return
    for case in subject.cases:
        # The profile raises for scores out of 0..100, too few, or no integers: that is the
        # violation.
        first = subject.scored(case)
        if subject.scored(case) != first:
            yield Violation("score is deterministic", f"not on {case}")
        other = subject.scored(case.backwards())
        if other != first:
            what = f"{first}, backwards {other}"
            yield Violation("score does not depend on the order of nodes", what)


def _both_grains_agree(subject: _Subject) -> Iterator[Violation]:
    grains: tuple[tuple[str, Callable[..., object]], ...] = (
        ("filter", subject.filtered),
        ("score", subject.scored),
    )
    for per_node, run in grains:
        at_once = f"{per_node}_nodes"
        both = hasattr(subject.plugin, per_node) and hasattr(subject.plugin, at_once)
        for case in subject.cases if both and per_node in subject.points else ():
            alone = _PerNode(subject.made(subject.cluster(case)), at_once)
            left, right = run(case), run(case, instead=alone)
            if left != right:
                what = f"{at_once} {left}, {per_node} {right}"
                yield Violation("both grains say the same", what)


class _PerNode:
    """Wraps a plugin and hides its method for all nodes, so that its per-node method is called."""

    def __init__(self, plugin: Any, hidden: str) -> None:
        self._plugin = plugin
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        if name == self._hidden:
            raise AttributeError(name)
        return getattr(self._plugin, name)


def _reserves_soundly(subject: _Subject) -> Iterator[Violation]:
    if "reserve" not in subject.points or (place := _place(subject)) is None:
        return
    steps = ("unreserve", "reserve", "unreserve", "unreserve", "reserve", "unreserve")
    for number, name in enumerate(steps):
        try:
            answer = place.call(name)
        except _RaisedError as error:
            so_far = ", ".join(steps[: number + 1])
            what = (
                f"{str(error).removeprefix(f'{name}: ')} in {so_far}; it is called twice, and "
                "without reserve: use discard(…) or pop(…, None)"
            )
            yield Violation("unreserve is idempotent", what)
            return
        if name == "reserve":
            yield from _judge_status(name, answer, place.case)
        elif answer is not None:
            yield Violation("unreserve answers nothing", f"{answer!r}: return None")


def _permits_soundly(subject: _Subject) -> Iterator[Violation]:
    if "permit" not in subject.points or (place := _place(subject)) is None:
        return
    answer = place.call("permit")
    status, wait_s = answer if isinstance(answer, tuple) else (answer, None)
    yield from _judge_status("permit", status, place.case)
    if isinstance(status, Status) and status.code is Code.WAIT and wait_s is None:
        yield Violation("permit says how long to wait", "Wait without seconds is over at once")
    elif wait_s is not None and (not isinstance(wait_s, int | float) or isinstance(wait_s, bool)):
        what = f"{type(wait_s).__name__} {wait_s!r}: return (Status.wait(), seconds as a float)"
        yield Violation("permit says how long to wait", what)
    elif wait_s is not None and not 0 <= wait_s <= MAX_PERMIT_WAIT_S:
        yield Violation("permit waits at most 15 minutes", f"{wait_s} s")


def _finishes_soundly(point: str, name: str, subject: _Subject) -> Iterator[Violation]:
    if point not in subject.points or (place := _place(subject)) is None:
        return
    answer = place.call(name)
    if point == "postBind" and answer is not None:
        yield Violation("postBind answers what it may", f"{answer!r}")
    elif point != "postBind":
        yield from _judge_status(point, answer, place.case)


def _sorts_soundly(subject: _Subject) -> Iterator[Violation]:
    """Yield violations if a QueueSort plugin's ``less`` contradicts itself (no strict order)."""
    if "queueSort" not in subject.points:
        return
    cluster = subject.cluster(subject.cases[0])
    infos = [info_of(pod_of(case.pod)) for case in subject.cases[:_QUEUED]]
    infos += [QueuedPodInfo(info.pod, info.timestamp + 1) for info in infos]
    order = {
        pair: _called(subject.made(cluster), "less", *pair)
        for pair in itertools.product(infos, repeat=2)
    }
    for (a, b), less in order.items():
        if not isinstance(less, bool):
            yield Violation("less answers a bool", f"{less!r}")
            return
        if less and order[b, a]:
            yield Violation("less is a strict order", f"{_told(a, b)} go before each other")
    for a, b, c in itertools.product(infos, repeat=3):
        if order[a, b] and order[b, c] and not order[a, c]:
            yield Violation("less is transitive", f"not on {_told(a, b, c)}")
        alike = not any(order[pair] for pair in ((a, b), (b, a), (b, c), (c, b)))
        if alike and (order[a, c] or order[c, a]):
            yield Violation("less is transitive in what is equal", f"not on {_told(a, b, c)}")


def _told(*infos: QueuedPodInfo) -> str:
    return ", ".join(f"{info.pod.labels} at {info.timestamp}" for info in infos)


def _enqueues_soundly(subject: _Subject) -> Iterator[Violation]:
    for case in subject.cases if "preEnqueue" in subject.points else ():
        answer = _called(subject.made(subject.cluster(case)), "pre_enqueue", pod_of(case.pod))
        if isinstance(answer, Status) and not (answer.is_success or answer.is_rejected):
            yield Violation("preEnqueue answers what it may", f"{answer!r}")
        yield from _judge_status("preEnqueue", answer, case)


def _reaches_every_point(subject: _Subject) -> Iterator[Violation]:
    """Yield a violation for each point that no case has reached; say which input would."""
    results = [subject.filtered(case) for case in subject.cases if case.nodes]
    whose = "given" if subject.cases[-1].given else "generated"
    passing = "pass pods= and nodes= that pass it"
    filters = "filter" in subject.points
    if filters and "Filter" not in subject.called:
        filters = False
        does = " or ".join(sorted({"skipped" if each.kept else "rejected" for each in results}))
        what = f"filter was never called: pre_filter {does} every {whose} pod; {passing}"
        yield Violation("filter is called", what)
    if not any(each.kept for each in results):
        by = "filter" if filters else "pre_filter"
        for point in sorted(subject.points.intersection(_AFTER_FILTER)):
            what = f"{point} was never called: {by} rejected every {whose} pod; {passing}"
            yield Violation(f"{point} is called", what)
    elif "score" in subject.points and "Score" not in subject.called:
        what = f"score was never called: pre_score skipped every {whose} pod; {passing}"
        yield Violation("score is called", what)


def _starts_soundly(subject: _Subject) -> Iterator[Violation]:
    if "start" not in subject.points:
        return
    with subject.cluster(subject.cases[0]) as cluster:
        pass
    for failure in cluster.failures:
        method = failure.extension_point.lower()
        advice = 'if it needs a server, test without=["start"]'
        if "a coroutine" in failure.message:
            advice = f"write async def {method}(self)"
        what = f"{method}: {failure.message}; {advice}"
        yield Violation("starts and stops", what)


_FORM: Final = (
    _has_a_name,
    _spells_its_methods,
    _takes_closed_args,
    _declares_resources,
)
_CONDUCT: Final = (
    _starts_soundly,
    _filters_soundly,
    _scores_soundly,
    _both_grains_agree,
    _answers_in_post_filter,
    _unblocks_soundly,
    _reserves_soundly,
    _permits_soundly,
    partial(_finishes_soundly, "preBind", "pre_bind"),
    partial(_finishes_soundly, "bind", "bind"),
    partial(_finishes_soundly, "postBind", "post_bind"),
    _sorts_soundly,
    _enqueues_soundly,
    _reaches_every_point,
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node on which the pod of a case may be bound.

    Attributes:
        plugin: the instance of the plugin that let the pod pass there.
        state: the CycleState of the attempt.
        case: the case.
        node: the name of the node.
    """

    plugin: Any
    state: CycleState
    case: Case
    node: str

    def call(self, name: str) -> Any:
        """Call a method of the binding cycle; raise _RaisedError if it raises."""
        return _called(self.plugin, name, self.state, pod_of(self.case.pod), self.node)


def _place(subject: _Subject) -> _Place | None:
    """Return a node that passes, in a case with as many nodes as possible; None: none passes."""
    for case in sorted(subject.cases, key=lambda each: -len(each.nodes)):
        cluster = subject.cluster(case, beside := _Beside())
        if kept := checked(cluster, cluster.filter(case.pod)).kept:
            return _Place(subject.made(cluster), beside.state, case, kept[0])
    return None


def _called(plugin: Any, name: str, *given: object) -> Any:
    """Call a method, and await its answer if need be; raise _RaisedError if it raises."""
    try:
        answer = getattr(plugin, name)(*given)
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
    except Exception as error:
        message = f"{name}: {type(error).__name__}: {error}"
        raise _RaisedError(message) from error


async def _awaited(answer: Any) -> Any:
    return await answer
