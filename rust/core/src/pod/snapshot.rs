//! The pods on nodes as they stood at one moment.

use std::sync::Arc;

use ahash::HashSet;

use super::occupancy::Occupancy;
use super::record::Pod;
use crate::node::Nodes;

/// Immutable: the pods that take room on nodes, assigned ones and assumed ones.
#[derive(Debug, Default)]
pub struct PodSnapshot(pub(crate) Occupancy);

impl PodSnapshot {
    /// How many pods there are on all nodes.
    pub fn len(&self) -> usize {
        self.0.pods()
    }

    /// Whether no node has a pod.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pods of a node, in the order in which they came there.
    pub fn pods_on(&self, node: &str) -> &[Arc<Pod>] {
        self.0.on(node).map_or(&[], |node| node.pods())
    }

    /// What the pods of a node request together: cpu in milli, the rest in units, `pods` their
    /// number.
    pub fn requested_on(&self, node: &str, resource: &str) -> i64 {
        self.0.on(node).map_or(0, |node| node.requested(resource))
    }

    /// The same without some of the pods: those of these UIDs on these nodes.
    #[must_use]
    pub fn without<'a>(&self, gone: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Self {
        let mut left = self.0.clone();
        for (node, uids) in gone {
            let uids: HashSet<&String> = uids.iter().filter(|uid| !uid.is_empty()).collect();
            for pod in self.pods_on(node) {
                if uids.contains(&pod.uid) {
                    left.remove(pod);
                }
            }
        }
        Self(left)
    }

    /// `requested_on` of every one of these nodes.
    pub fn requested(&self, nodes: &Nodes, resource: &str) -> Vec<i64> {
        (0..nodes.len())
            .map(|at| self.requested_on(nodes.name(at), resource))
            .collect()
    }
}
