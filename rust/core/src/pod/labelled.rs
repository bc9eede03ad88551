//! Which pods have a label of some value.

use std::sync::Arc;

use super::groups::Groups;
use super::record::Pod;
use crate::labels::LabelLookup;

/// How many labels are followed; plugins ask for few, and to begin with one takes a look at every
/// pod.
const MOST_KEYS: usize = 16;

/// For each label that somebody asked for, the pods of a namespace by their value of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labelled {
    by_key: Vec<(Arc<str>, Groups)>,
    /// By namespace, pods that are kept without their labels.
    unlabelled: Groups,
}

/// A pod of the namespace is kept without its labels, so nobody knows whether it belongs to them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("pod {}/{} is kept without its labels", .0.namespace, .0.name)]
pub struct Unlabelled(pub Arc<Pod>);

impl Labelled {
    /// The pods of a namespace with a label of this value, in no order; None where nobody follows
    /// the label yet.
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

    /// Follows a label from now on, where these are all pods.
    pub(crate) fn follow<'a>(&mut self, key: &str, pods: impl Iterator<Item = &'a Arc<Pod>>) {
        if self.of(key).is_some() {
            return;
        }
        if self.by_key.len() >= MOST_KEYS {
            self.by_key.clear();
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

    /// Takes out the very pod that was added; one that is out changes nothing.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        self.unlabelled.remove(&pod.namespace, pod);
        for (key, groups) in &mut self.by_key {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.remove(&group(&pod.namespace, value), pod);
            }
        }
    }
}

/// A namespace has no slash.
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
            assert_eq!(labelled.get("", &key, "v"), Some(Ok(vec![pod.clone()])));
            assert!(labelled.by_key.len() <= MOST_KEYS);
        }
    }
}
