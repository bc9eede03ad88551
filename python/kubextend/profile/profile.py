"""Runs the plugins of a profile in order, with the framework's semantics.

Knows no verb and no bytes: nodes in, verdicts and scores out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
            rejected_by = partial(_rejected_by, plugin, state, pod, nodes, kept)
            for rejection in _guarded(plugin, "Filter", rejected_by):
                rejections.append(rejection)
                kept = kept & ~rejection.nodes
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
        scores = _guarded(plugin, "Score", lambda: plugin.score_nodes(state, pod, nodes))
        if isinstance(plugin, NormalizeScorePlugin):
            normalize = partial(plugin.normalize_score, state, pod, scores)
            scores = _guarded(plugin, "NormalizeScore", normalize)
        return _guarded(plugin, "NormalizeScore", lambda: _checked(scores, len(nodes)))


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


def _guarded(plugin: Plugin, point: str, call: Callable[[], _Answer]) -> _Answer:
    """What the call answers; whatever a plugin raises, a panic or SystemExit too, is its error."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(plugin.name, point, f"{type(error).__name__}: {error}") from error


def _rejected_by(
    plugin: FilterPlugin, state: CycleState, pod: core.Pod, nodes: core.Nodes, kept: core.Mask
) -> list[Rejection]:
    """What a plugin newly rejects of the nodes that are still kept; each node in one entry."""
    rejections = []
    for rejection in plugin.filter_nodes(state, pod, nodes):
        if not rejection.status.is_rejected:
            message = f"a rejection with status {rejection.status.code.name}"
            raise ValueError(message)
        _check_reason(rejection.status.reason)
        newly = kept & rejection.nodes
        kept = kept & ~newly
        if newly.any():
            rejections.append(Rejection(newly, rejection.status))
    return rejections


def _check_reason(reason: str) -> None:
    """Raises what the writer of the answer would raise, while the plugin is still known."""
    if not isinstance(reason, str):
        message = f"a reason that is no text but {type(reason).__name__}"
        raise TypeError(message)
    reason.encode()


def _checked(scores: Scores, nodes: int) -> Scores:
    checked = core.checked_scores(scores, MIN_NODE_SCORE, MAX_NODE_SCORE)
    if len(checked) != nodes:
        message = f"{len(checked)} scores for {nodes} nodes"
        raise ValueError(message)
    return checked
