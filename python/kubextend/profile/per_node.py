"""The per-node grain of filter and score, brought to the form that takes all nodes at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import needs_pods_undeclared
from kubextend.framework.plugin import (
    FilterPlugin,
    PerNodeFilterPlugin,
    PerNodeScorePlugin,
    Plugin,
    Rejection,
    ScorePlugin,
    Scores,
)
from kubextend.framework.status import Status
from kubextend.framework.wrong_answer import close_all, wrong_answer
from kubextend.profile.guard import AtNodeError

__all__ = ["FilterNodes", "ScoreNodes", "filter_nodes_of", "score_nodes_of"]

_Answer = TypeVar("_Answer")
# What the core says of ``node.pods`` on a node that was not given any.
_PODS_NOT_KNOWN: Final = "pods are not known here"
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
    needs_pods = getattr(plugin, "needs_pods", False)

    def now(state: CycleState) -> core.PodSnapshot | None:
        return pods() if state.pods_seen is None else state.pods_seen

    def filter_nodes(
        state: CycleState, pod: core.Pod, nodes: core.Nodes, kept: core.Mask
    ) -> list[Rejection]:
        judge = per_node.filter
        # A comprehension over views costs half of what a loop in the core that calls back does.
        infos = nodes.infos(now(state) if needs_pods else None)
        if kept.count() == len(infos):
            return _gathered(_each(per_node, partial(judge, state, pod), infos), infos)
        rows = kept.indices()
        said = _each(per_node, partial(judge, state, pod), [infos[row] for row in rows])
        statuses: list[Status | None] = [None] * len(infos)
        for row, status in zip(rows, said, strict=True):
            statuses[row] = status
        return _gathered(statuses, infos)

    return filter_nodes


def score_nodes_of(plugin: ScorePlugin | PerNodeScorePlugin, pods: Pods) -> ScoreNodes:
    """Its own ``score_nodes``, or a loop over its ``score``."""
    own: ScoreNodes | None = getattr(plugin, "score_nodes", None)
    if own is not None:
        return own
    per_node: PerNodeScorePlugin = plugin  # type: ignore[assignment]
    needs_pods = getattr(plugin, "needs_pods", False)

    def score_nodes(state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        judge = per_node.score
        return _each(
            per_node, partial(judge, state, pod), nodes.infos(pods() if needs_pods else None)
        )

    return score_nodes


def _each(
    plugin: Plugin, ask: Callable[[core.NodeInfo], _Answer], infos: Sequence[core.NodeInfo]
) -> list[_Answer]:
    """What is answered of each node, in order.

    Raises: AtNodeError: the plugin raised, and of which node.
    """
    left = iter(infos)
    try:
        return [ask(node) for node in left]
    except Exception as error:
        row = len(infos) - len(list(left)) - 1
        if isinstance(error, RuntimeError) and str(error).startswith(_PODS_NOT_KNOWN):
            error = needs_pods_undeclared(plugin.name)
        raise AtNodeError(infos[row].name) from error


def _gathered(statuses: Sequence[Status | None], infos: Sequence[core.NodeInfo]) -> list[Rejection]:
    """Equal statuses together, in the order in which they came up first.

    Raises: AtNodeError: something else than a Status or None was answered, and of which node.
    """
    if statuses.count(None) == len(statuses):
        return []
    # One bit for each node, as Mask packs them.
    bits: dict[Status, bytearray] = {}
    for row, said in enumerate(statuses):
        if said is None:
            continue
        if not isinstance(said, Status):
            close_all(statuses[row + 1 :])
            raise AtNodeError(infos[row].name) from wrong_answer(said, "a Status or None")
        packed = bits.get(said)
        if packed is None:
            packed = bits[said] = bytearray(-(-len(statuses) // 8))
        packed[row >> 3] |= 1 << (row & 7)
    return [
        Rejection(core.Mask.unpack(bytes(packed), len(statuses)), status)
        for status, packed in bits.items()
        if not status.is_success
    ]
