"""Runs the plugins of a profile in order, with the framework's semantics.

A profile takes nodes and returns verdicts and scores; it knows no verb and no bytes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_, or_
from typing import Any, Final, Self

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import (
    FilterPlugin,
    PerNodeFilterPlugin,
    PerNodeScorePlugin,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    Rejection,
    ScorePlugin,
    Scores,
    runs_in_core,
)
from kubextend.framework.status import Code, Status
from kubextend.framework.wrong_answer import check_status, close_all, wrong_answer
from kubextend.profile.binding import BindingPlugins
from kubextend.profile.per_node import FilterNodes, ScoreNodes, filter_nodes_of, score_nodes_of
from kubextend.profile.plugin_errors import (
    AtNodeError,
    about,
    detailed,
    error_of,
    guarded,
    status_of,
)

__all__ = [
    "FilterOutcome",
    "PreFilterOutcome",
    "Profile",
    "Profiles",
    "post_filtered",
    "pre_filtered",
]

_NODE_SCORE = (0, 100)
# NormalizeScore brings any of these scores into 0..100.
_ANY_SCORE = (-(2**63), 2**63 - 1)

# Each node that is judged alone costs an attempt.
_MOST_ALONE: Final = 16

_PRE_FILTER_CODES = frozenset(
    {Code.SUCCESS, Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
)

LeftOut = Callable[[PluginError], object]
"""Called with the failure of a plugin that is left out."""

GoesOn = Callable[[], bool]
"""Returns whether there is time for one more attempt."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The verdict of a profile's filters on the nodes.

    Attributes:
        kept: nodes that no plugin rejected.
        rejections: the other nodes, each in exactly one entry.
    """

    kept: core.Mask
    rejections: list[Rejection]

    def passing(self, nodes: core.Nodes) -> core.Mask:
        """Return the kept nodes that are known.

        A node that the store does not know has no labels, so a filter's verdict on it means
        nothing.
        """
        return self.kept & nodes.known


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """The verdict of the PreFilter plugins on the pod.

    Attributes:
        result: the nodes that are left to look at.
        status: success, or the rejection that every node gets.
        narrowed_by: names of the plugins that left less than all nodes.
        some: the nodes that need a verdict; None: all nodes.
    """

    result: PreFilterResult
    status: Status
    narrowed_by: tuple[str, ...] = ()
    some: core.Mask | None = None


def _no_pods() -> core.PodSnapshot | None:
    return None


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Profile:
    """The plugins for the pods of one scheduler name.

    Attributes:
        scheduler_name: ``spec.schedulerName`` of the pods.
        filter: filter plugins in order, per node or for all nodes at once.
        score: score plugins in order, per node or for all nodes at once, each with its weight.
        binding: the plugins of the binding cycle.
        queue_sort: the plugin that orders the queue; none or one.
        pre_enqueue: the plugins that hold pods back in the queue, in order.
        pods: returns the pods as they are now, for views of single nodes; None where they are not
            watched.
        counts_pods: a plugin looks at the pods on nodes, so filter's verdict may no longer hold
            when the pod is bound.
        ignored: names of the plugins whose failurePolicy is Ignore.
    """

    scheduler_name: str
    filter: Sequence[FilterPlugin | PerNodeFilterPlugin] = ()
    score: Sequence[tuple[ScorePlugin | PerNodeScorePlugin, int]] = ()
    pre_filter: Sequence[PreFilterPlugin] = ()
    post_filter: Sequence[PostFilterPlugin] = ()
    pre_score: Sequence[PreScorePlugin] = ()
    binding: BindingPlugins = field(default_factory=BindingPlugins)
    queue_sort: Sequence[QueueSortPlugin] = ()
    pre_enqueue: Sequence[PreEnqueuePlugin] = ()
    pods: Callable[[], core.PodSnapshot | None] = _no_pods
    counts_pods: bool = False
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        scheduler_name: str,
        at: Callable[[str], Sequence[Any]],
        weights: Mapping[str, int] | None = None,
    ) -> Self:
        """Gather the plugins at each extension point.

        Args:
            scheduler_name: ``spec.schedulerName`` of the pods.
            at: returns the plugins at a point, by its name in the configuration.
            weights: weights of scores by plugin name; 1 where none is given.
        """
        given = weights or {}
        return cls(
            scheduler_name,
            queue_sort=at("queueSort"),
            pre_enqueue=at("preEnqueue"),
            pre_filter=at("preFilter"),
            filter=at("filter"),
            post_filter=at("postFilter"),
            pre_score=at("preScore"),
            score=[(plugin, given.get(plugin.name, 1)) for plugin in at("score")],
            binding=BindingPlugins.of(at),
        )

    @cached_property
    def plugin_names(self) -> frozenset[str]:
        """The names of all plugins of the profile."""
        return frozenset(plugin.name for plugin in self.plugins)

    @cached_property
    def filters_in_python(self) -> bool:
        """Whether filtering runs Python code, which may take any time."""
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "filter_nodes", "filter") for plugin in self.filter)
            and all(runs_in_core(plugin, "post_filter") for plugin in self.post_filter)
        )

    @cached_property
    def scores_in_python(self) -> bool:
        """Whether scoring runs Python code, or PreFilter does where filter's attempt is lost."""
        methods = ("score_nodes", "score", "normalize_score")
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "pre_score") for plugin in self.pre_score)
            and all(runs_in_core(plugin, *methods) for plugin, _ in self.score)
        )

    @property
    def binds_with_plugins(self) -> bool:
        """Whether a plugin takes part in binding; a filter that looks once more does."""
        return bool(self.binding) or self.counts_pods

    @cached_property
    def needs_pods(self) -> bool:
        """Whether any plugin of the profile looks at pods."""
        return self.counts_pods or any(
            getattr(plugin, "needs_pods", False) for plugin in self.plugins
        )

    @property
    def plugins_in_python(self) -> bool:
        """Whether any plugin of the profile runs Python code."""
        return self.filters_in_python or self.scores_in_python or bool(self.binding)

    @property
    def rejects(self) -> bool:
        """Whether any plugin of the profile can reject a node."""
        return bool(self.pre_filter or self.filter)

    @property
    def plugins(self) -> list[Plugin]:
        """Each plugin of the profile, once."""
        scoring = [plugin for plugin, _ in self.score]
        everywhere = (
            *(*self.pre_enqueue, *self.queue_sort),
            *(*self.pre_filter, *self.filter, *self.post_filter, *self.pre_score, *scoring),
            *self.binding.plugins,
        )
        return list({id(plugin): plugin for plugin in everywhere}.values())

    @cached_property
    def _filters(self) -> tuple[tuple[Plugin, FilterNodes], ...]:
        return tuple((plugin, filter_nodes_of(plugin, self.pods)) for plugin in self.filter)

    @cached_property
    def _scores(self) -> Mapping[int, ScoreNodes]:
        return {id(plugin): score_nodes_of(plugin, self.pods) for plugin, _ in self.score}

    def find_nodes_that_fit(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        left_out: LeftOut | None = None,
        goes_on: GoesOn = _always,
    ) -> FilterOutcome:
        """Run PreFilter and Filter; the caller runs PostFilter where no node is left.

        Where other pods of at least the pod's priority are nominated to a node, the node has to
        pass with these pods on it too. The node has to pass without them as well, because they may
        not come.

        One attempt judges all such nodes with all nominated pods. A node that passes there passes.
        Where a plugin looked at pods of other nodes, up to 16 nodes that do not pass are judged
        once more, each with its own nominated pods. The outcome is kube-scheduler's if no node
        passes because of pods on other nodes, and if every node that needs it is judged alone. A
        filter that wants other pods near, as affinity and topology spread do, may let a pod onto a
        node that kube-scheduler would reject. A node that is not judged alone may be rejected
        though kube-scheduler would keep it.

        Args:
            state: the state of this attempt.
            pod: the pod.
            nodes: the nodes to look at.
            left_out: told of each plugin that failed and is left out, as its failurePolicy allows;
                None: no plugin may fail, whatever its policy.
            goes_on: asked before each node is judged alone; after False, the verdict with all
                nominated pods holds for the remaining nodes.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go findNodesThatFitPod,
        pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
        """
        outcome = self.filter_as_seen(state, pod, nodes, left_out)
        if not self.counts_pods:
            return outcome
        pods = self.pods() if state.pods_seen is None else state.pods_seen
        nominated = None if pods is None else pods.nominated(pod, nodes)
        if pods is None or nominated is None or not (both := outcome.kept & nominated).any():
            return outcome
        judge_with = partial(self._judged_with_nominated, pods, pod, nodes, left_out=left_out)
        rejections, across_nodes = judge_with(both)
        if across_nodes and rejections and both.count() > 1:
            # kube-scheduler judges a node with the pods that are nominated to that node alone.
            rejections = _judged_alone(rejections, lambda node: judge_with(node)[0], goes_on)
        kept = reduce(and_, (~rejection.nodes for rejection in rejections), outcome.kept)
        return FilterOutcome(kept, [*outcome.rejections, *rejections])

    def filter_as_seen(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        left_out: LeftOut | None = None,
        some: core.Mask | None = None,
    ) -> FilterOutcome:
        """Run PreFilter and Filter with the pods that the state has, whoever is nominated.

        Args:
            state: the state of this attempt.
            pod: the pod.
            nodes: the nodes to look at.
            left_out: told of each plugin that failed and is left out; None: no plugin may fail.
            some: the nodes that need a verdict; None: all nodes.

        Raises: PluginError: a plugin failed.
        """
        before = self.run_pre_filter_plugins(state, pod, nodes, left_out)
        if not before.status.is_success:
            rejected = nodes.everything() if some is None else some
            return FilterOutcome(nodes.nothing(), [Rejection(rejected, before.status)])
        before = replace(before, some=some)
        return self.run_filter_plugins(state, pod, nodes, before, left_out)

    def _judged_with_nominated(
        self,
        pods: core.PodSnapshot,
        pod: core.Pod,
        nodes: core.Nodes,
        some: core.Mask,
        *,
        left_out: LeftOut | None,
    ) -> tuple[list[Rejection], bool]:
        """Judge some nodes with their nominated pods on all of them; return the rejections.

        The second value says whether a plugin looked at pods of other nodes than the one that it
        judged. The state that plugins write is lost, as in kube-scheduler, which copies the state.

        Raises: PluginError: a plugin failed.
        """
        state = CycleState()
        state.pods_seen = pods.with_nominated(pod, nodes, some)
        outcome = self.filter_as_seen(state, pod, nodes, left_out, some)
        return outcome.rejections, state.asked_for_pods

    def run_pre_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        left_out: LeftOut | None = None,
    ) -> PreFilterOutcome:
        """Run PreFilter and intersect the nodes that plugins leave; Skip skips a plugin's Filter.

        Raises: PluginError: a plugin raised, or returned a wrong value.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPreFilterPlugins
        """
        result = PreFilterResult()
        status = Status.success()
        skipped: set[str] = set()
        narrowed_by: list[str] = []
        for plugin in self.pre_filter:
            try:
                left, said = pre_filtered(plugin, state, pod, nodes)
            except PluginError as error:
                if not self._is_left_out(error, left_out):
                    raise
                # Filter cannot judge without the state that PreFilter prepares.
                left, said = PreFilterResult(), Status.skip()
            if said.code is Code.SKIP:
                skipped.add(plugin.name)
            elif said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                status = said
                break
            elif said.code is Code.UNSCHEDULABLE:
                # The remaining plugins still run: the last rejection counts.
                status = said
            else:
                if left.node_names is not None:
                    narrowed_by.append(plugin.name)
                result = result.merged(left)
                if result.node_names is not None and not result.node_names:
                    status = Status.unresolvable(_nothing_left(narrowed_by))
                    break
        state.skip_filter_plugins = frozenset(skipped)
        return PreFilterOutcome(result, status, tuple(narrowed_by))

    def run_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        before: PreFilterOutcome | None = None,
        left_out: LeftOut | None = None,
    ) -> FilterOutcome:
        """Judge every node: the first plugin that rejects a node gives its status.

        Raises: PluginError: a plugin raised, or answered something else than rejections.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
        """
        kept = nodes.everything() if before is None or before.some is None else before.some
        rejections: list[Rejection] = []
        if before is not None and before.result.node_names is not None:
            outside = _outside(before, nodes, kept)
            rejections.append(outside)
            kept = kept & ~outside.nodes
        for plugin, filter_nodes in self._filters:
            if not kept.any():
                break
            if plugin.name in state.skip_filter_plugins:
                continue
            rejected_by = partial(_rejected_by, plugin, filter_nodes, state, pod, nodes, kept)
            try:
                newly = guarded(plugin, "Filter", rejected_by, pod)
            except PluginError as error:
                if not self._is_left_out(error, left_out):
                    raise
                continue
            for rejection in newly:
                if rejection.status.detail:
                    number = f"{rejection.nodes.count()} nodes"
                    detailed(plugin, "Filter", pod, rejection.status, number)
                rejections.append(rejection)
                kept = kept & ~rejection.nodes
        return FilterOutcome(kept, rejections)

    def run_post_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        rejections: Sequence[Rejection],
        left_out: LeftOut | None = None,
    ) -> Status:
        """Run PostFilter in order until one says Success or that nothing helps; log the details.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
        """
        reasons: list[str] = []
        for plugin in self.post_filter:
            try:
                said = post_filtered(plugin, state, pod, rejections)
            except PluginError as error:
                if not self._is_left_out(error, left_out):
                    raise
                continue
            detailed(plugin, "PostFilter", pod, said, "which fits nowhere")
            if said.is_success or said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return said
            if said.reason:
                reasons.append(said.reason)
        return Status.unschedulable(", ".join(reasons))

    def run_pre_score_plugin(
        self, plugin: PreScorePlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> None:
        """Run one plugin's PreScore; Skip skips the plugin's Score in this attempt.

        Raises: PluginError: the plugin raised, or rejected, which is too late here.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPreScorePlugins
        """
        call = partial(plugin.pre_score, state, pod, nodes)
        said = status_of(plugin, "PreScore", guarded(plugin, "PreScore", call, pod), pod)
        if said.code is Code.SKIP:
            state.skip_score_plugins |= {plugin.name}
        elif not said.is_success:
            raise error_of(plugin, "PreScore", said, pod)

    def run_score_plugin(
        self,
        plugin: ScorePlugin | PerNodeScorePlugin,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
    ) -> Scores:
        """Return one plugin's scores after NormalizeScore, not weighted yet.

        Returns: int64, shape ``(len(nodes),)``, 0..100.
        Raises: PluginError: the plugin raised, or a score is outside that range.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunScorePlugins
        """
        score_nodes = self._scores[id(plugin)]
        scored = guarded(plugin, "Score", partial(score_nodes, state, pod, nodes), pod)
        scores = scored.scores
        normalize = getattr(plugin, "normalize_score", None)
        if normalize is None:
            return guarded(plugin, "Score", partial(_checked, scores, nodes, _NODE_SCORE), pod)
        try:
            return guarded(
                plugin,
                "NormalizeScore",
                lambda: _checked(
                    scored.normalized(partial(normalize, state, pod)), nodes, _NODE_SCORE
                ),
                pod,
            )
        except PluginError:
            # If the raw scores are invalid too, blame Score and not NormalizeScore.
            guarded(plugin, "Score", partial(_checked, scores, nodes, _ANY_SCORE), pod)
            raise

    def _is_left_out(self, error: PluginError, left_out: LeftOut | None) -> bool:
        """Return whether the failed plugin may be left out; if so, report the error.

        Raising the error in this method would make a reference cycle of the error and the frame,
        and keep the request until the garbage collector runs.
        """
        if left_out is None or error.plugin not in self.ignored:
            return False
        left_out(error)
        return True


@dataclass(frozen=True)
class Profiles:
    """Profiles by scheduler name."""

    by_scheduler_name: Mapping[str, Profile]

    @classmethod
    def of(cls, profiles: Iterable[Profile]) -> "Profiles":
        """Gather profiles; a later one replaces an earlier one of the same name."""
        return cls({profile.scheduler_name: profile for profile in profiles})

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins of all profiles."""
        return [plugin for profile in self.by_scheduler_name.values() for plugin in profile.plugins]

    @property
    def bind_with_plugins(self) -> bool:
        """Whether any profile takes part in binding."""
        return any(profile.binds_with_plugins for profile in self.by_scheduler_name.values())

    @property
    def filter_in_python(self) -> bool:
        """Whether any profile filters in Python."""
        return any(profile.filters_in_python for profile in self.by_scheduler_name.values())

    @property
    def score_in_python(self) -> bool:
        """Whether any profile scores in Python."""
        return any(profile.scores_in_python for profile in self.by_scheduler_name.values())

    def for_pod(self, pod: core.Pod | None) -> Profile | None:
        """Return the profile of the pod's schedulerName; None where kubextend has none."""
        return None if pod is None else self.by_scheduler_name.get(pod.scheduler_name)


def pre_filtered(
    plugin: PreFilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
) -> tuple[PreFilterResult, Status]:
    """Run one PreFilter: return the nodes that it leaves, and Success, Skip or a rejection.

    Raises: PluginError: the plugin raised, or returned a wrong value.
    """

    def call() -> tuple[PreFilterResult, object]:
        answer = plugin.pre_filter(state, pod, nodes)
        if isinstance(answer, PreFilterResult):
            return _sound(answer), None
        match answer:
            case Status() | None:
                return PreFilterResult(), answer
            case [PreFilterResult() | None as result, Status() | None as status]:
                return _sound(result or PreFilterResult()), status
        raise wrong_answer(answer, "a Status, a PreFilterResult, both or None")

    result, said = guarded(plugin, "PreFilter", call, pod)
    status = status_of(plugin, "PreFilter", said, pod)
    if status.code in _PRE_FILTER_CODES:
        detailed(plugin, "PreFilter", pod, status, "all nodes")
        return result, status
    raise error_of(plugin, "PreFilter", status, pod)


def _sound(result: PreFilterResult) -> PreFilterResult:
    """Return the result with its names in a frozenset, whatever kind of set holds them.

    Raises: TypeError: the names are not in a set, or are no strings.
    """
    names = result.node_names
    if names is None:
        return result
    if not isinstance(names, AbstractSet):
        message = f"node_names must be a set or None, found {type(names).__name__}"
        raise TypeError(message)
    for kind in set(map(type, names)):
        if not issubclass(kind, str):
            message = f"node_names must hold names, found {kind.__name__}"
            raise TypeError(message)
    return PreFilterResult(frozenset(names))


def post_filtered(
    plugin: PostFilterPlugin, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
) -> Status:
    """Run one PostFilter and return its Status: Success, or a rejection.

    Raises: PluginError: the plugin raised, or returned a wrong value.
    """
    call = partial(plugin.post_filter, state, pod, rejections)
    said = status_of(plugin, "PostFilter", guarded(plugin, "PostFilter", call, pod), pod)
    if said.is_success or said.is_rejected:
        return said
    raise error_of(plugin, "PostFilter", said, pod)


def _nothing_left(plugins: Sequence[str]) -> str:
    """Return kube-scheduler's own sentence for no node left after PreFilter."""
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def _outside(before: PreFilterOutcome, nodes: core.Nodes, some: core.Mask) -> Rejection:
    """Reject as UnschedulableAndUnresolvable those of some nodes that PreFilter left out."""
    left = before.result.node_names or frozenset()
    mask = core.Mask([name not in left for name in nodes.names])
    return Rejection(mask & some, Status.unresolvable(_narrowed(before.narrowed_by)))


def _judged_alone(
    joint: Sequence[Rejection],
    judge: Callable[[core.Mask], Sequence[Rejection]],
    goes_on: GoesOn,
) -> list[Rejection]:
    """Return the rejections of one attempt for many nodes, corrected by an attempt for each node.

    Args:
        joint: the rejections of the attempt for many nodes, at least one; each node in one entry.
        judge: makes an attempt for one node.
        goes_on: returns whether there is time for one more attempt.
    """
    rejected = reduce(or_, (rejection.nodes for rejection in joint))
    alone = []
    rejections: list[Rejection] = []
    for row in rejected.indices()[:_MOST_ALONE]:
        if not goes_on():
            break
        alone.append(_only(row, len(rejected)))
        rejections += judge(alone[-1])
    left = reduce(and_, (~node for node in alone), rejected)
    for rejection in joint:
        if (nodes := rejection.nodes & left).any():
            rejections.append(Rejection(nodes, rejection.status))
    return rejections


def _only(row: int, length: int) -> core.Mask:
    packed = bytearray(-(-length // 8))
    packed[row >> 3] |= 1 << (row & 7)
    return core.Mask.unpack(bytes(packed), length)


def _narrowed(plugins: Sequence[str]) -> str:
    return f"node is filtered out by the prefilter result of {', '.join(plugins)}"


def _rejected_by(
    plugin: Plugin,
    filter_nodes: FilterNodes,
    state: CycleState,
    pod: core.Pod,
    nodes: core.Nodes,
    kept: core.Mask,
) -> list[Rejection]:
    """Return what a plugin newly rejects of the nodes that are still kept, each in one entry."""
    rejections = []
    said = filter_nodes(state, pod, nodes, kept)
    if not isinstance(said, Iterable) or isinstance(said, str | bytes):
        raise wrong_answer(said, "a sequence of Rejection")
    for rejection in said:
        if not isinstance(rejection, Rejection):
            raise wrong_answer(rejection, "a Rejection")
        if not isinstance(rejection.status, Status):
            raise wrong_answer(rejection.status, "a Status")
        if not isinstance(rejection.nodes, core.Mask):
            raise wrong_answer(rejection.nodes, "a Mask in Rejection.nodes")
        check_status(rejection.status)
        if not rejection.status.is_rejected:
            first = next((nodes.names[row] for row in rejection.nodes.indices()), "")
            raise about(error_of(plugin, "Filter", rejection.status), pod, first)
        newly = kept & rejection.nodes
        kept = kept & ~newly
        if newly.any():
            rejections.append(Rejection(newly, rejection.status))
    return rejections


def _checked(scores: Scores, nodes: core.Nodes, within: tuple[int, int]) -> Scores:
    try:
        checked = core.checked_scores(scores, *within)
    except TypeError:
        _check_types(scores, nodes)
        raise
    if len(checked) != len(nodes):
        message = f"{len(checked)} scores for {len(nodes)} nodes"
        raise ValueError(message)
    return checked


def _check_types(scores: object, nodes: core.Nodes) -> None:
    """Raise what is wrong with scores that are no integers, and for which node."""
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        raise wrong_answer(scores, "a sequence of int")
    for name, score in zip(nodes.names, scores, strict=False):
        if not isinstance(score, int):
            close_all(scores)
            raise AtNodeError(name) from wrong_answer(score, "an int")
