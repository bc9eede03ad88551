"""Checks on generated cases that a plugin keeps the rules of the framework.

A rule is a function that yields the plugin's violations of one rule of the framework. The checks
need no cluster: a plugin that needs a Kubernetes client gets the client that the caller passes.
"""

import asyncio
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from kubextend import core
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.errors import KubextendError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import METHODS_OF_POINT, PreFilterResult, QueuedPodInfo
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.framework.signatures import wrong_methods
from kubextend.framework.spelling import misspelt_methods
from kubextend.framework.status import Code, Status
from kubextend.profile.waiting_pods import MAX_PERMIT_WAIT_S
from kubextend.queue import info_of
from kubextend.testing.cases import Case, generated_cases
from kubextend.testing.cluster import Cluster, FilterResult
from kubextend.testing.objects import Manifest, pod_of
from kubextend.testing.one_plugin import EXACT_WEIGHT, checked

__all__ = ["Violation", "conformance", "violations"]

_LONGEST_REASON: Final = 120
# An answer has at most 8 different reasons, and the last of them stands for all further reasons.
_MOST_REASONS: Final = 7
_NODE: Final = "node-0"
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


@dataclass(frozen=True, slots=True)
class _Subject:
    """A plugin under test, and how the test runs the plugin.

    Attributes:
        plugin: the plugin as it was given.
        options: further arguments of the Cluster that runs the plugin, besides nodes and pods.
        cases: the cases to try.
        points: the extension points to run, and ``start`` if start and stop are to be run.
    """

    plugin: Any
    options: Mapping[str, Any]
    cases: Sequence[Case]
    points: frozenset[str]

    def cluster(self, case: Case) -> Cluster:
        weights = {self.plugin.name: EXACT_WEIGHT}
        return Cluster(
            self.plugin, nodes=case.nodes, pods=case.pods, weights=weights, **self.options
        )


def conformance(
    plugin: Any,
    *,
    args: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    kubernetes_client: Any = None,
    without: Collection[str] = (),
    cases: int = 50,
) -> None:
    """Assert that a plugin keeps the rules of the framework, in generated cases.

    One call is a whole test.

    Args:
        plugin: the class of the plugin, or an instance.
        args: the plugin's Args, as in ``pluginConfig``, if it is given as a class.
        labels: values by label key for nodes and pods; give the keys that the plugin reads.
        kubernetes_client: the client that the plugin finds as ``handle.kubernetes_client``.
        without: extension points that are not run, such as a ``bind`` that calls a real API;
            ``start`` leaves out start and stop.
        cases: how many cases to generate.

    Raises: AssertionError: the plugin breaks rules; the message lists every broken rule.
    """
    broken = violations(
        plugin,
        args=args,
        labels=labels,
        kubernetes_client=kubernetes_client,
        without=without,
        cases=cases,
    )
    if broken:
        name = getattr(plugin, "name", plugin)
        listed = "\n".join(f"- {violation}" for violation in broken)
        message = f"{name} breaks {len(broken)} of the framework's rules:\n{listed}"
        raise AssertionError(message)


def violations(
    plugin: Any,
    *,
    args: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    kubernetes_client: Any = None,
    without: Collection[str] = (),
    cases: int = 50,
) -> list[Violation]:
    """Return the rules of the framework that a plugin breaks in generated cases.

    The function ``conformance`` takes the same arguments, and explains them.
    """
    broken = [violation for rule in _FORM for violation in rule(plugin)]
    if broken:
        return broken
    points = RegisteredPlugin(plugin.name, _class_of(plugin)).extension_points | {"start"}
    given = {} if args is None else {plugin.name: args}
    options = {"args": given, "kubernetes_client": kubernetes_client}
    subject = _Subject(plugin, options, [*generated_cases(cases, labels)], points - {*without})
    try:
        [one], [other] = (subject.cluster(subject.cases[0]).plugins for _ in range(2))
    except KubextendError as error:
        return [Violation("can be made", str(error))]
    before = _shared_by_profiles(plugin, one, other)
    broken = [violation for rule in _CONDUCT for violation in _tried(rule, subject)]
    after = _shared_by_profiles(plugin, one, other)
    changed = sorted(name for name in after if before.get(name) != after[name])
    if changed:
        what = (
            f"{', '.join(changed)} changed, and all profiles share it: make an object of its own "
            "in __init__"
        )
        broken.append(Violation("keeps its state in the instance", what))
    return broken


