"""Runs the plugins of a profile in order, with the framework's semantics.

Knows no verb and no bytes: nodes in, verdicts and scores out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import (
    FilterPlugin,
    NormalizeScorePlugin,
    Plugin,
    Rejection,
    ScorePlugin,
    Scores,
)

__all__ = ["FilterOutcome", "Profile", "Profiles"]

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100

_Answer = TypeVar("_Answer")


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
class Profile:
    """The plugins that pods of one scheduler name go through.

    Attributes:
        scheduler_name: ``spec.schedulerName`` of its pods.
        filter: in order.
        score: in order, each with its weight.
    """

    scheduler_name: str
    filter: Sequence[FilterPlugin] = ()
    score: Sequence[tuple[ScorePlugin, int]] = ()

    def run_filter_plugins(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> FilterOutcome:
        """Every node's verdict: the first plugin that rejects it gives its status.

        Raises: PluginError: a plugin raised, or answered something else than rejections.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
        """
        kept = nodes.everything()
        rejections: list[Rejection] = []
        for plugin in self.filter:
            for rejection in _rejections(plugin, state, pod, nodes):
                rejected = kept & rejection.nodes
                if rejected.any():
                    rejections.append(Rejection(rejected, rejection.status))
                    kept = kept & ~rejected
            if not kept.any():
                break
        return FilterOutcome(kept, rejections)

    def run_score_plugin(
        self, plugin: ScorePlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Scores:
        """One plugin's scores after NormalizeScore, not weighted yet.

        Returns: int64, shape ``(len(nodes),)``, 0..100.
        Raises: PluginError: it raised, or left that range.
        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go RunScorePlugins
        """
        scores = _called(plugin, "Score", lambda: plugin.score_nodes(state, pod, nodes))
        if isinstance(plugin, NormalizeScorePlugin):
            normalize = plugin.normalize_score
            scores = _called(plugin, "NormalizeScore", lambda: normalize(state, pod, scores))
        _check_scores(plugin, scores, len(nodes))
        return scores


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


def _called(plugin: Plugin, point: str, call: Callable[[], _Answer]) -> _Answer:
    try:
        return call()
    except Exception as error:
        raise PluginError(plugin.name, point, f"{type(error).__name__}: {error}") from error


def _rejections(
    plugin: FilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes
) -> Sequence[Rejection]:
    rejections = _called(plugin, "Filter", lambda: plugin.filter_nodes(state, pod, nodes))
    for rejection in rejections:
        if not rejection.status.is_rejected:
            message = f"a rejection with status {rejection.status.code.name}"
            raise PluginError(plugin.name, "Filter", message)
    return rejections


def _check_scores(plugin: ScorePlugin, scores: Scores, nodes: int) -> None:
    if len(scores) != nodes:
        message = f"{len(scores)} scores for {nodes} nodes"
        raise PluginError(plugin.name, "Score", message)
    if nodes == 0:
        return
    for score in (min(scores), max(scores)):
        if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
            # The sentence is the scheduler's own.
            message = (
                f"plugin {plugin.name!r} returns an invalid score {score}, it should in the range "
                f"of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )
            raise PluginError(plugin.name, "NormalizeScore", message)
