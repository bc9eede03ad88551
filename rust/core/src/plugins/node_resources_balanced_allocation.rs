//! The plugin `NodeResourcesBalancedAllocation`: prefers nodes whose resources are in equal use.
//!
//! Source: kubernetes v1.33 `plugins/noderesources/balanced_allocation.go`

use super::Score;
use super::resource_use::{Counted, ResourceUse};
use crate::node::Nodes;
use crate::pod::{Pod, PodSnapshot};

/// The plugin `NodeResourcesBalancedAllocation` with the resources that it compares. For a pod
/// that requests none of them the scores mean nothing: kube-scheduler skips the plugin.
#[derive(Debug, Clone)]
pub struct NodeResourcesBalancedAllocation {
    /// The compared resources; the weights have no effect.
    pub resources: Vec<(String, i64)>,
}

impl Score for NodeResourcesBalancedAllocation {
    fn score(&self, pod: &Pod, nodes: &Nodes, pods: &PodSnapshot) -> Vec<i64> {
        let used = ResourceUse::of_each(&self.resources, Counted::Requested, pod, nodes, pods);
        let on_node = |at: usize| {
            let used = used.iter().filter_map(|each| each.on(at));
            ((1.0 - deviation(&used.map(share).collect::<Vec<_>>())) * 100.0) as i64
        };
        (0..nodes.len()).map(on_node).collect()
    }
}

// Kubernetes rounds the amounts to floats in the same way.
#[allow(clippy::cast_precision_loss)]
fn share((used, allocatable): (i64, i64)) -> f64 {
    (used as f64 / allocatable as f64).min(1.0)
}

/// Returns the standard deviation of the shares; 0 for less than two.
// The operations and their order are those of Kubernetes: other roundings would change scores.
#[allow(clippy::cast_precision_loss)]
fn deviation(shares: &[f64]) -> f64 {
    match shares {
        [] | [_] => 0.0,
        [first, second] => ((first - second) / 2.0).abs(),
        _ => {
            let count = shares.len() as f64;
            let mean = shares.iter().sum::<f64>() / count;
            let squares = shares.iter().map(|share| (share - mean) * (share - mean));
            (squares.sum::<f64>() / count).sqrt()
        }
    }
}
