"""The names of kube-scheduler's extension points and of its in-tree plugins."""

from typing import Final

__all__ = ["IN_TREE_PLUGINS", "PLUGIN_TYPES", "SCHEDULER_KIND"]

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
}

# Source: kubernetes v1.37 pkg/scheduler/framework/plugins/registry.go, and v1.19 to v1.25
# pkg/scheduler/framework/plugins/names/names.go
_IN_TREE: Final = """
    DefaultBinder DefaultPreemption DeferredPodScheduling DynamicResources GangScheduling
    ImageLocality InterPodAffinity NodeAffinity NodeDeclaredFeatures NodeName NodePorts
    NodeResourcesBalancedAllocation NodeResourcesFit NodeUnschedulable NodeVolumeLimits
    PodGroupPodsCount PodTopologySpread PrioritySort SchedulingGates TaintToleration
    TopologyPlacementGenerator VolumeBinding VolumeRestrictions VolumeZone

    AzureDiskLimits CinderLimits EBSLimits GCEPDLimits NodeLabel NodePreferAvoidPods
    NodeResourcesLeastAllocated NodeResourcesMostAllocated RequestedToCapacityRatio SelectorSpread
    ServiceAffinity
"""
IN_TREE_PLUGINS: Final = frozenset(_IN_TREE.split())
"""The names of all in-tree plugins, those that only v1beta1 to v1beta3 know included."""
