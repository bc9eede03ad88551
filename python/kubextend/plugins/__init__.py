"""The plugins that come with kubextend, one file each and one line here."""

from kubextend.framework.registry import Registry
from kubextend.plugins.coscheduling import Coscheduling
from kubextend.plugins.high_comm_pod_filter import HighCommPodFilter
from kubextend.plugins.label_match import LabelMatch
from kubextend.plugins.network_traffic import NetworkTraffic
from kubextend.plugins.prometheus_score import PrometheusScore
from kubextend.plugins.rdma_aware import RdmaAware
from kubextend.plugins.target_load_packing import TargetLoadPacking

__all__ = [
    "IN_TREE",
    "Coscheduling",
    "HighCommPodFilter",
    "LabelMatch",
    "NetworkTraffic",
    "PrometheusScore",
    "RdmaAware",
    "TargetLoadPacking",
]

IN_TREE = Registry(
    [
        Coscheduling,
        HighCommPodFilter,
        LabelMatch,
        NetworkTraffic,
        PrometheusScore,
        RdmaAware,
        TargetLoadPacking,
    ]
)