def _shared_by_profiles(plugin: Any, one: object, other: object) -> Mapping[str, str]:
    """Return what a plugin's class has, and what two instances of it both refer to, as text.

    Args:
        plugin: the plugin as it was given.
        one: the plugin of one profile.
        other: the plugin of another profile.
    """
    owner = _class_of(plugin)
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner)}
    if one is not other:
        mine, others = (getattr(each, "__dict__", {}) for each in (one, other))
        found |= {name: value for name, value in mine.items() if others.get(name) is value}
    return {
        name: _shown(value)
        for name, value in found.items()
        if not (name.startswith("__") or name == "_abc_impl" or callable(value))
    }


def _shown(value: object) -> str:
    """Return a text that changes with a value, also if the value has no ``repr`` of its own."""
    if type(value).__repr__ is object.__repr__:
        return repr(getattr(value, "__dict__", None))
    return repr(value)


def _tried(
    rule: Callable[[_Subject], Iterator[Violation]], subject: _Subject
) -> Iterator[Violation]:
    """Yield a rule's violations; equal violations in several cases are yielded once."""
    said: set[str] = set()
    try:
        for violation in rule(subject):
            if violation.rule not in said:
                said.add(violation.rule)
                yield violation
    except PluginError as error:
        yield Violation("does not raise", str(error))


def _has_a_name(plugin: Any) -> Iterator[Violation]:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name.strip():
        yield Violation("has a name", f"name is {name!r}; give the class one")
    elif name != name.strip() or name == "*":
        yield Violation("has a name", f"no configuration can name {name!r}")
    elif name in IN_TREE_PLUGINS:
        yield Violation("has a name of its own", f"{name} is kube-scheduler's own plugin")


def _extends_something(plugin: Any) -> Iterator[Violation]:
    methods = [method for each in METHODS_OF_POINT.values() for method in each]
    if not any(hasattr(plugin, method) for method in methods):
        yield Violation("extends a point", f"it has none of {', '.join(methods)}")
    if hasattr(plugin, "normalize_score") and not (
        hasattr(plugin, "score") or hasattr(plugin, "score_nodes")
    ):
        yield Violation("normalises its own scores", "normalize_score without score")
    if hasattr(plugin, "reserve") != hasattr(plugin, "unreserve"):
        what = "one of reserve and unreserve is missing: write both, if need be with an empty body"
        yield Violation("gives up what it reserves", what)


def _spells_its_methods(plugin: Any) -> Iterator[Violation]:
    for what in misspelt_methods(plugin):
        yield Violation("spells its methods", what)


def _declares_resources(plugin: Any) -> Iterator[Violation]:
    try:
        _ = RegisteredPlugin(str(getattr(plugin, "name", "")), _class_of(plugin)).informers
    except KubextendError as error:
        yield Violation("names resources in informers", str(error))


def _has_the_signatures(plugin: Any) -> Iterator[Violation]:
    for wrong in wrong_methods(_class_of(plugin)):
        rule = (
            "is async only from reserve on" if wrong.is_async else "has the framework's signatures"
        )
        yield Violation(rule, f"{wrong.what}; write {wrong.right}")


def _takes_closed_args(plugin: Any) -> Iterator[Violation]:
    model = getattr(plugin, "Args", None)
    if model is None:
        return
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        yield Violation("has Args of pydantic", f"Args is {model!r}")
    elif model.model_config.get("extra") != "forbid":
        what = 'a mistyped argument would pass unseen: class Args(BaseModel, extra="forbid")'
        yield Violation("refuses unknown Args", what)


def _filters_soundly(subject: _Subject) -> Iterator[Violation]:
    if not subject.points & {"preFilter", "filter"}:
        return
    reasons: set[str] = set()
    for case in subject.cases:
        result = _filtered(subject.cluster(case), case.pod)
        if result.error:
            yield Violation("filter answers", result.error)
        if not case.nodes:
            continue
        yield from _judge_reasons(result, case)
        reasons |= set(result.rejected.values())
        yield from _compare_filter(subject, case, result)
    without_numbers = {_NUMBER.sub("#", reason) for reason in reasons}
    if len(without_numbers) < len(reasons):
        what = f"{sorted(reasons)[:3]} differ in a number; put it into Status.detail"
        yield Violation("reasons are stable", what)


