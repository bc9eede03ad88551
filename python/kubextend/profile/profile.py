"""Runs a profile's plugins at PreFilter, Filter, PostFilter, PreScore and Score.

The order of the plugins and the meaning of plugins' results are those of kube-scheduler's
framework.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_, or_
from typing import Any, Final, NamedTuple, Self

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
from kubextend.profile.binding_cycle import BindingPlugins
from kubextend.profile.guarded_calls import (
    AtNodeError,
    about,
    error_of,
    guarded,
    status_of,
    take_note,
)
from kubextend.profile.per_node_adapters import (
    FilterNodes,
    Pods,
    ScoreNodes,
    filter_nodes_of,
    score_nodes_of,
    with_pods,
)

__all__ = [
    "FilterOutcome",
    "PluginScores",
    "PreFilterOutcome",
    "Profile",
    "Profiles",
    "post_filtered",
    "pre_filtered",
]

_NODE_SCORE = (0, 100)
# NormalizeScore brings any of these scores into 0..100.
_ANY_SCORE = (-(2**63), 2**63 - 1)

# How many nodes are filtered one by one with their nominated pods; each costs a run of the filters.
_MOST_ALONE: Final = 16

_PRE_FILTER_CODES = frozenset(
    {Code.SUCCESS, Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
)

LeftOut = Callable[[PluginError], object]
"""A callback for the failure of a plugin without which the run goes on: failurePolicy Ignore."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """The result of a profile's PreFilter and Filter plugins for the nodes of a request.

    Attributes:
        kept: the nodes that no plugin rejected.
        rejections: the rejected nodes, each in exactly one entry.
    """

    kept: core.Mask
    rejections: list[Rejection]

    def passing(self, nodes: core.Nodes) -> core.Mask:
        """Return the nodes that no plugin rejected, without nodes of which kubextend has no data.

        A plugin sees a node without data as a node without labels, so the plugin's result for that
        node means nothing.

        Args:
            nodes: the nodes of the request.
        """
        return self.kept & nodes.known


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """The joint result of a profile's PreFilter plugins for a pod.

    Attributes:
        result: the nodes that Filter has to look at.
        status: success, or the rejection of the pod on every node.
        narrowed_by: names of the plugins that limited the nodes to a set.
        some: the nodes that the caller wants filtered; None: all nodes.
        rejected_by: the name of the plugin that gave ``status``; "" if ``status`` is a success.
    """

    result: PreFilterResult
    status: Status
    narrowed_by: tuple[str, ...] = ()
    some: core.Mask | None = None
    rejected_by: str = ""


_ALL_NODES: Final = PreFilterOutcome(PreFilterResult(), Status.success())


class PluginScores(NamedTuple):
    """The scores of one plugin for the nodes of a request.

    Attributes:
        plugin: the name of the plugin.
        weight: the weight of the plugin in the profile.
        scores: int64, shape ``(len(nodes),)``, each 0 to 100.
        raw: the scores before NormalizeScore.
    """

    plugin: str
    weight: int
    scores: Scores
    raw: Scores


def _no_pods() -> core.PodSnapshot | None:
    return None


@dataclass(frozen=True)
class Profile:
    """The plugins for the pods with one ``spec.schedulerName``, and the calls of these plugins.

    Attributes:
        scheduler_name: ``spec.schedulerName`` of the pods.
        filter: the Filter plugins in order, for one node or for all nodes a call.
        score: the Score plugins in order, for one node or for all nodes a call, with their weights.
        pre_filter: the PreFilter plugins in order.
        post_filter: the PostFilter plugins in order.
        pre_score: the PreScore plugins in order.
        binding: the plugins of the binding cycle.
        queue_sort: the QueueSort plugin; empty or one plugin.
        pre_enqueue: the PreEnqueue plugins in order.
        pods: returns a snapshot of the pods on nodes; None if pods are not watched.
        counts_pods: whether a PreFilter or Filter plugin reads the pods on nodes, so that its
            result may no longer hold when the pod is bound.
        needs_leader: whether plugins keep state that other replicas do not have.
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
    needs_leader: bool = False
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        scheduler_name: str,
        at: Callable[[str], Sequence[Any]],
        weights: Mapping[str, int] | None = None,
    ) -> Self:
        """Make a profile of the plugins at each extension point.

        Args:
            scheduler_name: ``spec.schedulerName`` of the pods.
            at: returns the plugins at the point with this name in the configuration, in order.
            weights: name of a Score plugin -> weight; the default weight is 1.
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
        """Whether a plugin at PreFilter, Filter or PostFilter runs Python code, which may hang."""
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "filter_nodes", "filter") for plugin in self.filter)
            and all(runs_in_core(plugin, "post_filter") for plugin in self.post_filter)
        )

    @cached_property
    def scores_in_python(self) -> bool:
        """Whether a plugin at PreFilter, PreScore or Score runs Python code, which may hang.

        PreFilter is run again before scoring if the CycleState of the pod's filter request is lost.
        """
        methods = ("score_nodes", "score", "normalize_score")
        return not (
            all(runs_in_core(plugin, "pre_filter") for plugin in self.pre_filter)
            and all(runs_in_core(plugin, "pre_score") for plugin in self.pre_score)
            and all(runs_in_core(plugin, *methods) for plugin, _ in self.score)
        )

    @property
    def binds_with_plugins(self) -> bool:
        """Whether the bind verb calls plugins of this profile.

        The bind verb does so if the profile has a plugin of the binding cycle, or a PreFilter or
        Filter plugin that reads the pods on nodes: both run again before the pod is bound.
        """
        return bool(self.binding) or self.counts_pods

    @cached_property
    def needs_pods(self) -> bool:
        """Whether any plugin of the profile reads the pods on nodes."""
        return self.counts_pods or any(
            getattr(plugin, "needs_pods", False) for plugin in self.plugins
        )

    @cached_property
    def informers(self) -> frozenset[str]:
        """The resources that plugins read and whose failurePolicy is not Ignore."""
        return frozenset(
            name
            for plugin in self.plugins
            if plugin.name not in self.ignored
            for name in getattr(plugin, "informers", ())
        )

    @property
    def plugins_in_python(self) -> bool:
        """Whether a verb may run Python code of this profile's plugins."""
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
    ) -> FilterOutcome:
        """Run PreFilter and Filter for a pod, and take nominated pods into account.

        The caller runs PostFilter if no node is left. If other pods of at least the pod's priority
        are nominated to a node, the node must pass the filters both without these pods and with
        them.

        One run filters all nodes with nominated pods, with all nominated pods on their nodes. A
        node that passes this run is kept. If a plugin read the pods of other nodes in this run, up
        to 16 nodes that did not pass are filtered one by one, each with only the pods nominated to
        it.

        The outcome equals kube-scheduler's if no node passes because of pods on other nodes, and if
        every rejected node is filtered alone. A filter that wants other pods near, as affinity and
        topology spread do, may keep a node that kube-scheduler would reject. A node that is not
        filtered alone may be rejected though kube-scheduler would keep it.

        Args:
            state: the CycleState of this attempt.
            pod: the pod.
            nodes: the nodes to filter.
            left_out: called for each plugin that failed and whose failurePolicy is Ignore; the run
                goes on without the plugin. None: any failure is raised.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go findNodesThatFitPod,
        pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
        """
        before = self.run_pre_filter_plugins(state, pod, nodes, left_out)
        outcome = self.run_filter_plugins(state, pod, nodes, before, left_out)
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
            rejections = _judged_alone(rejections, lambda node: judge_with(node)[0])
        kept = reduce(and_, (~rejection.nodes for rejection in rejections), outcome.kept)
        return FilterOutcome(kept, [*outcome.rejections, *rejections])

    def _judged_with_nominated(
        self,
        pods: core.PodSnapshot,
        pod: core.Pod,
        nodes: core.Nodes,
        some: core.Mask,
        *,
        left_out: LeftOut | None,
    ) -> tuple[list[Rejection], bool]:
        """Filter some nodes as if the pods nominated to these nodes were on them.

        The plugins get a new CycleState, which is dropped afterwards; kube-scheduler uses a copy of
        the attempt's.

        Returns: the rejections, and whether a plugin read the pods of all nodes.

        Raises: PluginError: a plugin failed.
        """
        state = CycleState()
        state.pods_seen = pods.with_nominated(pod, nodes, some)
        before = replace(self.run_pre_filter_plugins(state, pod, nodes, left_out), some=some)
        outcome = self.run_filter_plugins(state, pod, nodes, before, left_out)
        return outcome.rejections, state.asked_for_pods

    def run_pre_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        left_out: LeftOut | None = None,
    ) -> PreFilterOutcome:
        """Run the PreFilter plugins; return the nodes that all of them leave, or a rejection.

        The method puts the names of plugins that return Skip into ``state.skip_filter_plugins``. A
        plugin that fails and may be left out counts as if it had returned Skip.

        Raises: PluginError: a plugin raised, or returned a wrong value.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPreFilterPlugins
        """
        if not self.pre_filter:
            return _ALL_NODES
        result = PreFilterResult()
        status = Status.success()
        skipped: set[str] = set()
        narrowed_by: list[str] = []
        rejected_by = ""
        for plugin in self.pre_filter:
            try:
                left, said = pre_filtered(plugin, state, pod, nodes, self.pods)
            except PluginError as error:
                if not self._is_left_out(error, left_out):
                    raise
                # Filter cannot judge without the state that PreFilter prepares.
                left, said = PreFilterResult(), Status.skip()
            if said.code is Code.SKIP:
                skipped.add(plugin.name)
            elif said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                status, rejected_by = said, plugin.name
                break
            elif said.code is Code.UNSCHEDULABLE:
                rejected_by = plugin.name
                # The remaining plugins still run: the last rejection counts.
                status = said
            else:
                if left.node_names is not None:
                    narrowed_by.append(plugin.name)
                result = result.merged(left)
                if result.node_names is not None and not result.node_names:
                    rejected_by = ", ".join(narrowed_by)
                    status = Status.unresolvable(_nothing_left(narrowed_by))
                    break
        state.skip_filter_plugins = frozenset(skipped)
        return PreFilterOutcome(result, status, tuple(narrowed_by), rejected_by=rejected_by)

    def run_filter_plugins(
        self,
        state: CycleState,
        pod: core.Pod,
        nodes: core.Nodes,
        before: PreFilterOutcome | None = None,
        left_out: LeftOut | None = None,
    ) -> FilterOutcome:
        """Run the Filter plugins in order; the first plugin that rejects a node gives the status.

        Nominated pods do not count. Plugins see the pods in ``state.pods_seen``, or the watched
        pods if that is None.

        Args:
            state: the CycleState of this attempt.
            pod: the pod.
            nodes: the nodes of the request.
            before: the result of PreFilter; its rejection rejects all nodes. None: filter all
                nodes.
            left_out: called for each plugin that failed and whose failurePolicy is Ignore; None:
                any failure is raised.

        Raises: PluginError: a plugin raised, or returned a wrong value.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
        """
        kept = nodes.everything() if before is None or before.some is None else before.some
        if before is not None and not before.status.is_success:
            rejection = Rejection(kept, before.status, before.rejected_by)
            return FilterOutcome(nodes.nothing(), [rejection])
        rejections: list[Rejection] = []
        if before is not None and before.result.node_names is not None:
            outside = _outside(before, nodes, kept)
            rejections.append(replace(outside, plugin=", ".join(before.narrowed_by)))
            kept = kept & ~outside.nodes
        for plugin, filter_nodes in self._filters:
            if not kept.any():
                break
            if plugin.name in state.skip_filter_plugins:
                continue
            try:
                with guarded(plugin, "Filter", pod):
                    said = filter_nodes(state, pod, nodes, kept)
                    newly = _checked_rejections(plugin, said, pod, nodes, kept)
            except PluginError as error:
                if not self._is_left_out(error, left_out):
                    raise
                continue
            for rejection in newly:
                take_note(plugin, "Filter", pod, rejection.status, rejection.nodes)
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
        """Run the PostFilter plugins in order, and return the joint status.

        The first plugin that returns Success or UnschedulableAndUnresolvable ends the run with its
        status. Otherwise the status is Unschedulable with the reasons of all plugins. The method
        logs the details of statuses.

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
            take_note(plugin, "PostFilter", pod, said, "which fits nowhere")
            if said.is_success or said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return said
            if said.reason:
                reasons.append(said.reason)
        return Status.unschedulable(", ".join(reasons))

    def run_pre_score_plugin(
        self, plugin: PreScorePlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> None:
        """Run one plugin's PreScore; after Skip, this attempt leaves out the plugin's Score.

        Raises: PluginError: the plugin raised, or returned neither Success nor Skip.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPreScorePlugins
        """
        with guarded(plugin, "PreScore", pod):
            answer = plugin.pre_score(state, pod, with_pods(plugin, state, nodes, self.pods))
        said = status_of(plugin, "PreScore", answer, pod)
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
    ) -> tuple[Scores, Scores]:
        """Run one plugin's Score and NormalizeScore; return the scores without the weight.

        Returns: the scores, int64, shape ``(len(nodes),)``, each 0 to 100; and the plugin's own
        scores before NormalizeScore.

        Raises: PluginError: the plugin raised, or a score is outside of 0 to 100.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunScorePlugins
        """
        score_nodes = self._scores[id(plugin)]
        normalize = getattr(plugin, "normalize_score", None)
        with guarded(plugin, "Score", pod):
            scored = score_nodes(state, pod, nodes)
            if normalize is None:
                scores = _checked(scored.scores, nodes, _NODE_SCORE)
                return scores, scores
        try:
            with guarded(plugin, "NormalizeScore", pod):
                normalized = scored.normalized(partial(normalize, state, pod))
                return _checked(normalized, nodes, _NODE_SCORE), scored.scores
        except PluginError:
            # If the raw scores are invalid too, blame Score and not NormalizeScore.
            with guarded(plugin, "Score", pod):
                _checked(scored.scores, nodes, _ANY_SCORE)
            raise

    def _is_left_out(self, error: PluginError, left_out: LeftOut | None) -> bool:
        """Return whether a failed plugin's failurePolicy is Ignore; if so, call ``left_out``.

        Without ``left_out`` the result is False. Raising the error in this method would make a
        reference cycle of the error and the frame, and keep the request until the garbage
        collector runs.
        """
        if left_out is None or error.plugin not in self.ignored:
            return False
        left_out(error)
        return True


@dataclass(frozen=True, eq=False)
class Profiles:
    """All profiles of the configuration.

    Attributes:
        by_scheduler_name: schedulerName -> profile.
        pass_through: the schedulerNames of pods that kubextend leaves alone.
    """

    by_scheduler_name: Mapping[str, Profile]
    pass_through: Collection[str] = ()

    @classmethod
    def of(cls, profiles: Iterable[Profile], pass_through: Collection[str] = ()) -> "Profiles":
        """Make a Profiles; if two profiles have one scheduler name, the later profile counts."""
        return cls({profile.scheduler_name: profile for profile in profiles}, pass_through)

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins of all profiles, profile by profile."""
        return [plugin for profile in self.by_scheduler_name.values() for plugin in profile.plugins]

    @property
    def filter_in_python(self) -> bool:
        """Whether a plugin of any profile runs Python code at PreFilter, Filter or PostFilter."""
        return any(profile.filters_in_python for profile in self.by_scheduler_name.values())

    @property
    def score_in_python(self) -> bool:
        """Whether a plugin of any profile runs Python code at PreFilter, PreScore or Score."""
        return any(profile.scores_in_python for profile in self.by_scheduler_name.values())

    def for_pod(self, pod: core.Pod | None) -> Profile | None:
        """Return the profile for the pod's schedulerName; None if kubextend has no such profile."""
        return None if pod is None else self.by_scheduler_name.get(pod.scheduler_name)


