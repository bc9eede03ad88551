"""The plugins that are part of kubextend: a module for each, and the mapping IN_TREE by name.

The import of a plugin's class puts the plugin into IN_TREE.
"""
# ruff: noqa: F401  IN_TREE reads the names of the imports

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

IN_TREE: Final = {
    plugin.name: RegisteredPlugin(plugin.name, plugin)
    for plugin in tuple(globals().values())
    if getattr(plugin, "__module__", "").startswith(f"{__name__}.")
}