def _judge_reasons(result: FilterResult, case: Case) -> Iterator[Violation]:
    own = {case.pod["metadata"]["name"], case.pod["metadata"]["uid"]} - {"pod"}
    if len(set(result.rejected.values())) > _MOST_REASONS:
        what = f"{len(set(result.rejected.values()))} different ones in one answer"
        yield Violation("reasons are few", what)
    for node, reason in result.rejected.items():
        if not reason.strip():
            yield Violation("a rejection has a reason", f"{node} has none")
        elif len(reason) > _LONGEST_REASON or "\n" in reason:
            yield Violation("reasons are short", f"{reason!r}")
        elif node in reason or any(word in reason for word in own):
            what = f"{reason!r} names the node or the pod; put that into Status.detail"
            yield Violation("reasons are stable", what)


def _compare_filter(subject: _Subject, case: Case, first: FilterResult) -> Iterator[Violation]:
    again = _filtered(subject.cluster(case), case.pod)
    if again != first:
        yield Violation("filter is deterministic", f"first {first}, then {again}")
    backwards = case.reordered(range(len(case.nodes))[::-1])
    other = _filtered(subject.cluster(backwards), case.pod)
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


def _scores_soundly(subject: _Subject) -> Iterator[Violation]:
    if "score" not in subject.points:
        return
    for case in subject.cases:
        # The profile raises for scores out of 0..100, too few, or no integers: that is the
        # violation.
        first = _scored(subject.cluster(case), case.pod)
        if _scored(subject.cluster(case), case.pod) != first:
            yield Violation("score is deterministic", f"not on {case}")
        backwards = case.reordered(range(len(case.nodes))[::-1])
        other = _scored(subject.cluster(backwards), case.pod)
        if other != first:
            what = f"{first}, backwards {other}"
            yield Violation("score does not depend on the order of nodes", what)


def _both_grains_agree(subject: _Subject) -> Iterator[Violation]:
    grains: tuple[tuple[str, str, Callable[[Cluster, Manifest], object]], ...] = (
        ("filter", "filter_nodes", _filtered),
        ("score", "score_nodes", _scored),
    )
    for per_node, at_once, run in grains:
        if per_node not in subject.points or not _has_both(subject.plugin, per_node, at_once):
            continue
        for case in subject.cases:
            cluster = subject.cluster(case)
            single = Cluster(
                _PerNode(cluster.plugins[0], at_once),
                nodes=case.nodes,
                pods=case.pods,
                weights={subject.plugin.name: EXACT_WEIGHT},
            )
            left, right = run(cluster, case.pod), run(single, case.pod)
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


def _pre_filter_answers(subject: _Subject) -> Iterator[Violation]:
    if "preFilter" not in subject.points:
        return
    allowed = {
        Code.SUCCESS,
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.SKIP,
    }
    for case in subject.cases:
        cluster = subject.cluster(case)
        plugin, nodes = cluster.plugins[0], cluster.handle.nodes()
        answer = plugin.pre_filter(CycleState(), pod_of(case.pod), nodes)
        status = answer[1] if isinstance(answer, tuple) else answer
        if status is None or isinstance(status, PreFilterResult):
            continue
        if not isinstance(status, Status) or status.code not in allowed:
            yield Violation("preFilter answers what it may", f"{answer!r}")


def _reserves_soundly(subject: _Subject) -> Iterator[Violation]:
    if "reserve" not in subject.points:
        return
    plugin, pod = _on_one_node(subject)
    state = CycleState()
    steps = ("unreserve", "reserve", "unreserve", "unreserve", "reserve", "unreserve")
    for number, name in enumerate(steps):
        try:
            answer = _called(getattr(plugin, name), state, pod)
        except Exception as error:  # noqa: BLE001  whatever it raises breaks the rule
            so_far = ", ".join(steps[: number + 1])
            what = (
                f"{type(error).__name__}: {error} in {so_far}; it is called twice, and without "
                "reserve: use discard(…) or pop(…, None)"
            )
            yield Violation("unreserve is idempotent", what)
            return
        if name == "unreserve" and answer is not None:
            yield Violation("unreserve answers nothing", f"{answer!r}: return None")
        if name == "reserve" and not isinstance(answer, Status | None):
            yield Violation("reserve answers what it may", f"{answer!r}")


