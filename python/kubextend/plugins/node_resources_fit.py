"""NodeResourcesFit: a node must have room for the pod, and is scored by what is in use.

Source: kubernetes v1.33 pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from kubextend import core
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.plugin import Rejection, in_core
from kubextend.plugins.native import NativeFilter, NativeScore
from kubextend.plugins.resource_args import Resources, ResourceSpec, pairs

__all__ = ["NodeResourcesFit", "NodeResourcesFitArgs"]

_MOST_WEIGHT = 100
_POINTS_OF_A_SCORE = 10


class UtilizationShapePoint(ArgsModel):
    """A point of the line from which RequestedToCapacityRatio reads scores.

    Attributes:
        utilization: the percentage of a resource that is in use, 0..100.
        score: the score at this utilization, 0..10.
    """

    utilization: int = Field(ge=0, le=100)
    score: int = Field(ge=0, le=10)


class RequestedToCapacityRatio(ArgsModel):
    """The arguments of the strategy RequestedToCapacityRatio.

    Attributes:
        shape: the points of the line, each with a higher utilization than the one before.
    """

    shape: tuple[UtilizationShapePoint, ...] = Field(min_length=1, max_length=101)

    @model_validator(mode="after")
    def _is_a_line(self) -> Self:
        at = [point.utilization for point in self.shape]
        if any(left >= right for left, right in pairwise(at)):
            message = "each point of the shape needs a higher utilization than the one before"
            raise ValueError(message)
        return self


class ScoringStrategy(ArgsModel):
    """How nodes are scored.

    Attributes:
        type: ``LeastAllocated`` prefers nodes with much room, ``MostAllocated`` nodes with little
            room, ``RequestedToCapacityRatio`` reads the score of each resource from a line.
        resources: the resources that count, each with a weight of 1..100.
        requested_to_capacity_ratio: the line, for the strategy of this name only.
    """

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: Resources = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _has_a_line_if_it_needs_one(self) -> Self:
        by_line = self.type == "RequestedToCapacityRatio"
        if by_line != (self.requested_to_capacity_ratio is not None):
            message = (
                "requestedToCapacityRatio belongs to the strategy RequestedToCapacityRatio: give "
                "both or neither"
            )
            raise ValueError(message)
        if any(resource.weight > _MOST_WEIGHT for resource in self.resources):
            message = f"the weight of a resource must be at most {_MOST_WEIGHT}"
            raise ValueError(message)
        return self


class NodeResourcesFitArgs(ArgsModel):
    """Arguments of NodeResourcesFit, with the names of kube-scheduler's plugin.

    Attributes:
        scoring_strategy: how nodes are scored.
        ignored_resources: extended resources for which nodes need no room.
        ignored_resource_groups: what comes before the ``/`` in extended resources for which nodes
            need no room.
    """

    scoring_strategy: ScoringStrategy = ScoringStrategy()
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()


class NodeResourcesFit(NativeFilter, NativeScore):
    """Rejects nodes without room for the pod, and scores the others by what is in use.

    The requests of the pods on a node count: of bound pods, and of assumed pods, whose Binding is
    under way. A rejected node gets the code Unschedulable: preemption may help there.
    """

    name = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    needs_pods = True

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        strategy = args.scoring_strategy
        line = strategy.requested_to_capacity_ratio
        points = [] if line is None else line.shape
        self._handle = handle
        self._native = core.NativePlugin.node_resources_fit(
            strategy.type,
            pairs(strategy.resources),
            [(point.utilization, point.score * _POINTS_OF_A_SCORE) for point in points],
            args.ignored_resources,
            args.ignored_resource_groups,
        )

    @in_core
    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        """Return the nodes that lack room, with a Status for each set of lacking resources."""
        return self._rejections(pod, nodes, self._handle.pods(state))

    @in_core
    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> memoryview:
        """Return a score 0..100 for each node, in the order of ``nodes``."""
        return self._native.score_nodes(pod, nodes, self._handle.pods(state))
