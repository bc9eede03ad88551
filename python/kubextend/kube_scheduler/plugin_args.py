"""The arguments that kube-scheduler's own plugins take, with the limits that kube-scheduler checks.

Source: kubernetes v1.37 staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go,
pkg/scheduler/apis/config/validation/validation_pluginargs.go
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, JsonValue, model_validator

from kubextend.config.duration import Duration, GoDuration
from kubextend.config.model import QualifiedName
from kubextend.kube_scheduler.file import SchedulerObject

__all__ = ["ARGS"]

_Percentage = Annotated[int, Field(ge=0, le=100)]


class _ShapePoint(SchedulerObject):
    utilization: _Percentage = 0
    score: Annotated[int, Field(ge=0, le=10)] = 0


def _rising(shape: tuple[_ShapePoint, ...]) -> tuple[_ShapePoint, ...]:
    if any(one.utilization >= other.utilization for one, other in pairwise(shape)):
        message = "utilization must rise from point to point"
        raise ValueError(message)
    return shape


def _once(*fields: str) -> AfterValidator:
    """Return a validator of lists, no two objects of which have the same values of some fields."""

    def check(found: tuple[SchedulerObject, ...]) -> tuple[SchedulerObject, ...]:
        keys = {tuple(getattr(each, field) for field in fields) for each in found}
        if len(keys) < len(found):
            message = "must not have two entries for the same"
            raise ValueError(message)
        return found

    return AfterValidator(check)


class _Ratio(SchedulerObject):
    shape: Annotated[tuple[_ShapePoint, ...], Field(min_length=1), AfterValidator(_rising)]


class _Weighted(SchedulerObject):
    name: str = ""
    weight: _Percentage = 0  # 0 means 1


class _Balanced(SchedulerObject):
    name: str = ""
    weight: Literal[0, 1] = 0


class _Strategy(SchedulerObject):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: tuple[_Weighted, ...] = ()
    requested_to_capacity_ratio: _Ratio | None = None

    @model_validator(mode="after")
    def _ratio_by_type(self) -> Self:
        by_ratio = self.type == "RequestedToCapacityRatio"
        if by_ratio is (self.requested_to_capacity_ratio is None):
            message = "requestedToCapacityRatio belongs to the type RequestedToCapacityRatio"
            raise ValueError(message)
        return self


class _Constraint(SchedulerObject):
    max_skew: Annotated[int, Field(ge=1, lt=2**31)]
    topology_key: QualifiedName
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class _DefaultPreemption(SchedulerObject):
    min_candidate_nodes_percentage: _Percentage = 10
    min_candidate_nodes_absolute: Annotated[int, Field(ge=0, lt=2**31)] = 100

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.min_candidate_nodes_percentage + self.min_candidate_nodes_absolute:
            message = "minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0"
            raise ValueError(message)
        return self


class _DynamicResources(SchedulerObject):
    filter_timeout: Annotated[GoDuration, Field(ge=Duration(0))] | None = None
    binding_timeout: Annotated[GoDuration, Field(ge=Duration.parse("1s"))] | None = None


class _InterPodAffinity(SchedulerObject):
    hard_pod_affinity_weight: _Percentage = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _NodeAffinity(SchedulerObject):
    added_affinity: dict[str, JsonValue] | None = None


class _BalancedAllocation(SchedulerObject):
    resources: Annotated[tuple[_Balanced, ...], _once("name")] = ()


class _Fit(SchedulerObject):
    ignored_resources: tuple[QualifiedName, ...] = ()
    ignored_resource_groups: tuple[Annotated[QualifiedName, Field(pattern="^[^/]*$")], ...] = ()
    scoring_strategy: _Strategy | None = None


class _TopologySpread(SchedulerObject):
    default_constraints: Annotated[
        tuple[_Constraint, ...], _once("topology_key", "when_unsatisfiable")
    ] = ()
    defaulting_type: Literal["", "System", "List"] = ""

    @model_validator(mode="after")
    def _of_list(self) -> Self:
        if self.default_constraints and self.defaulting_type != "List":
            message = "defaultConstraints need defaultingType: List"
            raise ValueError(message)
        return self


class _VolumeBinding(SchedulerObject):
    bind_timeout_seconds: Annotated[int, Field(ge=0, lt=2**63)] = 600
    shape: Annotated[tuple[_ShapePoint, ...], AfterValidator(_rising)] = ()


ARGS: Final[Mapping[str, type[BaseModel]]] = {
    "DefaultPreemption": _DefaultPreemption,
    "DynamicResources": _DynamicResources,
    "InterPodAffinity": _InterPodAffinity,
    "NodeAffinity": _NodeAffinity,
    "NodeResourcesBalancedAllocation": _BalancedAllocation,
    "NodeResourcesFit": _Fit,
    "PodTopologySpread": _TopologySpread,
    "VolumeBinding": _VolumeBinding,
}
"""The model of a plugin's arguments, for each plugin that takes any."""
