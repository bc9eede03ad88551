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
pub(crate) struct Labelled(Vec<(Arc<str>, Groups)>);

impl Labelled {
    /// The pods of a namespace with a label of this value, in no order; None where nobody follows
    /// the label yet.
    pub(crate) fn get(&self, namespace: &str, key: &str, value: &str) -> Option<Vec<Arc<Pod>>> {
        let groups = self.of(key)?;
        Some(groups.of(&group(namespace, value)).cloned().collect())
    }

    fn of(&self, key: &str) -> Option<&Groups> {
        let mut keys = self.0.iter();
        keys.find(|(known, _)| **known == *key)
            .map(|(_, groups)| groups)
    }

    /// Follows a label from now on, where these are all pods.
    pub(crate) fn follow<'a>(&mut self, key: &str, pods: impl Iterator<Item = &'a Arc<Pod>>) {
        if self.of(key).is_some() {
            return;
        }
        if self.0.len() >= MOST_KEYS {
            self.0.clear();
        }
        let mut groups = Groups::default();
        for pod in pods {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.add(&group(&pod.namespace, value), pod);
            }
        }
        self.0.push((key.into(), groups));
    }

    pub(crate) fn add(&mut self, pod: &Arc<Pod>) {
        for (key, groups) in &mut self.0 {
            if let Some(value) = pod.label_lookup().value(key) {
                groups.add(&group(&pod.namespace, value), pod);
            }
        }
    }

    /// Takes out the very pod that was added; one that is out changes nothing.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        for (key, groups) in &mut self.0 {
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
            assert_eq!(labelled.get("", &key, "v"), Some(vec![pod.clone()]));
            assert!(labelled.0.len() <= MOST_KEYS);
        }
    }
}
