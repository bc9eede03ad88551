"""PrometheusScore: scores nodes by the result of any PromQL query."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.plugins.measured import Measured
from kubextend.prometheus import NodeMetric, PrometheusArgs, rounded

__all__ = ["PrometheusScore", "PrometheusScoreArgs"]

_MAX_NODE_SCORE = 100

Direction: TypeAlias = Literal["higher", "lower"]


class PrometheusScoreArgs(PrometheusArgs):
    """Arguments of PrometheusScore: the query, and how its numbers become scores.

    Attributes:
        query: PromQL that yields one series for each node.
        direction: whether higher or lower numbers are better.
        normalization: ``minmax`` gives 100 to the best node of the request and 0 to the worst, and
            all nodes the fallback score where their numbers are equal; ``none`` uses the numbers as
            scores of 0..100, and ignores numbers outside.
        allow_negative: whether numbers below 0 count; otherwise they are ignored.
    """

    query: str = Field(min_length=1)
    direction: Direction = "higher"
    normalization: Literal["minmax", "none"] = "minmax"
    allow_negative: bool = False


class PrometheusScore(Measured):
    """Scores each node by the number that a PromQL query yields for the node.

    A node without a number, or whose number is ignored, gets the fallback score of the arguments.
    """

    name = "PrometheusScore"
    Args = PrometheusScoreArgs

    def __init__(self, args: PrometheusScoreArgs, handle: Handle) -> None:
        self._args = args
        self._metric = NodeMetric(args, args.query, handle, self.name)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return a score 0..100 for each node, in the order of ``nodes``; the best is highest."""
        del state, pod
        lowest_believed = -math.inf if self._args.allow_negative else 0.0
        values = [
            None if value is None or value < lowest_believed else value
            for value in map(self._metric.by_node().get, nodes.names)
        ]
        fallback = self._args.fallback_score
        if self._args.normalization == "none":
            return _as_they_are(values, self._args.direction, fallback)
        return _between_extremes(values, self._args.direction, fallback)


def _as_they_are(values: Sequence[float | None], direction: Direction, fallback: int) -> list[int]:
    scores = []
    for value in values:
        score = -1 if value is None else rounded(value)
        within = 0 <= score <= _MAX_NODE_SCORE
        good = score if direction == "higher" else _MAX_NODE_SCORE - score
        scores.append(good if within else fallback)
    return scores


def _between_extremes(
    values: Sequence[float | None], direction: Direction, fallback: int
) -> list[int]:
    # Halved, because the difference of two finite numbers may be infinite.
    halves = [value / 2 for value in values if value is not None]
    low, high = min(halves, default=0.0), max(halves, default=0.0)
    if low == high:
        return [fallback] * len(values)
    worst, best = (low, high) if direction == "higher" else (high, low)
    return [
        fallback
        if value is None
        else rounded((value / 2 - worst) / (best - worst) * _MAX_NODE_SCORE)
        for value in values
    ]
