"""Runs the plugins of a profile in order, with the framework's semantics.

Knows no verb and no bytes: nodes in, verdicts and scores out.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import (
    FilterPlugin,
    PerNodeFilterPlugin,
    PerNodeScorePlugin,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Rejection,
    ScorePlugin,
    Scores,
)
from kubextend.framework.status import Code, Status
from kubextend.profile.binding import BindingPlugins
from kubextend.profile.guard import check_reason, guarded, status_of
from kubextend.profile.per_node import FilterNodes, ScoreNodes, filter_nodes_of, score_nodes_of

__all__ = ["FilterOutcome", "PreFilterOutcome", "Profile", "Profiles"]

_LOGGER = logging.getLogger(__name__)

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100


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
    """

    result: PreFilterResult
    status: Status
    narrowed_by: tuple[str, ...] = ()


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
        pods: the pods as they are now, for views of single nodes; None where they are not watched.
        counts_pods: a plugin looks at the pods on nodes, so what filter said may no longer hold
            when the pod is bound.
    """

    scheduler_name: str
    filter: Sequence[FilterPlugin | PerNodeFilterPlugin] = ()
    score: Sequence[tuple[ScorePlugin | PerNodeScorePlugin, int]] = ()
    pre_filter: Sequence[PreFilterPlugin] = ()
    post_filter: Sequence[PostFilterPlugin] = ()
    pre_score: Sequence[PreScorePlugin] = ()
    binding: BindingPlugins = field(default_factory=BindingPlugins)
    pods: Callable[[], core.PodSnapshot | None] = _no_pods
    counts_pods: bool = False

    @property
    def rejects(self) -> bool:
        """Whether any of its plugins can reject a node."""
        return bool(self.pre_filter or self.filter)

    @cached_property
    def _filters(self) -> tuple[tuple[Plugin, FilterNodes], ...]:
        return tuple((plugin, filter_nodes_of(plugin, self.pods)) for plugin in self.filter)

    @cached_property
    def _scores(self) -> Mapping[int, ScoreNodes]:
        return {id(plugin): score_nodes_of(plugin, self.pods) for plugin, _ in self.score}

    def find_nodes_that_fit(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> FilterOutcome:
        """PreFilter and Filter; where no node is left, PostFilter is told.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go findNodesThatFitPod
        """
        before = self.run_pre_filter_plugins(state, pod, nodes)
        if not before.status.is_success:
            outcome = FilterOutcome(nodes.nothing(), [Rejection(nodes.everything(), before.status)])
        else:
            outcome = self.run_filter_plugins(state, pod, nodes, before)
        if len(nodes) and not outcome.kept.any():
            self.run_post_filter_plugins(state, pod, outcome.rejections)
        return outcome

    def run_pre_filter_plugins(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
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
            left, said = _pre_filtered(plugin, state, pod, nodes)
            if said.code is Code.SKIP:
                skipped.add(plugin.name)
            elif said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                status = said
                break
            elif said.code is Code.UNSCHEDULABLE:
                # The others still run: the last of them that rejects is what counts.
                status = said
            elif not said.is_success:
                raise PluginError(plugin.name, "PreFilter", said.reason or said.code.name)
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
    ) -> FilterOutcome:
        """Every node's verdict: the first plugin that rejects it gives its status.

        Raises: PluginError: a plugin raised, or answered something else than rejections.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
        """
        kept = nodes.everything()
        rejections: list[Rejection] = []
        if before is not None and before.result.node_names is not None:
            outside = _outside(before, nodes)
            rejections.append(outside)
            kept = kept & ~outside.nodes
        for plugin, filter_nodes in self._filters:
            if not kept.any():
                break
            if plugin.name in state.skip_filter_plugins:
                continue
            rejected_by = partial(_rejected_by, filter_nodes, state, pod, nodes, kept)
            for rejection in guarded(plugin, "Filter", rejected_by):
                rejections.append(rejection)
                kept = kept & ~rejection.nodes
        return FilterOutcome(kept, rejections)

    def run_post_filter_plugins(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        """In order until one says Success or that nothing will help; what is said is logged.

        Raises: PluginError: a plugin failed.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
        """
        reasons: list[str] = []
        for plugin in self.post_filter:
            call = partial(plugin.post_filter, state, pod, rejections)
            said = status_of(plugin, "PostFilter", guarded(plugin, "PostFilter", call))
            _LOGGER.info(
                "pod %s/%s fits nowhere; %s: %s %s",
                pod.namespace,
                pod.name,
                plugin.name,
                said.reason or said.code.name,
                said.detail,
            )
            if said.is_success or said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return said
            if not said.is_rejected:
                raise PluginError(plugin.name, "PostFilter", said.reason or said.code.name)
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
        said = status_of(plugin, "PreScore", guarded(plugin, "PreScore", call))
        if said.code is Code.SKIP:
            state.skip_score_plugins |= {plugin.name}
        elif not said.is_success:
            raise PluginError(plugin.name, "PreScore", said.reason or said.code.name)

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
        scores = guarded(plugin, "Score", partial(score_nodes, state, pod, nodes))
        normalize = getattr(plugin, "normalize_score", None)
        if normalize is not None:
            scores = guarded(plugin, "NormalizeScore", partial(normalize, state, pod, scores))
        return guarded(plugin, "NormalizeScore", lambda: _checked(scores, len(nodes)))


@dataclass(frozen=True)
class Profiles:
    """Profiles by scheduler name."""

    by_scheduler_name: Mapping[str, Profile]

    @classmethod
    def of(cls, profiles: Iterable[Profile]) -> "Profiles":
        """These profiles; a later one of the same name replaces an earlier one."""
        return cls({profile.scheduler_name: profile for profile in profiles})

    def for_pod(self, pod: core.Pod) -> Profile | None:
        """The profile of the pod's schedulerName; None where it is not ours to judge."""
        return self.by_scheduler_name.get(pod.scheduler_name)


