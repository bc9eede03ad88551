//! Label selectors, node affinity, taints and tolerations, and resource quantities.
//!
//! All results are those of Go's code in Kubernetes v1.36, which `tests/go/oracle` records. This
//! module parses no JSON.

mod affinity;
mod fault;
mod lexer;

mod parser;
mod quantity;
mod requirement;
mod selector;
mod taints;
mod validation;

use std::collections::BTreeMap;

pub use affinity::{
    NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, PreferredTerms, RequiredAffinity,
    RequiredNodeAffinity,
};
pub use fault::LabelError;
pub use quantity::{Quantity, QuantityError};
pub use requirement::{Operator, Requirement};
pub use selector::Selector;
pub use taints::{Taint, Toleration, Tolerations, tolerates};

/// A set of labels that a selector can be compared with.
///
/// ```
/// use std::collections::BTreeMap;
/// use kubextend_core::labels::LabelLookup;
///
/// let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
/// assert_eq!(labels.value("zone"), Some("a"));
/// assert_eq!(labels.value("rack"), None);
/// ```
pub trait LabelLookup {
    /// The value of the label `key`; `None` if the label is absent.
    fn value(&self, key: &str) -> Option<&str>;
}

impl<L: LabelLookup + ?Sized> LabelLookup for &L {
    fn value(&self, key: &str) -> Option<&str> {
        (**self).value(key)
    }
}

impl LabelLookup for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Labels held as pairs in ascending byte order of their keys, each key once.
///
/// ```
/// use kubextend_core::labels::{LabelLookup, SortedLabels};
///
/// let labels = SortedLabels(&[("rack", "7"), ("zone", "a")]);
/// assert_eq!(labels.value("zone"), Some("a"));
/// ```
#[derive(Debug)]
pub struct SortedLabels<'a, K, V>(
    /// The pairs; the order is the caller's promise.
    pub &'a [(K, V)],
);

impl<K, V> Clone for SortedLabels<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for SortedLabels<'_, K, V> {}

impl<K: AsRef<str>, V: AsRef<str>> LabelLookup for SortedLabels<'_, K, V> {
    fn value(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(self.0[found].1.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::{LabelLookup, SortedLabels};

    #[test]
    fn sorted_pairs_find_every_key_and_no_other() {
        let pairs: Vec<(String, String)> = (0..50)
            .map(|i| (format!("key-{i:02}"), format!("value-{i}")))
            .collect();
        let labels = SortedLabels(&pairs);
        for (key, value) in &pairs {
            assert_eq!(labels.value(key), Some(value.as_str()));
        }
        for absent in ["", "key", "key-", "key-0", "key-50", "key-000"] {
            assert_eq!(labels.value(absent), None, "{absent}");
        }
    }
}
