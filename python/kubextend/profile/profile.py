"""Runs the plugins of a profile in order, with the framework's semantics.

Knows no verb and no bytes: nodes in, verdicts and scores out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_
from typing import Final

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
from kubextend.profile.guard import (
    AtNodeError,
    about,
    detailed,
    error_of,
    guarded,
    status_of,
)
from kubextend.profile.per_node import FilterNodes, ScoreNodes, filter_nodes_of, score_nodes_of

__all__ = [
    "FilterOutcome",
    "PreFilterOutcome",
    "Profile",
    "Profiles",
    "post_filtered",
    "pre_filtered",
]

_NODE_SCORE = (0, 100)
# NormalizeScore brings any of these into that range.
_ANY_SCORE = (-(2**63), 2**63 - 1)

# Each costs an attempt. In a cluster where room is kept on more nodes than that, and for a plugin
# that looks at all of them, the room on the others is left to those for whom it is kept.
_MOST_ALONE: Final = 16
_NOMINATED: Final = Status.unschedulable("node(s) are nominated for pods that come first")

_PRE_FILTER_CODES = frozenset(
    {Code.SUCCESS, Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
)

LeftOut = Callable[[PluginError], object]
"""Told of the failure of a plugin that is left out for it."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """What the filters of a profile made of the nodes.

    Attributes:
        kept: nodes that no plugin rejected.
        rejections: the others; each node in exactly one entry.
    """

    kept: core.Mask
    rejections: list[Rejection]


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What the PreFilter plugins made of the pod.

    Attributes:
        result: the nodes that are left to look at.
        status: success, or the rejection that every node gets.
        narrowed_by: names of the plugins that left less than all nodes.
        some: the verdict on these nodes alone is asked for; None: on all.
    """

    result: PreFilterResult
    status: Status
    narrowed_by: tuple[str, ...] = ()
    some: core.Mask | None = None


def _no_pods() -> core.PodSnapshot | None:
    return None


@dataclass(frozen=True)
class Profile:
    """The plugins that pods of one scheduler name go through.

    Attributes:
        scheduler_name: ``spec.schedulerName`` of its pods.
        filter: in order, of either grain.
        score: in order, of either grain, each with its weight.
        binding: those of the binding cycle.
        queue_sort: orders the queue; none or one.
        pre_enqueue: hold pods back in the queue, in order.
        pods: the pods as they are now, for views of single nodes; None where they are not watched.
        counts_pods: a plugin looks at the pods on nodes, so what filter said may no longer hold
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

    @cached_property
    def plugin_names(self) -> frozenset[str]:
        """The names of all its plugins."""
        return frozenset(plugin.name for plugin in self.plugins)

    @cached_property
    def filters_in_python(self) -> bool:
        """Whether filtering runs code of the interpreter, which may take any time."""
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "filter_nodes", "filter") for plugin in self.filter)
            and all(runs_in_core(plugin, "post_filter") for plugin in self.post_filter)
        )

    @cached_property
    def scores_in_python(self) -> bool:
        """The same of scoring, and of what prepares it where the attempt of filter is lost."""
        methods = ("score_nodes", "score", "normalize_score")
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "pre_score") for plugin in self.pre_score)
            and all(runs_in_core(plugin, *methods) for plugin, _ in self.score)
        )

    @property
    def binds_with_plugins(self) -> bool:
        """Whether a plugin has a part in binding, be it a filter that looks once more."""
        return bool(self.binding) or self.counts_pods

    @cached_property
    def needs_pods(self) -> bool:
        """Whether any of its plugins looks at pods."""
        return self.counts_pods or any(
            getattr(plugin, "needs_pods", False) for plugin in self.plugins
        )

    @property
    def plugins_in_python(self) -> bool:
        """Whether any of its plugins runs code of the interpreter."""
        return self.filters_in_python or self.scores_in_python or bool(self.binding)

    @property
    def rejects(self) -> bool:
        """Whether any of its plugins can reject a node."""
        return bool(self.pre_filter or self.filter)

    @property
    def plugins(self) -> list[Plugin]:
        """Each of its plugins once."""
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
    ) -> FilterOutcome:
        """PreFilter and Filter; that no node is left is for the caller to tell PostFilter.

        Where other pods of at least the pod's priority are nominated to a node, the node has to
        pass with these pods on it too. They may not come after all, so it has to pass both ways.

        Args:
            state: of this attempt.
            pod: the pod.
            nodes: those to look at.
            left_out: told of each plugin that failed and is left out, as its failurePolicy allows;
                None: no plugin may fail, whatever its policy.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go findNodesThatFitPod,
            pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
        """
        outcome = self._judged(state, pod, nodes, nodes.everything(), left_out)
        if not self.counts_pods:
            return outcome
        pods = self.pods() if state.pods_seen is None else state.pods_seen
        nominated = None if pods is None else pods.nominated(pod, nodes)
        if pods is None or nominated is None or not (both := outcome.kept & nominated).any():
            return outcome
        judge_with = partial(self._judged_with_nominated, pods, pod, nodes, left_out=left_out)
        rejections, across_nodes = judge_with(both)
        if across_nodes and both.count() > 1:
            # In kube-scheduler a node is judged with the pods that are nominated to that node.
            alone, rest = _one_by_one(both)
            rejections = [each for one in alone for each in judge_with(one)[0]]
            rejections += [Rejection(rest, _NOMINATED)] if rest.any() else []
        kept = reduce(and_, (~rejection.nodes for rejection in rejections), outcome.kept)
        return FilterOutcome(kept, [*outcome.rejections, *rejections])

    def _judged(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        some: core.Mask,
        left_out: LeftOut | None,
    ) -> FilterOutcome:
        """The verdict on some of the nodes, with the pods as the state has them.

        Raises: PluginError: a plugin failed.
        """
        before = self.run_pre_filter_plugins(state, pod, nodes, left_out)
        if not before.status.is_success:
            return FilterOutcome(nodes.nothing(), [Rejection(some, before.status)])
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
        """Which of some nodes are rejected once the nominated pods are on all of them.

        Also whether a plugin looked at pods of other nodes than the one that it judged. What
        plugins write into the state is lost, as in kube-scheduler, which copies the state.

        Raises: PluginError: a plugin failed.
        """
        state = CycleState()
        state.pods_seen = pods.with_nominated(pod, nodes, some)
        outcome = self._judged(state, pod, nodes, some, left_out)
        return outcome.rejections, state.asked_for_pods

    def run_pre_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        left_out: LeftOut | None = None,
    ) -> PreFilterOutcome:
        """Skip takes a plugin's Filter out of the attempt; what plugins leave is intersected.

        Raises: PluginError: a plugin raised, or answered what it may not.
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
                # Without what PreFilter was to prepare, its Filter cannot judge either.
                left, said = PreFilterResult(), Status.skip()
            if said.code is Code.SKIP:
                skipped.add(plugin.name)
            elif said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                status = said
                break
            elif said.code is Code.UNSCHEDULABLE:
                # The others still run: the last of them that rejects is what counts.
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
        """Every node's verdict: the first plugin that rejects it gives its status.

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
        """In order until one says Success or that nothing will help; what is said is logged.

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
        """Skip takes the plugin's Score out of the attempt.

        Raises: PluginError: it raised, or rejected, which is too late here.
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
        """One plugin's scores after NormalizeScore, not weighted yet.

        Returns: int64, shape ``(len(nodes),)``, 0..100.
        Raises: PluginError: it raised, or left that range.
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
            # What NormalizeScore cannot work on is the fault of Score.
            guarded(plugin, "Score", partial(_checked, scores, nodes, _ANY_SCORE), pod)
            raise

    def _is_left_out(self, error: PluginError, left_out: LeftOut | None) -> bool:
        """Whether the plugin may be left out; then the error is told.

        Raising the error in here would make a circle of it and this frame, in which the request
        stays until the garbage collector comes by.
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
        """These profiles; a later one of the same name replaces an earlier one."""
        return cls({profile.scheduler_name: profile for profile in profiles})

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins of all of them."""
        return [plugin for profile in self.by_scheduler_name.values() for plugin in profile.plugins]

    @property
    def bind_with_plugins(self) -> bool:
        """Whether any profile has a part in binding."""
        return any(profile.binds_with_plugins for profile in self.by_scheduler_name.values())

    def for_pod(self, pod: core.Pod) -> Profile | None:
        """The profile of the pod's schedulerName; None where it is not ours to judge."""
        return self.by_scheduler_name.get(pod.scheduler_name)


