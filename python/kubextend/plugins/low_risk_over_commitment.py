"""LowRiskOverCommitment: prefers nodes whose pods hardly use more than they request.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/trimaran/lowriskovercommitment
"""

import math
from functools import lru_cache
from typing import NamedTuple

from pydantic import Field

from kubextend import core
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.plugins.measured import Measured
from kubextend.prometheus import rounded
from kubextend.prometheus.node_load import (
    RESOURCES,
    Load,
    NodeLoad,
    NodeLoadArgs,
    pod_limits,
    pod_requests,
)

__all__ = ["LowRiskOverCommitment", "LowRiskOverCommitmentArgs", "RiskLimitWeights"]

_MAX_NODE_SCORE = 100
# The share of the largest variance that a beta distribution of this mean could have.
_MOST_VARIANCE = 0.99
# A beta distribution with both parameters above this differs from a normal one by less than 0.0005,
# and the continued fraction would take ever more steps.
_NEARLY_NORMAL = 1e5
# Rounding leaves nothing of a beta distribution whose parameters have a larger sum.
_LARGEST_SUM = 1e10
_MOST_STEPS = 1_000
_CONVERGED = 1e-13
# Stands for 0 where the continued fraction divides by a part.
_TINY = 1e-300


class RiskLimitWeights(ArgsModel):
    """How much the limits of pods count in the risk; the measured load counts the rest, to 1.

    Attributes:
        cpu: the weight for CPU.
        memory: the weight for memory.
    """

    cpu: float = Field(default=0.5, ge=0, le=1)
    memory: float = Field(default=0.5, ge=0, le=1)


class LowRiskOverCommitmentArgs(NodeLoadArgs):
    """Arguments of LowRiskOverCommitment: how limits and the measured load make the risk.

    Attributes:
        smoothing_window_size: over how many measurements the load is averaged before; the standard
            deviation counts with the square root of this number.
        risk_limit_weights: how much the limits of pods count.
    """

    smoothing_window_size: int = Field(default=5, gt=0)
    risk_limit_weights: RiskLimitWeights = RiskLimitWeights()


class Committed(NamedTuple):
    """The sum of the requests, and of the limits, of a node's pods for one resource."""

    requests: int = 0
    limits: int = 0


