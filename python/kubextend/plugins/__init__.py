"""The plugins that are part of kubextend: a module for each, and the mapping IN_TREE by name."""

from typing import Final

from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.plugins.coscheduling import Coscheduling
from kubextend.plugins.high_comm_pod_filter import HighCommPodFilter
from kubextend.plugins.label_match import LabelMatch
from kubextend.plugins.network_traffic import NetworkTraffic
from kubextend.plugins.priority_sort import PrioritySort
from kubextend.plugins.prometheus_score import PrometheusScore
from kubextend.plugins.qos_sort import QOSSort
from kubextend.plugins.rdma_aware import RdmaAware
from kubextend.plugins.target_load_packing import TargetLoadPacking

__all__ = [
    "IN_TREE",
    "Coscheduling",
    "HighCommPodFilter",
    "LabelMatch",
    "NetworkTraffic",
    "PrioritySort",
    "PrometheusScore",
    "QOSSort",
    "RdmaAware",
    "TargetLoadPacking",
]

IN_TREE: Final = {
    plugin.name: RegisteredPlugin(plugin.name, plugin)
    for plugin in (
        Coscheduling,
        HighCommPodFilter,
        LabelMatch,
        NetworkTraffic,
        PrioritySort,
        PrometheusScore,
        QOSSort,
        RdmaAware,
        TargetLoadPacking,
    )
}
