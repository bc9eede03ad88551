//! Computes how much of its resources each node has in use once a pod runs there, for scores.
//!
//! Source: kubernetes v1.33 `plugins/noderesources/resource_allocation.go`

use crate::node::Nodes;
use crate::pod::{Pod, PodSnapshot};

/// Which requests of pods count for cpu and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// What the pods request.
    Requested,
    /// What the pods request, where a container without a request of cpu or memory counts as 100m of
    /// cpu or 200 MiB of memory.
    WithDefaults,
}

/// A resource of all nodes: a weight, and for each node the amount in use and the allocatable one.
pub(super) struct ResourceUse {
    pub(super) weight: i64,
    used: Vec<i64>,
    allocatable: Vec<i64>,
}

impl ResourceUse {
    /// Computes the use of each resource that counts for the pod.
    ///
    /// Resources but cpu, memory and ephemeral storage count only if the pod requests them.
    pub(super) fn of_each(
        resources: &[(String, i64)],
        counted: Counted,
        pod: &Pod,
        nodes: &Nodes,
        pods: &PodSnapshot,
    ) -> Vec<Self> {
        let mut each = Vec::with_capacity(resources.len());
        for (resource, weight) in resources {
            let wanted = pod_request(pod, resource, counted);
            if wanted == 0 && is_scalar(resource) {
                continue;
            }
            let defaulted = counted == Counted::WithDefaults;
            let mut used = match (defaulted, resource.as_str()) {
                (true, "cpu") => pods.requested_with_defaults(nodes).0,
                (true, "memory") => pods.requested_with_defaults(nodes).1,
                _ => pods.requested(nodes, resource),
            };
            for amount in &mut used {
                *amount = amount.saturating_add(wanted);
            }
            each.push(Self {
                weight: *weight,
                used,
                allocatable: nodes.map_or(0, |node| node.allocatable_amount(resource)),
            });
        }
        each
    }

    /// Returns what is in use and what is allocatable on a node; None if the node has nothing of
    /// the resource.
    pub(super) fn on(&self, at: usize) -> Option<(i64, i64)> {
        let allocatable = self.allocatable[at];
        (allocatable != 0).then_some((self.used[at], allocatable))
    }
}

/// Returns how much of a resource the pod requests, as it counts in scores.
pub(super) fn pod_request(pod: &Pod, resource: &str, counted: Counted) -> i64 {
    match (counted, resource) {
        (Counted::WithDefaults, "cpu") => pod.requests_with_defaults().cpu,
        (Counted::WithDefaults, "memory") => pod.requests_with_defaults().memory,
        _ => pod.requests.get(resource).unwrap_or(0),
    }
}

/// Whether kube-scheduler counts the resource without a field of its own, as it does for devices
/// and huge pages.
pub(super) fn is_scalar(resource: &str) -> bool {
    !matches!(resource, "cpu" | "memory" | "ephemeral-storage")
}
