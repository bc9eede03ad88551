//! Groups of pods by a text, such as the pods of one namespace with one value of a label.

use std::sync::Arc;

use super::record::Pod;
use crate::shared_map::SharedMap;

/// The pods of one group by their memory addresses, so that each object is in the group once.
type Group = SharedMap<usize, Arc<Pod>>;

/// Groups of pods by a text; no group is empty. To clone the groups is cheap, and no change walks
/// over a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(SharedMap<Box<str>, Arc<Group>>);

impl Groups {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Iterates over the pods of the group with this text, in no order.
    pub(crate) fn of(&self, text: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let group = self.0.get(text).into_iter();
        group.flat_map(|group| group.iter().map(|(_, pod)| pod))
    }

    /// Iterates over the pods of all groups, in no order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let groups = self.0.iter();
        groups.flat_map(|(_, group)| group.iter().map(|(_, pod)| pod))
    }

    pub(crate) fn add(&mut self, text: &str, pod: &Arc<Pod>) {
        if let Some(group) = self.0.get_mut(text) {
            Arc::make_mut(group).insert(address(pod), pod.clone());
            return;
        }
        let mut group = Group::default();
        group.insert(address(pod), pod.clone());
        self.0.insert(text.into(), Arc::new(group));
    }

    /// Removes a pod from a group, by the object that was added; does nothing if the group does not
    /// have this object.
    pub(crate) fn remove(&mut self, text: &str, pod: &Arc<Pod>) {
        let Some(group) = self.0.get_mut(text) else {
            return;
        };
        let group = Arc::make_mut(group);
        group.remove(&address(pod));
        if group.len() == 0 {
            self.0.remove(text);
        }
    }
}

pub(super) fn address(pod: &Arc<Pod>) -> usize {
    Arc::as_ptr(pod).addr()
}