def pre_filtered(
    plugin: PreFilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
) -> tuple[PreFilterResult, Status]:
    """What the plugin leaves, and what it said: Success, Skip, or a rejection.

    Raises: PluginError: it raised, or answered what it may not.
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
    """The result, whose names any kind of set may hold.

    Raises: TypeError: it holds something else.
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
    """What the plugin said: Success, or a rejection.

    Raises: PluginError: it raised, or answered what it may not.
    """
    call = partial(plugin.post_filter, state, pod, rejections)
    said = status_of(plugin, "PostFilter", guarded(plugin, "PostFilter", call, pod), pod)
    if said.is_success or said.is_rejected:
        return said
    raise error_of(plugin, "PostFilter", said, pod)


def _nothing_left(plugins: Sequence[str]) -> str:
    """The scheduler's own sentences."""
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def _outside(before: PreFilterOutcome, nodes: core.Nodes, some: core.Mask) -> Rejection:
    """Those of some nodes that PreFilter left out are UnschedulableAndUnresolvable."""
    left = before.result.node_names or frozenset()
    mask = core.Mask([name not in left for name in nodes.names])
    return Rejection(mask & some, Status.unresolvable(_narrowed(before.narrowed_by)))


def _one_by_one(nodes: core.Mask) -> tuple[list[core.Mask], core.Mask]:
    """As many of the nodes as may have an attempt each, and the rest of them together."""
    rows = nodes.indices()
    length = len(nodes)
    alone = [_of_rows([row], length) for row in rows[:_MOST_ALONE]]
    return alone, _of_rows(rows[_MOST_ALONE:], length)


def _of_rows(rows: Sequence[int], length: int) -> core.Mask:
    packed = bytearray(-(-length // 8))
    for row in rows:
        packed[row >> 3] |= 1 << (row & 7)
    return core.Mask.unpack(bytes(packed), length)


def _narrowed(plugins: Sequence[str]) -> str:
    return f"node is filtered out by the prefilter result of {', '.join(plugins)}"


def _rejected_by(  # noqa: PLR0913, PLR0917  a call of the plugin and what is left to reject
    plugin: Plugin,
    filter_nodes: FilterNodes,
    state: CycleState,
    pod: core.Pod,
    nodes: core.Nodes,
    kept: core.Mask,
) -> list[Rejection]:
    """What a plugin newly rejects of the nodes that are still kept; each node in one entry."""
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
    """Raises what is wrong with scores that are no integers, and of which node."""
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        raise wrong_answer(scores, "a sequence of int")
    for name, score in zip(nodes.names, scores, strict=False):
        if not isinstance(score, int):
            close_all(scores)
            raise AtNodeError(name) from wrong_answer(score, "an int")
