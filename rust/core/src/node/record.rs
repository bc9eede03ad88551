//! One parsed node.

use std::sync::Arc;

use crate::labels::{LabelLookup, Quantity, Taint};
use crate::pool::Strings;
use crate::transfer::transfer;
use crate::wire::node::{WireNode, WireTaint};

/// What plugins read of a v1.Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    name: Arc<str>,
    uid: Box<str>,
    labels: Labels,
    taints: Box<[Taint]>,
    unschedulable: bool,
    allocatable: Box<[(Arc<str>, Quantity)]>,
}

transfer!(Node {
    name,
    uid,
    labels,
    taints,
    unschedulable,
    allocatable,
});

/// `metadata.labels`, sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(Box<[(Arc<str>, Arc<str>)]>);

transfer!(Labels(one));

impl LabelLookup for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| &**value)
    }
}

impl Labels {
    /// Every label, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    fn get(&self, key: &str) -> Option<&Arc<str>> {
        let at = self
            .0
            .binary_search_by(|(known, _)| (**known).cmp(key))
            .ok()?;
        Some(&self.0[at].1)
    }
}

impl Node {
    pub(crate) fn from_wire(wire: WireNode<'_>, strings: &mut Strings) -> Self {
        let labels = wire.metadata.labels.into_sorted();
        let allocatable = wire.status.allocatable.into_sorted();
        Self {
            name: wire.metadata.name.as_ref().into(),
            uid: wire.metadata.uid.as_ref().into(),
            labels: Labels(
                labels
                    .iter()
                    .map(|(key, value)| (strings.intern(key), strings.intern(value)))
                    .collect(),
            ),
            taints: wire
                .spec
                .taints
                .into_vec()
                .into_iter()
                .map(Taint::from)
                .collect(),
            unschedulable: wire.spec.unschedulable,
            allocatable: allocatable
                .iter()
                .map(|(resource, quantity)| (strings.intern(resource), quantity.0))
                .collect(),
        }
    }

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

    /// The node, sharing its strings with the nodes before it.
    pub(crate) fn interned(mut self, strings: &mut Strings) -> Self {
        for (key, value) in &mut self.labels.0 {
            (*key, *value) = (strings.intern(key), strings.intern(value));
        }
        for (resource, _) in &mut self.allocatable {
            *resource = strings.intern(resource);
        }
        self
    }

    /// The strings that `from_wire` shared with other nodes.
    pub(crate) fn into_strings(self) -> impl Iterator<Item = Arc<str>> {
        let labels = self.labels.0.into_iter();
        let resources = self.allocatable.into_iter().map(|(resource, _)| resource);
        labels
            .flat_map(|(key, value)| [key, value])
            .chain(resources)
    }

    /// `metadata.labels`
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The value of a label, shared by all nodes that have the same.
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

    /// `status.allocatable` of one resource: cpu in milli, the rest in units; 0 where it is absent.
    pub fn allocatable_amount(&self, resource: &str) -> i64 {
        self.allocatable(resource)
            .map_or(0, |quantity| quantity.amount_of(resource))
    }

    /// `status.allocatable` of one resource.
    pub fn allocatable(&self, resource: &str) -> Option<Quantity> {
        let found = self
            .allocatable
            .binary_search_by(|(known, _)| (**known).cmp(resource));
        found.ok().map(|at| self.allocatable[at].1)
    }
}

impl From<WireTaint<'_>> for Taint {
    fn from(wire: WireTaint<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            value: wire.value.into_owned(),
            effect: wire.effect.into_owned(),
        }
    }
}
