//! `Node`: the fields of a parsed node that plugins read.

use std::sync::Arc;

use super::details::{NodeDetails, found};
use crate::labels::{LabelLookup, Quantity, Taint};

/// The fields of a v1.Node that plugins read.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Box<str>,
    pub(crate) labels: Labels,
    pub(crate) taints: Box<[Taint]>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Box<[(Arc<str>, Quantity)]>,
    /// None if the store does not keep details.
    pub(crate) details: Option<Box<NodeDetails>>,
    /// The node's JSON; None if the store does not keep it.
    pub(crate) raw: Option<Arc<[u8]>>,
}

/// `metadata.labels` or `metadata.annotations`, sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(pub(crate) Box<[(Arc<str>, Arc<str>)]>);

impl LabelLookup for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| &**value)
    }
}

impl Labels {
    /// Iterates over every label as key and value, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of one key, in memory that all nodes with an equal value share; None if absent.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key));
        Some(&self.0[at.ok()?].1)
    }

    /// Whether the keys and values are equal and each value is in the same memory.
    pub(super) fn shares_all_with(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        let shared = |((key, value), (other_key, other_value)): (&(_, _), &(Arc<str>, _))| {
            key == other_key && Arc::ptr_eq(value, other_value)
        };
        self.0.len() == other.0.len() && pairs.all(shared)
    }
}

/// One of the two maps of texts in a node's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `metadata.labels`
    Labels,
    /// `metadata.annotations`; only a store with `Parts::details` keeps it.
    Annotations,
}

impl Field {
    /// Returns the field of a node; None if the store does not keep the field.
    pub(crate) fn of(self, node: &Node) -> Option<&Labels> {
        match self {
            Self::Labels => Some(&node.labels),
            Self::Annotations => Some(&node.details()?.annotations),
        }
    }
}

impl Node {
    /// `metadata.name`
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// `metadata.uid`
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the strings of the node that come from the pool.
    pub(crate) fn into_strings(self) -> impl Iterator<Item = Arc<str>> {
        let labels = self.labels.0.into_iter();
        let resources = self.allocatable.into_iter().map(|(resource, _)| resource);
        let details = self.details.into_iter();
        labels
            .flat_map(|(key, value)| [key, value])
            .chain(resources)
            .chain(details.flat_map(|details| details.into_strings()))
    }

    /// How many strings of the node come from the pool.
    pub(crate) fn pooled(&self) -> usize {
        let details = self.details().map_or(0, NodeDetails::pooled);
        2 * self.labels.0.len() + self.allocatable.len() + details
    }

    /// `metadata.labels`
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The value of one label, in memory that all nodes with an equal value share; None if absent.
    pub fn label(&self, key: &str) -> Option<&Arc<str>> {
        self.labels.get(key)
    }

    /// `spec.taints`
    pub fn taints(&self) -> &[Taint] {
        &self.taints
    }

    /// `spec.unschedulable`
    pub fn unschedulable(&self) -> bool {
        self.unschedulable
    }

    /// `status.allocatable` of one resource: cpu in milli-CPUs, others in units; 0 if absent.
    pub fn allocatable_amount(&self, resource: &str) -> i64 {
        self.allocatable(resource)
            .map_or(0, |quantity| quantity.amount_of(resource))
    }

    /// `status.allocatable` of one resource; None if the node does not name the resource.
    pub fn allocatable(&self, resource: &str) -> Option<Quantity> {
        found(&self.allocatable, resource)
    }

    /// The fields that only a store with `Parts::details` keeps; None in other stores.
    pub fn details(&self) -> Option<&NodeDetails> {
        self.details.as_deref()
    }

    /// The node's JSON as it came, with an empty list as `metadata.managedFields`; None if the store
    /// does not keep the JSON.
    pub fn raw(&self) -> Option<&[u8]> {
        self.raw.as_deref()
    }
}

#[cfg(test)]
impl Node {
    /// Returns a node with a name and no other field, for a name that the store does not have.
    pub(crate) fn called(name: &str) -> Self {
        Self {
            name: name.into(),
            uid: Box::default(),
            labels: Labels(Box::default()),
            taints: Box::default(),
            unschedulable: false,
            allocatable: Box::default(),
            details: None,
            raw: None,
        }
    }
}
