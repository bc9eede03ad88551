//! Maps of pods by UID, and by namespace and name; the keys are parts of the pods, and take no
//! memory.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::record::Pod;
use crate::shared_map::SharedMap;

/// A map of pods by a key that is a part of the pod. To clone the map is cheap.
#[derive(Clone)]
pub(super) struct PodMap<K>(SharedMap<K, ()>);

/// Pods by their UIDs.
pub(super) type ByUid = PodMap<Uid>;

/// Pods by their namespaces and names.
pub(super) type ByName = PodMap<Name>;

impl<K> Default for PodMap<K> {
    fn default() -> Self {
        Self(SharedMap::default())
    }
}

impl<K> fmt::Debug for PodMap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodMap")
    }
}

impl<K: Key> PodMap<K> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&Arc<Pod>>
    where
        K: Borrow<Q>,
    {
        self.0.get_entry(key).map(|(key, ())| key.pod())
    }

    /// Adds a pod; replaces a pod with an equal key.
    pub(super) fn add(&mut self, pod: &Arc<Pod>) {
        let key = K::of(pod.clone());
        // To insert would keep the key of the old pod.
        self.0.remove(&key);
        self.0.insert(key, ());
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<Arc<Pod>>
    where
        K: Borrow<Q>,
    {
        self.0.remove_entry(key).map(|(key, ())| key.pod().clone())
    }

    /// Iterates over every pod of the map, in no order.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.0.iter().map(|(key, ())| key.pod())
    }
}

/// The key of a map of pods: a pod that is compared by one of its parts.
pub(super) trait Key: Hash + Eq + Clone {
    fn of(pod: Arc<Pod>) -> Self;
    fn pod(&self) -> &Arc<Pod>;
}

/// A key that compares pods by UID.
#[derive(Clone)]
pub(super) struct Uid(Arc<Pod>);

/// A key that compares pods by namespace and name.
#[derive(Clone)]
pub(super) struct Name(Arc<Pod>);

/// A namespace and a name, either those of a pod or those by which to look a pod up.
pub(super) trait Named {
    fn full_name(&self) -> (&str, &str);
}

/// Returns the key by which to look up a pod in `ByName`.
pub(super) fn named<'a>(named: &'a (dyn Named + 'a)) -> &'a (dyn Named + 'a) {
    named
}

impl Key for Uid {
    fn of(pod: Arc<Pod>) -> Self {
        Self(pod)
    }

    fn pod(&self) -> &Arc<Pod> {
        &self.0
    }
}

impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.0.uid
    }
}

impl Hash for Uid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (*self.0.uid).hash(state);
    }
}

impl PartialEq for Uid {
    fn eq(&self, other: &Self) -> bool {
        self.0.uid == other.0.uid
    }
}

impl Eq for Uid {}

impl Key for Name {
    fn of(pod: Arc<Pod>) -> Self {
        Self(pod)
    }

    fn pod(&self) -> &Arc<Pod> {
        &self.0
    }
}

impl Named for Name {
    fn full_name(&self) -> (&str, &str) {
        self.0.full_name()
    }
}

impl Named for Pod {
    fn full_name(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Named for (&str, &str) {
    fn full_name(&self) -> (&str, &str) {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for Name {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl Hash for dyn Named + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.full_name().hash(state);
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.full_name() == other.full_name()
    }
}

impl Eq for dyn Named + '_ {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.full_name().hash(state);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.full_name() == other.full_name()
    }
}

impl Eq for Name {}
