"""The names of kube-scheduler's extension points and of its in-tree plugins."""

from typing import Final

__all__ = ["EXTENDED_POINTS", "IN_TREE_PLUGINS", "PLUGIN_TYPES", "SCHEDULER_KIND"]

SCHEDULER_KIND: Final = "KubeSchedulerConfiguration"

# Go interface by extension point, in the order in which kube-scheduler checks the points, so that
# kubextend and kube-scheduler report the same error first.
# Source: kubernetes v1.37 pkg/scheduler/framework/runtime/framework.go getExtensionPoints
PLUGIN_TYPES: Final = {
    "preFilter": "PreFilterPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "reserve": "ReservePlugin",
    "preScore": "PreScorePlugin",
    "score": "ScorePlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "permit": "PermitPlugin",
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
    "podGroupPostFilter": "PodGroupPostFilterPlugin",
}

# Source: kubernetes v1.37 pkg/scheduler/framework/plugins: registry.go, and the methods of each
_EXTENDED = """
    DefaultBinder bind
    DefaultPreemption preEnqueue postFilter podGroupPostFilter
    DeferredPodScheduling preFilter filter permit
    DynamicResources preEnqueue preFilter filter postFilter podGroupPostFilter score reserve preBind
    GangScheduling preEnqueue permit
    ImageLocality score
    InterPodAffinity preFilter filter preScore score
    NodeAffinity preFilter filter preScore score
    NodeDeclaredFeatures preFilter filter
    NodeName preFilter filter
    NodePorts preFilter filter
    NodeResourcesBalancedAllocation preScore score
    NodeResourcesFit preFilter filter preScore score placementScore
    NodeUnschedulable preFilter filter
    NodeVolumeLimits preFilter filter
    PodGroupPodsCount placementScore
    PodTopologySpread preFilter filter preScore score
    PrioritySort queueSort
    SchedulingGates preEnqueue
    TaintToleration preFilter filter preScore score
    TopologyPlacementGenerator placementGenerate
    VolumeBinding preFilter filter preScore score reserve preBind
    VolumeRestrictions preFilter filter
    VolumeZone preFilter filter
"""
EXTENDED_POINTS: Final = {
    name: frozenset(points) for name, *points in map(str.split, _EXTENDED.split("\n")[1:-1])
}
"""The extension points of each in-tree plugin of the newest kube-scheduler."""

_OF_THE_BETAS = """
    AzureDiskLimits CinderLimits EBSLimits GCEPDLimits NodeLabel NodePreferAvoidPods
    NodeResourcesLeastAllocated NodeResourcesMostAllocated RequestedToCapacityRatio SelectorSpread
    ServiceAffinity
"""

# Source: kubernetes v1.19 to v1.25 pkg/scheduler/framework/plugins/names/names.go
IN_TREE_PLUGINS: Final = EXTENDED_POINTS.keys() | frozenset(_OF_THE_BETAS.split())
"""The names of all in-tree plugins, those that only v1beta1 to v1beta3 know included."""
