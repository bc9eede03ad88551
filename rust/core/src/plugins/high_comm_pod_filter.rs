//! The plugin `HighCommPodFilter`: pods that communicate much need nodes with RDMA.

use super::{Filter, built_in, reject_unless};
use crate::labels::{LabelLookup, Selector};
use crate::node::{Nodes, Rejection};
use crate::pod::{Pod, PodSnapshot};

const POD_LABEL: &str = "high-comm";
const REASON: &str = "Node does not support RDMA";

/// A pod with the label key `high-comm`, whatever its value, needs a node labelled
/// `node.kubernetes.io/rdma-enabled=true`; other pods pass.
#[derive(Debug, Clone)]
pub struct HighCommPodFilter {
    rdma_enabled: Selector,
}

impl Default for HighCommPodFilter {
    fn default() -> Self {
        Self {
            rdma_enabled: built_in("node.kubernetes.io/rdma-enabled=true"),
        }
    }
}

impl Filter for HighCommPodFilter {
    fn filter(&self, pod: &Pod, nodes: &Nodes, _: &PodSnapshot) -> Vec<Rejection> {
        if pod.label_lookup().value(POD_LABEL).is_none() {
            return Vec::new();
        }
        Vec::from_iter(reject_unless(&self.rdma_enabled, REASON, nodes))
    }
}
