"""The plugins that are part of kubextend: a module for each, and the mapping IN_TREE by name."""

from typing import Final

from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.plugins.capacity_scheduling import CapacityScheduling
from kubextend.plugins.coscheduling import Coscheduling
from kubextend.plugins.high_comm_pod_filter import HighCommPodFilter
from kubextend.plugins.label_match import LabelMatch
from kubextend.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from kubextend.plugins.low_risk_over_commitment import LowRiskOverCommitment
from kubextend.plugins.network_overhead import NetworkOverhead
from kubextend.plugins.network_traffic import NetworkTraffic
from kubextend.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from kubextend.plugins.node_resources_allocatable import NodeResourcesAllocatable
from kubextend.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kubextend.plugins.node_resources_fit import NodeResourcesFit
from kubextend.plugins.pod_group_coscheduling import PodGroupCoscheduling
from kubextend.plugins.pod_state import PodState
from kubextend.plugins.priority_sort import PrioritySort
from kubextend.plugins.prometheus_score import PrometheusScore
from kubextend.plugins.qos_sort import QOSSort
from kubextend.plugins.rdma_aware import RdmaAware
from kubextend.plugins.sy_sched import SySched
from kubextend.plugins.target_load_packing import TargetLoadPacking

__all__ = [
    "IN_TREE",
    "CapacityScheduling",
    "Coscheduling",
    "HighCommPodFilter",
    "LabelMatch",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "NetworkOverhead",
    "NetworkTraffic",
    "NodeResourceTopologyMatch",
    "NodeResourcesAllocatable",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodGroupCoscheduling",
    "PodState",
    "PrioritySort",
    "PrometheusScore",
    "QOSSort",
    "RdmaAware",
    "SySched",
    "TargetLoadPacking",
]

IN_TREE: Final = {
    plugin.name: RegisteredPlugin(plugin.name, plugin)
    for plugin in (
        CapacityScheduling,
        Coscheduling,
        HighCommPodFilter,
        LabelMatch,
        LoadVariationRiskBalancing,
        LowRiskOverCommitment,
        NetworkOverhead,
        NetworkTraffic,
        NodeResourceTopologyMatch,
        NodeResourcesAllocatable,
        NodeResourcesBalancedAllocation,
        NodeResourcesFit,
        PodGroupCoscheduling,
        PodState,
        PrioritySort,
        PrometheusScore,
        QOSSort,
        RdmaAware,
        SySched,
        TargetLoadPacking,
    )
}