class LowRiskOverCommitment(Measured):
    """Scores nodes by the risk that pods use more than they request.

    The risk of a resource has two parts: how far the pods' limits exceed the node, and how probable
    it is, by the measured load, that more is in use than requested. The score is 100 * (1 - the
    higher risk of CPU and memory). A pod without requests and limits gets 0 on every node.
    """

    name = "LowRiskOverCommitment"
    Args = LowRiskOverCommitmentArgs
    needs_pods = True

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._metric = NodeLoad(args, handle, self.name)
        self._seen: dict[str, tuple[int, tuple[Committed, ...]]] = {}

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return a score 0..100 for each node, lower for a higher risk."""
        wanted = _committed(pod)
        if not any(map(any, wanted)):
            return [0] * len(nodes)
        loads = self._metric.latest()
        there = self._on_nodes(state, nodes)
        capacities = [nodes.allocatable(resource) for resource in RESOURCES]
        weights = self._args.risk_limit_weights
        scores = []
        for at, node in enumerate(nodes.names):
            if not loads.any_of(node):
                scores.append(self._args.fallback_score)
                continue
            risk = 0.0
            for which, resource in enumerate(RESOURCES):
                capacity = capacities[which][at]
                load = loads.of(node, resource)
                by_limits = _limit_risk(there[at][which], wanted[which], capacity)
                by_load = 0.0 if load is None else self._load_risk(load, there[at][which], capacity)
                weight = getattr(weights, resource)
                risk = max(risk, min(weight * by_limits + (1 - weight) * by_load, 1.0))
            scores.append(rounded((1 - risk) * _MAX_NODE_SCORE))
        return scores

    def _on_nodes(self, state: CycleState, nodes: core.Nodes) -> list[list[Committed]]:
        """Return, for each node, what its pods request of each resource, and their limits."""
        pods = self._handle.pods(state)
        known, seen = self._seen, {}
        there = []
        for node in nodes.names:
            sums = [Committed() for _ in RESOURCES]
            for pod in () if pods is None else pods.pods_on(node):
                uid, generation = pod.uid, pod.generation
                kept = known.get(uid)
                if kept is None or kept[0] != generation:
                    kept = (generation, _committed(pod))
                seen[uid] = kept
                sums = [_sum(one, other) for one, other in zip(sums, kept[1], strict=True)]
            there.append(sums)
        self._seen = seen
        return there

    def _load_risk(self, load: Load, there: Committed, capacity: int) -> float:
        """Return how probable it is that more is in use than the pods on the node request."""
        if capacity <= 0:
            return 0.0
        mean, deviation = load.shares(capacity)
        most = math.sqrt(max(mean * (1 - mean), 0.0) * _MOST_VARIANCE)
        deviation = min(deviation * math.sqrt(self._args.smoothing_window_size), most)
        requests = min(there.requests, capacity)
        within = _probability(mean, deviation, min(requests / capacity, 1.0))
        if requests <= there.limits < capacity:
            if there.limits == 0:
                return 0.0
            # What is in use cannot exceed the limits, so the probability is that under them.
            if mean > 0 and deviation > 0:
                below = _probability(mean, deviation, there.limits / capacity)
                within = min(within / below, 1.0) if below > 0 else within
        return 1 - within


def _committed(pod: core.Pod) -> tuple[Committed, ...]:
    return tuple(map(Committed, pod_requests(pod), pod_limits(pod)))


def _sum(one: Committed, other: Committed) -> Committed:
    return Committed(one.requests + other.requests, one.limits + other.limits)


def _limit_risk(there: Committed, wanted: Committed, capacity: int) -> float:
    """Return how much of what limits allow beyond the requests exceeds the node."""
    requests, limits = _sum(there, wanted)
    if limits <= capacity:
        return 0.0
    return (limits - capacity) / (limits - min(requests, capacity))


@lru_cache(maxsize=1 << 16)
def _probability(mean: float, deviation: float, threshold: float) -> float:
    """Return the probability that a beta distribution of this mean stays below a threshold."""
    if mean == 0:
        return 1.0
    if deviation == 0:
        return 1.0 if mean <= threshold else 0.0
    # Written as in the original: where digits cancel out, another order gives another result.
    variance = (deviation * deviation + mean * mean) - mean * mean
    if variance <= 0 or variance >= mean * (1 - mean):
        return 0.0
    total = max(mean * (1 - mean) / variance - 1, math.ulp(0.0))
    a, b = mean * total, (1 - mean) * total
    if min(a, b) > _NEARLY_NORMAL or total > _LARGEST_SUM:
        return 0.5 * math.erfc((mean - threshold) / (deviation * math.sqrt(2)))
    return incomplete_beta(threshold, a, b)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, 0..1, for x in 0..1 and a, b above 0.

    The sum of a and b is at most 1e10.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # By rounding, both x and 1 - x may be above their bounds: only one of them is turned round.
    if turned := x > (a + 1) / (a + b + 2):
        x, a, b = 1 - x, b, a
    below = _below(x, a, b)
    return 1 - below if turned else below


def _below(x: float, a: float, b: float) -> float:
    """Return the incomplete beta function where its continued fraction converges fast."""
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    return min(max(front * _continued_fraction(x, a, b), 0.0), 1.0)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    above = 1.0
    value = below = 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    for step in range(2, _MOST_STEPS):
        m = step // 2
        if step % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / ((1 + part * below) or _TINY)
        above = (1 + part / above) or _TINY
        value *= above * below
        if abs(above * below - 1) < _CONVERGED:
            break
    return value