def _permits_soundly(subject: _Subject) -> Iterator[Violation]:
    if "permit" not in subject.points:
        return
    plugin, pod = _on_one_node(subject)
    answer = _called(plugin.permit, CycleState(), pod)
    status, wait_s = answer if isinstance(answer, tuple) else (answer, None)
    if not isinstance(status, Status | None):
        yield Violation("permit answers what it may", f"{answer!r}")
    elif status is not None and status.code is Code.WAIT and wait_s is None:
        yield Violation("permit says how long to wait", "Wait without seconds is over at once")
    elif wait_s is not None and (not isinstance(wait_s, int | float) or isinstance(wait_s, bool)):
        what = f"{type(wait_s).__name__} {wait_s!r}: return (Status.wait(), seconds as a float)"
        yield Violation("permit says how long to wait", what)
    elif wait_s is not None and not 0 <= wait_s <= MAX_PERMIT_WAIT_S:
        yield Violation("permit waits at most 15 minutes", f"{wait_s} s")


def _finishes_soundly(subject: _Subject) -> Iterator[Violation]:
    for point, name in (("preBind", "pre_bind"), ("bind", "bind"), ("postBind", "post_bind")):
        if point not in subject.points:
            continue
        plugin, pod = _on_one_node(subject)
        try:
            answer = _called(getattr(plugin, name), CycleState(), pod)
        except Exception as error:  # noqa: BLE001  whatever it raises breaks the rule
            yield Violation("does not raise", f"{name}: {type(error).__name__}: {error}")
            continue
        expected = type(None) if name == "post_bind" else Status | None
        if not isinstance(answer, expected):
            yield Violation(f"{point} answers what it may", f"{answer!r}")


def _sorts_soundly(subject: _Subject) -> Iterator[Violation]:
    """Yield violations if a QueueSort plugin's ``less`` contradicts itself (no strict order)."""
    if "queueSort" not in subject.points:
        return
    cluster = subject.cluster(subject.cases[0])
    infos = [info_of(pod_of(case.pod)) for case in subject.cases[:_QUEUED]]
    infos += [QueuedPodInfo(info.pod, info.timestamp + 1) for info in infos]
    try:
        order = {
            pair: cluster.plugins[0].less(*pair) for pair in itertools.product(infos, repeat=2)
        }
    except Exception as error:  # noqa: BLE001  whatever it raises breaks the rule
        yield Violation("does not raise", f"less: {type(error).__name__}: {error}")
        return
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
    if "preEnqueue" not in subject.points:
        return
    for case in subject.cases:
        try:
            answer = subject.cluster(case).plugins[0].pre_enqueue(pod_of(case.pod))
        except Exception as error:  # noqa: BLE001  whatever it raises breaks the rule
            yield Violation("does not raise", f"pre_enqueue: {type(error).__name__}: {error}")
            continue
        said = isinstance(answer, Status) and (answer.is_success or answer.is_rejected)
        if answer is not None and not said:
            yield Violation("preEnqueue answers what it may", f"{answer!r}")


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
    _extends_something,
    _spells_its_methods,
    _has_the_signatures,
    _takes_closed_args,
    _declares_resources,
)
_CONDUCT: Final = (
    _starts_soundly,
    _filters_soundly,
    _scores_soundly,
    _both_grains_agree,
    _pre_filter_answers,
    _reserves_soundly,
    _permits_soundly,
    _finishes_soundly,
    _sorts_soundly,
    _enqueues_soundly,
)


def _filtered(cluster: Cluster, pod: Manifest) -> FilterResult:
    return checked(cluster, cluster.filter(pod))


def _scored(cluster: Cluster, pod: Manifest) -> dict[str, int]:
    return checked(cluster, cluster.prioritize(pod))


def _class_of(plugin: Any) -> type[Any]:
    return plugin if isinstance(plugin, type) else type(plugin)


def _has_both(plugin: Any, one: str, other: str) -> bool:
    return hasattr(plugin, one) and hasattr(plugin, other)


def _on_one_node(subject: _Subject) -> tuple[Any, core.Pod]:
    """Return a plugin made for the case with the most nodes, and the pod of that case."""
    case = max(subject.cases, key=lambda each: len(each.nodes))
    return subject.cluster(case).plugins[0], pod_of(case.pod)


def _called(method: Callable[..., Any], state: CycleState, pod: core.Pod) -> Any:
    answer = method(state, pod, _NODE)
    if inspect.isawaitable(answer):
        return asyncio.run(_awaited(answer))
    return answer


async def _awaited(answer: Any) -> Any:
    return await answer
