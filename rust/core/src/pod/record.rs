//! `Pod`: the fields of a parsed pod that plugins read.

use std::sync::Arc;

use super::details::PodDetails;
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
    /// `spec.schedulerName`, as the API sent it.
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
    /// What `requests_with_defaults` returns; None if these are the amounts of `requests`, as for
    /// most pods.
    pub defaulted: Option<Arc<RequestsWithDefaults>>,
    /// The names of `spec.schedulingGates`.
    pub scheduling_gates: Box<[Box<str>]>,
    /// `spec.schedulingGroup.podGroupName`; empty for a pod without a `PodGroup`.
    pub scheduling_group: Word,
    /// `metadata.generation`: 1 plus the number of changes of the spec since the pod's
    /// creation; 0 if the API does not count changes.
    pub generation: i64,
    /// `metadata.creationTimestamp`, as the API sent it.
    pub creation_timestamp: Box<str>,
    /// `metadata.deletionTimestamp`, as the API sent it.
    pub deletion_timestamp: Option<Box<str>>,
    /// `status.phase`
    pub phase: Word,
    /// `status.qosClass`; if the API set none, the class that Kubernetes would derive.
    pub qos_class: Word,
    /// `reason` of the status condition `PodScheduled`; empty without one.
    pub scheduled_reason: Word,
    /// `status.nominatedNodeName`
    pub nominated_node_name: Box<str>,
    /// `status.startTime`, as the API sent it.
    pub start_time: Option<Box<str>>,
    /// None if the store keeps no optional parts. One pointer, because most stores keep none.
    pub parts: Option<Arc<KeptParts>>,
    /// The parts of the pod that the store does not keep, because they are too large.
    pub missing: Missing,
}

/// The optional parts of a pod that a store keeps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptParts {
    /// None if the store does not keep details.
    pub details: Option<PodDetails>,
    /// None if the store does not keep the JSON.
    pub raw: Option<Box<[u8]>>,
}

/// A pod's requests of cpu and memory as kube-scheduler counts them in scores: a container that
/// names no request of cpu counts 100m, and one that names none of memory 200 MiB.
///
/// Source: kubernetes v1.36 `pkg/scheduler/util/pod_resources.go`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RequestsWithDefaults {
    /// Milli-CPUs.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// Says which parts of a pod the store does not keep, because they are too large. Such parts
/// are empty in `Pod`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
// Each part of a pod is kept or missing by itself.
#[allow(clippy::struct_excessive_bools)]
pub struct Missing {
    /// Whether tolerations, node selector, node affinity and annotations are not kept.
    pub rare: bool,
    /// Whether the labels are not kept.
    pub labels: bool,
    /// Whether the containers and init containers are not kept.
    pub containers: bool,
    /// Whether requests or overhead of some resources are not kept; those of cpu, memory,
    /// storage, huge pages and the usual GPUs always are.
    pub resources: bool,
    /// Whether only the first 16 scheduling gates are kept.
    pub gates: bool,
    /// Whether the end of a long text is not kept: the name of the scheduler, `PodGroup` or
    /// nominated node, the phase or a reason.
    pub texts: bool,
    /// Whether the fields of `PodDetails` are not kept.
    pub details: bool,
    /// Whether the JSON is not kept.
    pub raw: bool,
}

impl Missing {
    /// Whether the store does not keep some part of the pod.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The fields of a container that plugins read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// The field `name` of the container.
    pub name: Box<str>,
    /// `resources.requests`
    pub requests: Amounts,
    /// `resources.limits`
    pub limits: Amounts,
    /// Whether the container is an init container that keeps running: `restartPolicy: Always`.
    pub sidecar: bool,
}

impl Pod {
    /// The pod's labels, in the form that a selector is compared with.
    pub fn label_lookup(&self) -> SortedLabels<'_, String, String> {
        SortedLabels(&self.labels)
    }

    /// The pod's requests of cpu and memory, with kube-scheduler's defaults for containers that
    /// have none.
    pub fn requests_with_defaults(&self) -> RequestsWithDefaults {
        let amount = |resource| self.requests.get(resource).unwrap_or(0);
        let same = || RequestsWithDefaults {
            cpu: amount("cpu"),
            memory: amount("memory"),
        };
        self.defaulted.as_deref().copied().unwrap_or_else(same)
    }

    /// The fields that only a store with `Parts::details` keeps; None in other stores.
    pub fn details(&self) -> Option<&PodDetails> {
        self.parts.as_ref()?.details.as_ref()
    }

    /// The pod's JSON as it came, with an empty list as `metadata.managedFields`; None if the store
    /// does not keep the JSON.
    pub fn raw(&self) -> Option<&[u8]> {
        self.parts.as_ref()?.raw.as_deref()
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
