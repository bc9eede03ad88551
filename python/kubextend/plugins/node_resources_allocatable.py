"""NodeResourcesAllocatable: prefers nodes with the least, or the most, allocatable resources.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/noderesources/allocatable.go
"""

from typing import Literal

from kubextend import core
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Scores
from kubextend.plugins.resource_args import Resources, ResourceSpec, pairs
from kubextend.plugins.stretched_scores import stretched

__all__ = ["NodeResourcesAllocatable", "NodeResourcesAllocatableArgs"]


class NodeResourcesAllocatableArgs(ArgsModel):
    """Arguments of NodeResourcesAllocatable: the resources that count, and which nodes are best.

    Attributes:
        mode: ``Least`` prefers nodes with few resources, ``Most`` nodes with many.
        resources: the resources that count, with weights; cpu counts in milli-CPUs and others in
            units, so by default a milli-CPU counts as much as 1 MiB of memory.
    """

    mode: Literal["Least", "Most"] = "Least"
    resources: Resources = (ResourceSpec(name="memory"), ResourceSpec(name="cpu", weight=1 << 20))


class NodeResourcesAllocatable:
    """Scores nodes by the weighted mean of their allocatable resources, whatever pods request."""

    name = "NodeResourcesAllocatable"
    Args = NodeResourcesAllocatableArgs

    def __init__(self, args: NodeResourcesAllocatableArgs) -> None:
        self._sign = -1 if args.mode == "Least" else 1
        self._resources = pairs(args.resources)
        self._weights = sum(weight for _, weight in self._resources)

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return the weighted mean of each node's allocatable resources; negative for ``Least``."""
        del state, pod
        sums = [0] * len(nodes)
        for resource, weight in self._resources:
            amounts = nodes.allocatable(resource)
            sums = [total + amount * weight for total, amount in zip(sums, amounts, strict=True)]
        return [self._sign * (total // self._weights) for total in sums]

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return the scores stretched to 0..100."""
        del state, pod
        return stretched(scores)
