//! A pod as plugins read it.

use crate::labels::{PreferredTerm, RequiredNodeAffinity, SortedLabels, Toleration};

/// The fields of a v1.Pod that decide where it may run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(String, String)>,
    /// `metadata.annotations`, sorted by key.
    pub annotations: Vec<(String, String)>,
    /// `spec.schedulerName`, as it came.
    pub scheduler_name: String,
    /// `spec.nodeName`
    pub node_name: String,
    /// `spec.priority`
    pub priority: Option<i32>,
    /// `spec.tolerations`
    pub tolerations: Vec<Toleration>,
    /// `spec.nodeSelector` and the required node affinity.
    pub required: RequiredNodeAffinity,
    /// The weighted terms of the preferred node affinity.
    pub preferred: Vec<PreferredTerm>,
}

impl Pod {
    /// The pod's labels, for a selector.
    pub fn label_lookup(&self) -> SortedLabels<'_, String, String> {
        SortedLabels(&self.labels)
    }
}