def _pre_filtered(
    plugin: PreFilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
) -> tuple[PreFilterResult, Status]:
    answer = guarded(plugin, "PreFilter", lambda: plugin.pre_filter(state, pod, nodes))
    if isinstance(answer, PreFilterResult):
        return answer, Status.success()
    if isinstance(answer, tuple):
        result, status = answer
        return result or PreFilterResult(), status_of(plugin, "PreFilter", status)
    return PreFilterResult(), status_of(plugin, "PreFilter", answer)


def _nothing_left(plugins: Sequence[str]) -> str:
    """The scheduler's own sentences."""
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def _outside(before: PreFilterOutcome, nodes: core.Nodes) -> Rejection:
    """Nodes that PreFilter left out are UnschedulableAndUnresolvable."""
    left = before.result.node_names or frozenset()
    mask = core.Mask([name not in left for name in nodes.names])
    return Rejection(mask, Status.unresolvable(_narrowed(before.narrowed_by)))


def _narrowed(plugins: Sequence[str]) -> str:
    return f"node is filtered out by the prefilter result of {', '.join(plugins)}"


def _rejected_by(
    filter_nodes: FilterNodes,
    state: CycleState,
    pod: core.Pod,
    nodes: core.Nodes,
    kept: core.Mask,
) -> list[Rejection]:
    """What a plugin newly rejects of the nodes that are still kept; each node in one entry."""
    rejections = []
    for rejection in filter_nodes(state, pod, nodes):
        if not rejection.status.is_rejected:
            message = f"answered {rejection.status.code.name}: {rejection.status.reason}"
            raise ValueError(message)
        check_reason(rejection.status)
        newly = kept & rejection.nodes
        kept = kept & ~newly
        if newly.any():
            rejections.append(Rejection(newly, rejection.status))
    return rejections


def _checked(scores: Scores, nodes: int) -> Scores:
    checked = core.checked_scores(scores, MIN_NODE_SCORE, MAX_NODE_SCORE)
    if len(checked) != nodes:
        message = f"{len(checked)} scores for {nodes} nodes"
        raise ValueError(message)
    return checked
