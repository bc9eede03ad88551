//! `Pod`: the fields of a parsed pod that plugins read.

use std::sync::Arc;

use super::resources::{Amounts, Word};
use crate::labels::{PreferredTerm, RequiredNodeAffinity, SortedLabels, Toleration};

/// The fields of a v1.Pod that decide where it may run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: Word,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.labels`, sorted by key.
    pub labels: Arc<[(String, String)]>,
    /// `metadata.annotations`, sorted by key.
    pub annotations: Arc<[(String, String)]>,
    /// `spec.schedulerName`, as it came.
    pub scheduler_name: Word,
    /// `spec.nodeName`
    pub node_name: Word,
    /// `spec.priority`
    pub priority: Option<i32>,
    /// `spec.tolerations`
    pub tolerations: Arc<[Toleration]>,
    /// `spec.nodeSelector` and the required node affinity.
    pub required: Arc<RequiredNodeAffinity>,
    /// The weighted terms of the preferred node affinity.
    pub preferred: Arc<[PreferredTerm]>,
    /// `spec.containers`
    pub containers: Arc<[Container]>,
    /// `spec.initContainers`
    pub init_containers: Arc<[Container]>,
    /// `spec.overhead`
    pub overhead: Amounts,
    /// The resources that the pod requests from its node, computed as in Kubernetes.
    pub requests: Amounts,
    /// The names of `spec.schedulingGates`.
    pub scheduling_gates: Box<[Box<str>]>,
    /// `spec.schedulingGroup.podGroupName`; empty for a pod without a `PodGroup`.
    pub scheduling_group: Word,
    /// `metadata.generation`: changes of the spec since its creation, and 1; 0 where the API does not
    /// count them.
    pub generation: i64,
    /// `metadata.creationTimestamp`, as it came.
    pub creation_timestamp: Box<str>,
    /// `metadata.deletionTimestamp`, as it came.
    pub deletion_timestamp: Option<Box<str>>,
    /// `status.phase`
    pub phase: Word,
    /// `status.qosClass`; if the API set none, the class that Kubernetes would derive.
    pub qos_class: Word,
    /// `reason` of the status condition `PodScheduled`; empty without one.
    pub scheduled_reason: Word,
    /// `status.nominatedNodeName`
    pub nominated_node_name: Box<str>,
    /// `status.startTime`, as it came.
    pub start_time: Option<Box<str>>,
    /// The parts that the store does not keep, because they are too large.
    pub missing: Missing,
}

/// The parts of a pod that are not kept, because they are too large; they are empty in `Pod`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
// Each part of a pod is kept or missing by itself.
#[allow(clippy::struct_excessive_bools)]
pub struct Missing {
    /// Tolerations, node selector, node affinity and annotations.
    pub rare: bool,
    /// Labels.
    pub labels: bool,
    /// Containers and init containers.
    pub containers: bool,
    /// Requests or overhead of some resources; those of cpu, memory, storage, huge pages and the
    /// usual GPUs are always kept.
    pub resources: bool,
    /// All scheduling gates but the first 16.
    pub gates: bool,
    /// The ends of the scheduler's name, the `PodGroup`'s, the nominated node's, the phase or a reason.
    pub texts: bool,
}

impl Missing {
    /// Whether any part is missing.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The fields of a container that plugins read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// `name`
    pub name: Box<str>,
    /// `resources.requests`
    pub requests: Amounts,
    /// `resources.limits`
    pub limits: Amounts,
    /// Whether it is an init container that keeps running: `restartPolicy: Always`.
    pub sidecar: bool,
}

impl Pod {
    /// The pod's labels, as a selector reads them.
    pub fn label_lookup(&self) -> SortedLabels<'_, String, String> {
        SortedLabels(&self.labels)
    }

    /// Whether the pod is on a node.
    pub fn is_bound(&self) -> bool {
        !self.node_name.is_empty()
    }

    /// `spec.priority`, 0 where there is none.
    ///
    /// Source: component-helpers v0.36 scheduling/corev1/helpers.go `PodPriority`
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or(0)
    }

    /// Whether the pod has Succeeded or Failed, so that it no longer counts on its node.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}
