//! `Amounts` and `ResourceList`: amounts by resource.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::labels::Quantity;

/// A text that is often one of Kubernetes' own words, such as `cpu` or `Pending`. Kubernetes' own
/// words, and clones of any text, take no memory.
#[derive(Clone)]
pub enum Word {
    /// One of Kubernetes' own words.
    Usual(&'static str),
    /// Any other text.
    Other(Arc<str>),
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Usual(text) => text,
            Self::Other(text) => text,
        }
    }
}

impl Default for Word {
    fn default() -> Self {
        Self::Usual("")
    }
}

impl Borrow<str> for Word {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Word {}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Word {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// Returns `text` as a `Word`.
pub(crate) fn word(text: &str) -> Word {
    usual(text).map_or_else(|| Word::Other(text.into()), Word::Usual)
}

/// Returns the word of Kubernetes that equals `text`; None if there is no such word.
pub(crate) fn usual(text: &str) -> Option<&'static str> {
    Some(match text {
        "" => "",
        "default-scheduler" => "default-scheduler",
        "cpu" => "cpu",
        "memory" => "memory",
        "ephemeral-storage" => "ephemeral-storage",
        "nvidia.com/gpu" => "nvidia.com/gpu",
        "amd.com/gpu" => "amd.com/gpu",
        "hugepages-2Mi" => "hugepages-2Mi",
        "hugepages-1Gi" => "hugepages-1Gi",
        "pods" => "pods",
        "Pending" => "Pending",
        "Running" => "Running",
        "Succeeded" => "Succeeded",
        "Failed" => "Failed",
        "SchedulingGated" => "SchedulingGated",
        "Unschedulable" => "Unschedulable",
        "SchedulerError" => "SchedulerError",
        "Guaranteed" => "Guaranteed",
        "Burstable" => "Burstable",
        "BestEffort" => "BestEffort",
        _ => return None,
    })
}

/// Whether a driver of dynamic resource allocation may serve the resource on a node that has none of
/// it in its status.
///
/// Source: kubernetes v1.37 pkg/scheduler/util/utils.go `IsDRAExtendedResourceName`
///
/// ```
/// use kubextend_core::pod::is_dra_extended_resource;
///
/// assert!(is_dra_extended_resource("example.com/gpu"));
/// assert!(!is_dra_extended_resource("hugepages-2Mi"));
/// ```
pub fn is_dra_extended_resource(name: &str) -> bool {
    is_extended_resource(name) || name.starts_with("deviceclass.resource.kubernetes.io/")
}

/// Whether a resource is not one of Kubernetes' own.
///
/// Source: kubernetes v1.37 pkg/apis/core/v1/helper/helpers.go `IsExtendedResourceName`; the API
/// refuses the other names that the function tells apart.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// A `v1.ResourceList`: exact amounts by resource.
///
/// The map is ordered, and the number of resources hardly changes what a change of one amount
/// costs, because a tenant chooses how many resources a pod names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourceList(BTreeMap<Word, Quantity>);

impl FromIterator<(Word, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (Word, Quantity)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl ResourceList {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Word, Quantity)> {
        self.0
            .iter()
            .map(|(resource, quantity)| (resource, *quantity))
    }

    pub(crate) fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.get(resource).copied()
    }

    pub(crate) fn set(&mut self, resource: &Word, quantity: Quantity) {
        self.merge(resource, quantity, |_, new| new);
    }

    /// Adds the amounts of `other` to the amounts of this list.
    pub(crate) fn add(&mut self, other: &Self) {
        for (resource, quantity) in other.iter() {
            self.merge(resource, quantity, |old, more| old + more);
        }
    }

    /// Raises each amount to the amount in `other`, if that is larger.
    pub(crate) fn raise_to(&mut self, other: &Self) {
        for (resource, quantity) in other.iter() {
            self.raise(resource, quantity);
        }
    }

    /// Raises the amount of one resource to `quantity`, if `quantity` is larger.
    pub(crate) fn raise(&mut self, resource: &Word, quantity: Quantity) {
        self.merge(resource, quantity, Ord::max);
    }

    fn merge(
        &mut self,
        resource: &Word,
        quantity: Quantity,
        both: impl Fn(Quantity, Quantity) -> Quantity,
    ) {
        match self.0.get_mut(&**resource) {
            Some(known) => *known = both(*known, quantity),
            None => drop(self.0.insert(resource.clone(), quantity)),
        }
    }

    /// Returns the amounts in kube-scheduler's units: cpu in milli-CPUs, others in whole units.
    pub(crate) fn amounts(&self) -> Amounts {
        if self.0.is_empty() {
            // All empty lists share one object; a collected empty list would take memory of its
            // own.
            return Amounts::default();
        }
        let amount = |(resource, quantity): (&Word, Quantity)| {
            (resource.clone(), quantity.amount_of(resource))
        };
        Amounts(self.iter().map(amount).collect())
    }
}

/// Amounts by resource: cpu in milli-CPUs, other resources in units, rounded up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Amounts(pub(super) Arc<[(Word, i64)]>);

impl Amounts {
    /// The amount of one resource; None if the list does not name it.
    pub fn get(&self, resource: &str) -> Option<i64> {
        let found = self
            .0
            .binary_search_by(|(known, _)| (**known).cmp(resource));
        found.ok().map(|at| self.0[at].1)
    }

    /// Returns the amounts that are not zero.
    pub(super) fn without_zeros(&self) -> Self {
        let asked = self.0.iter().filter(|(_, amount)| *amount != 0);
        Self(asked.cloned().collect())
    }

    /// Returns the amounts of Kubernetes' own resources and the usual devices, and as many other
    /// amounts as fit into `room` bytes, which `size` measures.
    pub(super) fn within(&self, room: usize, size: impl Fn(&[(Word, i64)]) -> usize) -> Self {
        let mut left = room;
        let mut stays = |asked: &&(Word, i64)| {
            let size = size(std::slice::from_ref(*asked));
            let fits = usual(&asked.0).is_some() || size <= left;
            left = left.saturating_sub(if fits { size } else { 0 });
            fits
        };
        Self(
            self.0
                .iter()
                .filter(|asked| stays(asked))
                .cloned()
                .collect(),
        )
    }

    /// Iterates over every resource and its amount, sorted by resource.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Word, i64)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_text_that_it_was_made_of() {
        for (text, usual) in [
            ("", true),
            ("default-scheduler", true),
            ("cpu", true),
            ("memory", true),
            ("ephemeral-storage", true),
            ("nvidia.com/gpu", true),
            ("amd.com/gpu", true),
            ("hugepages-2Mi", true),
            ("hugepages-1Gi", true),
            ("pods", true),
            ("Pending", true),
            ("Running", true),
            ("Succeeded", true),
            ("Failed", true),
            ("SchedulingGated", true),
            ("Unschedulable", true),
            ("SchedulerError", true),
            ("Guaranteed", true),
            ("Burstable", true),
            ("BestEffort", true),
            ("Cpu", false),
            ("example.com/gpu", false),
        ] {
            let word = word(text);
            assert_eq!(word, text);
            assert_eq!(matches!(word, Word::Usual(_)), usual, "{text}");
        }
    }
}