def pre_filtered(
    plugin: PreFilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes, pods: Pods
) -> tuple[PreFilterResult, Status]:
    """Run one plugin's PreFilter; return a set of nodes, and Success, Skip or a rejection.

    Raises: PluginError: the plugin raised, or returned a wrong value.
    """
    with guarded(plugin, "PreFilter", pod):
        shown = with_pods(plugin, state, nodes, pods)
        try:
            result, said = _result_and_status(plugin.pre_filter(state, pod, shown))
        finally:
            state.asked_for_pods |= shown.pods_read
    status = status_of(plugin, "PreFilter", said, pod)
    if status.code in _PRE_FILTER_CODES:
        take_note(plugin, "PreFilter", pod, status, "all nodes")
        return result, status
    raise error_of(plugin, "PreFilter", status, pod)


def _result_and_status(answer: object) -> tuple[PreFilterResult, object]:
    """Split the answer of a PreFilter plugin into a set of nodes and a Status or None.

    Raises: TypeError: a PreFilter plugin must not give this answer.
    """
    match answer:
        case PreFilterResult():
            return _sound(answer), None
        case Status() | None:
            return PreFilterResult(), answer
        case [PreFilterResult() | None as result, Status() | None as status]:
            return _sound(result or PreFilterResult()), status
    raise wrong_answer(answer, "a Status, a PreFilterResult, both or None")


