"""The names of kube-scheduler's extension points and of its in-tree plugins."""

from typing import Final

__all__ = ["IN_TREE_PLUGINS", "PLUGIN_TYPES"]

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

_OF_V1 = """
    DefaultBinder DefaultPreemption DeferredPodScheduling DynamicResources GangScheduling
    ImageLocality InterPodAffinity NodeAffinity NodeDeclaredFeatures NodeName NodePorts
    NodeResourcesBalancedAllocation NodeResourcesFit NodeUnschedulable NodeVolumeLimits
    PodGroupPodsCount PodTopologySpread PrioritySort SchedulingGates TaintToleration
    TopologyPlacementGenerator VolumeBinding VolumeRestrictions VolumeZone
"""
_OF_THE_BETAS = """
    AzureDiskLimits CinderLimits EBSLimits GCEPDLimits NodeLabel NodePreferAvoidPods
    NodeResourcesLeastAllocated NodeResourcesMostAllocated RequestedToCapacityRatio SelectorSpread
    ServiceAffinity
"""

# Source: kubernetes v1.37 pkg/scheduler/framework/plugins/names/names.go, and the same file of 1.19
# to 1.25 for further names in v1beta1 to v1beta3.
IN_TREE_PLUGINS: Final = frozenset((_OF_V1 + _OF_THE_BETAS).split())
