//! The parts of nodes and pods that a store keeps only where a plugin needs them.

use std::borrow::Cow;
use std::sync::Arc;

use super::record::Labels;
use crate::labels::Quantity;

/// Says which optional parts of nodes or pods a store keeps; by default none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Whether the store keeps the fields of `NodeDetails` or `PodDetails`.
    pub details: bool,
    /// Whether the store keeps the JSON of each object.
    pub raw: bool,
}

impl Parts {
    /// Returns the parts that one of two stores keeps.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            details: self.details || other.details,
            raw: self.raw || other.raw,
        }
    }
}

/// The fields of a v1.Node that only a store with `Parts::details` keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeDetails {
    /// `metadata.annotations`
    pub annotations: Labels,
    /// `status.conditions`
    pub conditions: Box<[Condition]>,
    /// `status.addresses`: the type and the address of each.
    pub addresses: Box<[(Box<str>, Box<str>)]>,
    /// `spec.providerID`
    pub provider_id: Box<str>,
    /// The texts of `status.nodeInfo` by field, sorted.
    pub info: Box<[(Box<str>, Box<str>)]>,
    pub(crate) capacity: Box<[(Arc<str>, Quantity)]>,
    /// The size in bytes of each image of `status.images`, by each of the image's names, sorted.
    pub(crate) images: Box<[(Arc<str>, i64)]>,
}

/// A condition in the status of a node or a pod, without its message and its heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// `type`
    pub kind: Cow<'static, str>,
    /// `status`: True, False or Unknown.
    pub status: Cow<'static, str>,
    /// `reason`
    pub reason: Cow<'static, str>,
    /// `lastTransitionTime`, as the API sent it; empty if absent.
    pub last_transition_time: Box<str>,
}

impl NodeDetails {
    /// `status.capacity` of one resource: cpu in milli-CPUs, others in units; 0 if absent.
    pub fn capacity_amount(&self, resource: &str) -> i64 {
        found(&self.capacity, resource).map_or(0, |quantity| quantity.amount_of(resource))
    }

    /// The size of an image in bytes; None if the node does not report an image of this name.
    pub fn image_size(&self, name: &str) -> Option<i64> {
        found(&self.images, name)
    }

    /// Iterates over the names of all images with the size in bytes, sorted by name.
    pub fn images(&self) -> impl ExactSizeIterator<Item = (&str, i64)> {
        self.images.iter().map(|(name, size)| (&**name, *size))
    }

    /// Returns the strings that come from the pool.
    pub(super) fn into_strings(self) -> impl Iterator<Item = Arc<str>> {
        let annotations = self.annotations.0.into_iter();
        annotations
            .flat_map(|(key, value)| [key, value])
            .chain(self.capacity.into_iter().map(|(resource, _)| resource))
            .chain(self.images.into_iter().map(|(name, _)| name))
    }

    /// How many strings come from the pool.
    pub(super) fn pooled(&self) -> usize {
        2 * self.annotations.0.len() + self.capacity.len() + self.images.len()
    }
}

/// Returns the value of a key in a list that is sorted by key.
pub(super) fn found<T: Copy>(sorted: &[(Arc<str>, T)], key: &str) -> Option<T> {
    let at = sorted.binary_search_by(|(known, _)| (**known).cmp(key));
    at.ok().map(|at| sorted[at].1)
}
