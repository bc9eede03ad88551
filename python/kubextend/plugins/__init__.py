"""The plugins that come with kubextend, one file each and one line here."""

from kubextend.framework.registry import Registry
from kubextend.plugins.high_comm_pod_filter import HighCommPodFilter
from kubextend.plugins.label_match import LabelMatch
from kubextend.plugins.rdma_aware import RdmaAware

__all__ = ["IN_TREE", "HighCommPodFilter", "LabelMatch", "RdmaAware"]

IN_TREE = Registry(
    [
        HighCommPodFilter,
        LabelMatch,
        RdmaAware,
    ]
)
