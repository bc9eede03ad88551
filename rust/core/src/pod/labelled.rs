//! An index of pods by namespace, label key and label value.

use std::sync::Arc;

use super::groups::Groups;
use super::record::Pod;
use crate::labels::LabelLookup;

/// The most label keys that are indexed; plugins use few, and each costs memory and time with each
/// pod that comes or goes.
const MOST_KEYS: usize = 16;

/// An index: the pods of each namespace by their values of the indexed label keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labelled {
    by_key: Vec<(Arc<str>, Groups)>,
    /// The pods whose labels are too large for the store to keep, by namespace.
    unlabelled: Groups,
}

/// The error for a namespace with a pod whose labels are too large for the store to keep: nobody
/// knows whether the pod has the label.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("pod {}/{} is kept without its labels", .0.namespace, .0.name)]
pub struct Unlabelled(pub Arc<Pod>);

impl Labelled {
    /// Returns the pods of a namespace that have a label with a value, in no order; None if the
    /// label key is not indexed yet.
    pub(crate) fn get(
        &self,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Option<Result<Vec<Arc<Pod>>, Unlabelled>> {
        if let Some(pod) = self.unlabelled.of(namespace).next() {
            return Some(Err(Unlabelled(pod.clone())));
        }
        let groups = self.of(key)?;
        Some(Ok(groups.of(&group(namespace, value)).cloned().collect()))
    }

    fn of(&self, key: &str) -> Option<&Groups> {
        let mut keys = self.by_key.iter();
        keys.find(|(known, _)| **known == *key)
            .map(|(_, groups)| groups)
    }

    /// Whether as many label keys are indexed as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.by_key.len() >= MOST_KEYS
    }

    /// Indexes a label key, unless the index is full; `pods` are all pods.
    pub(crate) fn follow<'a>(&mut self, key: &str, pods: impl Iterator<Item = &'a Arc<Pod>>) {
        if self.is_full() || self.of(key).is_some() {
            return;
        }
        let mut groups = Groups::default();
        for pod in pods {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.add(&group(&pod.namespace, value), pod);
            }
        }
        self.by_key.push((key.into(), groups));
    }

    pub(crate) fn add(&mut self, pod: &Arc<Pod>) {
        if pod.missing.labels {
            self.unlabelled.add(&pod.namespace, pod);
        }
        for (key, groups) in &mut self.by_key {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.add(&group(&pod.namespace, value), pod);
            }
        }
    }

    /// Removes a pod from the index, by the object that was added; does nothing if the index does
    /// not have this object.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        self.unlabelled.remove(&pod.namespace, pod);
        for (key, groups) in &mut self.by_key {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.remove(&group(&pod.namespace, value), pod);
            }
        }
    }
}

/// Returns the text of a group: namespace, slash, value. A namespace has no slash, so texts of
/// different groups differ.
fn group(namespace: &str, value: &str) -> String {
    [namespace, "/", value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_labels_are_followed_than_are_worth_it() {
        let mut labelled = Labelled::default();
        let labels = (0..40).map(|i| (format!("k{i:02}"), "v".to_owned()));
        let pod = Arc::new(Pod {
            labels: labels.collect(),
            ..Pod::default()
        });
        for i in 0..40 {
            let key = format!("k{i:02}");
            assert_eq!(labelled.get("", &key, "v"), None);
            labelled.follow(&key, std::iter::once(&pod));
            // The keys that came first stay.
            let followed = (i < MOST_KEYS).then(|| Ok(vec![pod.clone()]));
            assert_eq!(labelled.get("", &key, "v"), followed);
            assert_eq!(labelled.by_key.len(), MOST_KEYS.min(i + 1));
        }
    }
}
