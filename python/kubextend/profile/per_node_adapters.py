"""Lets plugins that filter or score one node per call serve calls for all nodes at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kubextend import core
from kubextend.errors import TruncatedPodError
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
from kubextend.profile.guarded_calls import AtNodeError

__all__ = [
    "FilterNodes",
    "Pods",
    "ScoreNodes",
    "Scored",
    "filter_nodes_of",
    "score_nodes_of",
    "with_pods",
]

_Answer = TypeVar("_Answer")
MIN_NODE_SCORE: Final = 0
_TOO_LARGE: Final = Status.unschedulable("node(s) have a pod that is too large to be judged")
_DETAILS_DIFFER: Final = "details differ by node"
# The core's message for ``node.pods`` on a node without pods.
_PODS_NOT_KNOWN: Final = "pods are not known here"
Pods = Callable[[], core.PodSnapshot | None]
FilterNodes = Callable[[CycleState, core.Pod, core.Nodes, core.Mask], Sequence[Rejection]]
"""A function that filters all nodes in one call and returns rejections. The mask has the nodes that
no earlier plugin rejected; rejections of other nodes do not count."""


class Scored(NamedTuple):
    """The scores of all nodes by one plugin, before NormalizeScore.

    Attributes:
        scores: one score for each node.
    """

    scores: Scores
    unknown: frozenset[int] = frozenset()
    """The indices of nodes that the plugin could not score; each has the lowest score, 0."""

    def normalized(self, normalize: Callable[[Scores], Scores]) -> Scores:
        """Return all scores after NormalizeScore; nodes that the plugin could not score have 0.

        Args:
            normalize: the plugin's NormalizeScore; gets only the scores of nodes that the plugin
                could score.
        """
        if not self.unknown:
            return normalize(self.scores)
        rows = [row for row in range(len(self.scores)) if row not in self.unknown]
        if not rows:
            return self.scores
        said = normalize([self.scores[row] for row in rows])
        if len(said) != len(rows):
            return said
        scores = [MIN_NODE_SCORE] * len(self.scores)
        for row, score in zip(rows, said, strict=True):
            scores[row] = score
        return scores


ScoreNodes = Callable[[CycleState, core.Pod, core.Nodes], Scored]


def with_pods(plugin: Plugin, state: CycleState, nodes: core.Nodes, pods: Pods) -> core.Nodes:
    """Return nodes that show their pods to a plugin with ``needs_pods = True``.

    After the call of the plugin, the caller has to update ``state.asked_for_pods`` by the nodes'
    ``pods_read``: the plugin may have read the pods of any node.

    Args:
        plugin: the plugin; without ``needs_pods = True`` it gets the nodes unchanged.
        state: the CycleState of this attempt; its ``pods_seen`` replace the watched pods.
        nodes: the nodes of the call.
        pods: returns a snapshot of the pods on nodes.
    """
    if not getattr(plugin, "needs_pods", False):
        return nodes
    snapshot = pods() if state.pods_seen is None else state.pods_seen
    return nodes if snapshot is None else nodes.with_pods(snapshot)


def filter_nodes_of(plugin: FilterPlugin | PerNodeFilterPlugin, pods: Pods) -> FilterNodes:
    """Return a function that filters all nodes by the plugin's ``filter_nodes`` or ``filter``.

    As in kube-scheduler, ``filter`` is not called for a node that an earlier plugin rejected.

    Args:
        plugin: the plugin.
        pods: returns a snapshot of the pods on nodes.
    """
    own: Callable[..., Sequence[Rejection]] | None = getattr(plugin, "filter_nodes", None)
    if own is not None:

        def filter_all(
            state: CycleState, pod: core.Pod, nodes: core.Nodes, _kept: core.Mask
        ) -> Sequence[Rejection]:
            shown = with_pods(plugin, state, nodes, pods)
            try:
                return own(state, pod, shown)
            finally:
                state.asked_for_pods |= shown.pods_read

        return filter_all
    per_node: PerNodeFilterPlugin = plugin  # type: ignore[assignment]
    needs_pods = getattr(plugin, "needs_pods", False)

    def now(state: CycleState) -> core.PodSnapshot | None:
        return pods() if state.pods_seen is None else state.pods_seen

    def filter_nodes(
        state: CycleState, pod: core.Pod, nodes: core.Nodes, kept: core.Mask
    ) -> list[Rejection]:
        ask = partial(per_node.filter, state, pod)
        # A map over views costs half of a loop in the core that calls back.
        infos = nodes.infos(now(state) if needs_pods else None)
        rows = range(len(infos)) if kept.count() == len(infos) else kept.indices()
        left = infos if len(rows) == len(infos) else [infos[row] for row in rows]
        said: list[Status | None] = []
        asking = iter(left)
        try:
            said.extend(map(ask, asking))
        except Exception as error:  # noqa: BLE001  raised again, as its cause
            _raise_again(per_node, pod, error, left, asking)
        if len(said) < len(left):
            judged: tuple[list[Status | None], frozenset[int]]
            judged = _judged(per_node, ask, left, _TOO_LARGE)
            said = judged[0]
        if left is infos:
            return _gathered(said, infos)
        statuses: list[Status | None] = [None] * len(infos)
        for row, status in zip(rows, said, strict=True):
            statuses[row] = status
        return _gathered(statuses, infos)

    return filter_nodes


def score_nodes_of(plugin: ScorePlugin | PerNodeScorePlugin, pods: Pods) -> ScoreNodes:
    """Return a function that scores all nodes by the plugin's ``score_nodes`` or ``score``.

    Args:
        plugin: the plugin.
        pods: returns a snapshot of the pods on nodes.
    """
    own: Callable[..., Scores] | None = getattr(plugin, "score_nodes", None)
    if own is not None:

        def score_all(state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scored:
            return Scored(own(state, pod, with_pods(plugin, state, nodes, pods)))

        return score_all
    per_node: PerNodeScorePlugin = plugin  # type: ignore[assignment]
    needs_pods = getattr(plugin, "needs_pods", False)

    def score_nodes(state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scored:
        ask = partial(per_node.score, state, pod)
        seen = pods() if state.pods_seen is None else state.pods_seen
        infos = nodes.infos(seen if needs_pods else None)
        scores: list[int] = []
        asking = iter(infos)
        try:
            scores.extend(map(ask, asking))
        except Exception as error:  # noqa: BLE001  raised again, as its cause
            _raise_again(per_node, pod, error, infos, asking)
        if len(scores) < len(infos):
            return Scored(*_judged(per_node, ask, infos, MIN_NODE_SCORE))
        return Scored(scores)

    return score_nodes


def _raise_again(
    plugin: Plugin,
    pod: core.Pod,
    error: Exception,
    infos: Sequence[core.NodeInfo],
    left: Iterator[core.NodeInfo],
) -> None:
    """Raise the error of a plugin with the name of its node, unless the node is to be skipped.

    Args:
        plugin: the plugin.
        pod: the pod that is scheduled.
        error: what the plugin raised.
        infos: the nodes.
        left: the nodes that the plugin was not called for.

    Raises: AtNodeError: the plugin failed.
    """
    if pod.truncated or not isinstance(error, TruncatedPodError):
        row = len(infos) - len(list(left)) - 1
        raise AtNodeError(infos[row].name) from _cause(plugin, error)


def _judged(
    plugin: Plugin,
    ask: Callable[[core.NodeInfo], _Answer],
    infos: Sequence[core.NodeInfo],
    too_large: _Answer,
) -> tuple[list[_Answer], frozenset[int]]:
    """Call a plugin's method for each node; return the results, and indices of skipped nodes.

    Used where a call for all nodes in one ``map`` ended early, as a StopIteration of the plugin
    ends a ``map`` without an error.

    A node is skipped, with the result ``too_large``, if the plugin reads a field that kubextend
    dropped from a very large pod on the node. An oversized pod therefore affects only its own node.

    Args:
        plugin: the plugin.
        ask: calls the plugin's method for one node.
        infos: the nodes.
        too_large: the result for a node with an oversized pod.

    Raises: AtNodeError: the plugin raised any other error; the AtNodeError has the name of the
        node.
    """
    unknown: set[int] = set()
    answers = []
    for row, node in enumerate(infos):
        try:
            answers.append(ask(node))
        except TruncatedPodError:
            unknown.add(row)
            answers.append(too_large)
        except Exception as error:  # noqa: BLE001  the same
            raise AtNodeError(node.name) from _cause(plugin, error)
    return answers, frozenset(unknown)


def _cause(plugin: Plugin, error: Exception) -> Exception:
    """Return the error that a plugin raised, or a clearer error in its place.

    The clearer error says that the plugin read ``node.pods`` though its class lacks ``needs_pods =
    True``.
    """
    if isinstance(error, RuntimeError) and str(error).startswith(_PODS_NOT_KNOWN):
        return needs_pods_undeclared(plugin.name).with_traceback(error.__traceback__)
    return error


def _gathered(statuses: Sequence[Status | None], infos: Sequence[core.NodeInfo]) -> list[Rejection]:
    """Return one rejection for each different status, in the order of their first nodes.

    Statuses that differ only in their details are one status: each node keeps its own detail.

    Args:
        statuses: the plugin's result for each node; None is a success.
        infos: the nodes.

    Raises: AtNodeError: a result is neither a Status nor None; the AtNodeError has the name of the
        node.
    """
    if statuses.count(None) == len(statuses):
        return []
    # One bit for each node, as Mask packs them.
    bits: dict[Status, bytearray] = {}
    details: dict[Status, dict[int, str]] = {}
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
        if said.detail:
            details.setdefault(said, {})[row] = str(said.detail)
    return [
        _rejection(core.Mask.unpack(bytes(packed), len(statuses)), status, details.get(status, {}))
        for status, packed in bits.items()
        if not status.is_success
    ]


def _rejection(nodes: core.Mask, status: Status, details: Mapping[int, str]) -> Rejection:
    """Return a rejection whose status has a detail only if every node has that detail."""
    said = list(details.values())
    if not said or said.count(said[0]) == nodes.count():
        return Rejection(nodes, status)
    return Rejection(nodes, replace(status, detail=_DETAILS_DIFFER), details=details)
