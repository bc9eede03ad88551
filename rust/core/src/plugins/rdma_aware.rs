//! The plugin `RdmaAware`: only pods labelled `high-comm=true` run, and only on nodes with RDMA.

use super::{Filter, built_in, reject_unless};
use crate::labels::Selector;
use crate::node::{Mask, Nodes, Rejection};
use crate::pod::{Pod, PodSnapshot};

const POD_REASON: &str = "Pod does not have high-comm=true label";
const NODE_REASON: &str = "Node does not support RDMA";

/// Rejects a pod without the label `high-comm=true` on every node; a pod with that label needs a
/// node labelled `rdma=true`.
#[derive(Debug, Clone)]
pub struct RdmaAware {
    high_comm: Selector,
    rdma: Selector,
}

impl Default for RdmaAware {
    fn default() -> Self {
        Self {
            high_comm: built_in("high-comm=true"),
            rdma: built_in("rdma=true"),
        }
    }
}

impl Filter for RdmaAware {
    fn filter(&self, pod: &Pod, nodes: &Nodes, _: &PodSnapshot) -> Vec<Rejection> {
        if self.high_comm.matches(&pod.label_lookup()) {
            return Vec::from_iter(reject_unless(&self.rdma, NODE_REASON, nodes));
        }
        vec![Rejection {
            nodes: Mask::filled(nodes.len(), true),
            reason: POD_REASON.into(),
            unresolvable: true,
        }]
    }
}
