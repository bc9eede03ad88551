"""The per-node grain of filter and score, brought to the form that takes all nodes at once."""

from collections.abc import Callable, Sequence

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import (
    FilterPlugin,
    PerNodeFilterPlugin,
    PerNodeScorePlugin,
    Rejection,
    ScorePlugin,
    Scores,
)
from kubextend.framework.status import Status

__all__ = ["FilterNodes", "ScoreNodes", "filter_nodes_of", "score_nodes_of"]

Pods = Callable[[], core.PodSnapshot | None]
FilterNodes = Callable[[CycleState, core.Pod, core.Nodes, core.Mask], Sequence[Rejection]]
"""Takes also the nodes that are still kept: the verdict on others does not count."""
ScoreNodes = Callable[[CycleState, core.Pod, core.Nodes], Scores]


def filter_nodes_of(plugin: FilterPlugin | PerNodeFilterPlugin, pods: Pods) -> FilterNodes:
    """Its own ``filter_nodes``, or a loop over its ``filter``.

    As in kube-scheduler a node that is rejected already is not brought before ``filter``.
    """
    own: Callable[..., Sequence[Rejection]] | None = getattr(plugin, "filter_nodes", None)
    if own is not None:
        return lambda state, pod, nodes, _kept: own(state, pod, nodes)
    per_node: PerNodeFilterPlugin = plugin  # type: ignore[assignment]

    def filter_nodes(
        state: CycleState, pod: core.Pod, nodes: core.Nodes, kept: core.Mask
    ) -> list[Rejection]:
        judge = per_node.filter
        # A comprehension over views costs half of what a loop in the core that calls back does.
        now = pods() if state.pods_left is None else state.pods_left
        infos = nodes.infos(now)
        if kept.count() == len(infos):
            return _gathered([judge(state, pod, node) for node in infos])
        statuses: list[Status | None] = [None] * len(infos)
        for row in kept.indices():
            statuses[row] = judge(state, pod, infos[row])
        return _gathered(statuses)

    return filter_nodes


def score_nodes_of(plugin: ScorePlugin | PerNodeScorePlugin, pods: Pods) -> ScoreNodes:
    """Its own ``score_nodes``, or a loop over its ``score``."""
    own: ScoreNodes | None = getattr(plugin, "score_nodes", None)
    if own is not None:
        return own
    per_node: PerNodeScorePlugin = plugin  # type: ignore[assignment]

    def score_nodes(state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        judge = per_node.score
        return [judge(state, pod, node) for node in nodes.infos(pods())]

    return score_nodes


def _gathered(statuses: Sequence[Status | None]) -> list[Rejection]:
    """Equal statuses together, in the order in which they came up first."""
    if statuses.count(None) == len(statuses):
        return []
    different = dict.fromkeys(status for status in statuses if status is not None)
    return [
        Rejection(core.Mask([said == status for said in statuses]), status)
        for status in different
        if not status.is_success
    ]
