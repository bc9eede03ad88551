"""LoadVariationRiskBalancing: prefers nodes whose measured load is low and varies little.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/trimaran/loadvariationriskbalancing
"""

import math

from pydantic import Field

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.plugins.measured import Measured
from kubextend.prometheus import rounded
from kubextend.prometheus.node_load import RESOURCES, Load, NodeLoad, NodeLoadArgs, pod_requests

__all__ = ["LoadVariationRiskBalancing", "LoadVariationRiskBalancingArgs"]

_MAX_NODE_SCORE = 100.0


class LoadVariationRiskBalancingArgs(NodeLoadArgs):
    """Arguments of LoadVariationRiskBalancing: how much the variation of the load counts.

    Attributes:
        safe_variance_margin: the factor of the standard deviation in the risk.
        safe_variance_sensitivity: the risk has this root of the standard deviation; below 1 small
            deviations count less, above 1 more.
    """

    safe_variance_margin: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    safe_variance_sensitivity: float = Field(default=1.0, ge=0, allow_inf_nan=False)


class LoadVariationRiskBalancing(Measured):
    """Scores nodes by the risk that the load of CPU or memory becomes high.

    The risk of a resource is half of the sum of two shares of the node's allocatable amount: the
    average load with the pod there, and the standard deviation of the load. The score is 100 *
    (1 - the higher risk of the two resources).
    """

    name = "LoadVariationRiskBalancing"
    Args = LoadVariationRiskBalancingArgs

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        self._args = args
        self._metric = NodeLoad(args, handle, self.name)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return a score 0..100 for each node, lower for a higher risk."""
        del state
        loads = self._metric.latest()
        wanted = pod_requests(pod)
        capacities = [nodes.allocatable(resource) for resource in RESOURCES]
        scores = []
        for at, node in enumerate(nodes.names):
            found = [
                self._score(load, request, capacity[at])
                for resource, request, capacity in zip(RESOURCES, wanted, capacities, strict=True)
                if (load := loads.of(node, resource)) is not None
            ]
            scores.append(rounded(min(found)) if found else self._args.fallback_score)
        return scores

    def _score(self, load: Load, request: int, capacity: int) -> float:
        if capacity <= 0:
            return 0.0
        average, deviation = load.shares(capacity, request)
        sensitivity = self._args.safe_variance_sensitivity
        root = 1 / sensitivity if sensitivity else math.inf
        risk = (average + min(math.pow(deviation, root) * self._args.safe_variance_margin, 1.0)) / 2
        return (1 - risk) * _MAX_NODE_SCORE