def _sound(result: PreFilterResult) -> PreFilterResult:
    """Check the node names of a PreFilterResult, and return a copy with them in a frozenset.

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
    """Run one plugin's PostFilter and return its Status: Success, or a rejection.

    Raises: PluginError: the plugin raised, or returned a wrong value.
    """
    with guarded(plugin, "PostFilter", pod):
        answer = plugin.post_filter(state, pod, rejections)
    said = status_of(plugin, "PostFilter", answer, pod)
    if said.is_success or said.is_rejected:
        return said
    raise error_of(plugin, "PostFilter", said, pod)


def _nothing_left(plugins: Sequence[str]) -> str:
    """Return kube-scheduler's reason for a pod for which PreFilter plugins left no node.

    Args:
        plugins: names of the plugins that limited the nodes.
    """
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def _outside(before: PreFilterOutcome, nodes: core.Nodes, some: core.Mask) -> Rejection:
    """Return the rejection of the nodes in ``some`` that the PreFilter plugins ruled out.

    ``before.result`` has the nodes that are left. The status is UnschedulableAndUnresolvable.
    """
    left = before.result.node_names or frozenset()
    mask = core.Mask([name not in left for name in nodes.names])
    return Rejection(mask & some, Status.unresolvable(_narrowed(before.narrowed_by)))


def _judged_alone(
    joint: Sequence[Rejection], judge: Callable[[core.Mask], Sequence[Rejection]]
) -> list[Rejection]:
    """Filter up to 16 of the rejected nodes again, each alone, and return all rejections.

    The result has no rejection of a node that passes alone. A node that is not filtered again keeps
    its rejection.

    Args:
        joint: one or more rejections of a run for many nodes; no node is in two of them.
        judge: filters one node alone, and returns its rejections.
    """
    rejected = reduce(or_, (rejection.nodes for rejection in joint))
    alone = [_only(row, len(rejected)) for row in rejected.indices()[:_MOST_ALONE]]
    left = reduce(and_, (~node for node in alone), rejected)
    return [
        *(rejection for node in alone for rejection in judge(node)),
        *(replace(each, nodes=each.nodes & left) for each in joint if (each.nodes & left).any()),
    ]


def _only(row: int, length: int) -> core.Mask:
    packed = bytearray(-(-length // 8))
    packed[row >> 3] |= 1 << (row & 7)
    return core.Mask.unpack(bytes(packed), length)


def _narrowed(plugins: Sequence[str]) -> str:
    return f"node is filtered out by the prefilter result of {', '.join(plugins)}"


def _checked_rejections(
    plugin: Plugin, said: object, pod: core.Pod, nodes: core.Nodes, kept: core.Mask
) -> list[Rejection]:
    """Check what one Filter plugin returned; return its rejections of the nodes in ``kept``.

    The result has each node in one rejection at most.

    Raises:
        TypeError: the plugin returned a value that is no sequence of rejections.
        PluginError: a status is no rejection.
    """
    rejections = []
    # The check of an abstract class takes as long as all others.
    # A generator would read pods after the call, when nobody notes it.
    if type(said) is not list and (
        not isinstance(said, Iterable) or isinstance(said, str | bytes | Iterator)
    ):
        raise wrong_answer(said, "a sequence of Rejection")
    for rejection in said:
        if not isinstance(rejection, Rejection):
            raise wrong_answer(rejection, "a Rejection")
        if not isinstance(rejection.status, Status):
            raise wrong_answer(rejection.status, "a Status")
        if not isinstance(rejection.nodes, core.Mask):
            raise wrong_answer(rejection.nodes, "a Mask in Rejection.nodes")
        if not isinstance(rejection.details, Mapping):
            raise wrong_answer(rejection.details, "a mapping in Rejection.details")
        if not all(issubclass(kind, str) for kind in {*map(type, rejection.details.values())}):
            raise wrong_answer(rejection.details, "a str for each node in Rejection.details")
        check_status(rejection.status)
        if not rejection.status.is_rejected:
            first = next((nodes.names[row] for row in rejection.nodes.indices()), "")
            raise about(error_of(plugin, "Filter", rejection.status), pod, first)
        newly = kept & rejection.nodes
        kept = kept & ~newly
        if newly.any():
            rejections.append(replace(rejection, nodes=newly, plugin=plugin.name))
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
    """Raise the error for scores that are no integers.

    Raises:
        TypeError: ``scores`` is no sequence.
        AtNodeError: a score is no int; the AtNodeError has the name of the node.
    """
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        raise wrong_answer(scores, "a sequence of int")
    for name, score in zip(nodes.names, scores, strict=False):
        if not isinstance(score, int) or isinstance(score, bool):
            close_all(scores)
            raise AtNodeError(name) from wrong_answer(score, "an int")
