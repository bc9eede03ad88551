//! The one writer of pods: what a watch shows, and the ledger of what is about to be bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::{HashSet, RandomState};

use super::keeping::Keeping;
use super::labelled::Labelled;
use super::record::Pod;
use super::snapshot::PodSnapshot;
use super::templates::Templates;
use crate::published::Published;

type ByText = HashMap<Box<str>, Arc<Pod>, RandomState>;

/// The pods of a cluster that have not ended, and which of them take room on which node.
///
/// A pod takes room where the watch shows it bound. Until then it takes room where it is assumed
/// to be: from `assume` until the watch shows it bound, wherever that is, or ended, or deleted, or
/// until it is forgotten.
#[derive(Debug, Default)]
pub struct PodStore {
    writer: Mutex<Writer>,
    keeping: Keeping,
    templates: Mutex<Templates>,
    published: Published<PodSnapshot>,
}

/// Why a pod cannot be assumed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unassumable {
    /// Nothing tells when the watch shows this pod.
    #[error("a pod without metadata.uid cannot be assumed")]
    NoUid,
    /// There is no such node.
    #[error("a pod cannot be assumed on a node without a name")]
    NoNode,
}

impl PodStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that keeps this of each pod.
    pub fn keeping(keeping: Keeping) -> Self {
        Self {
            keeping,
            ..Self::default()
        }
    }

    /// How many pods the watch shows that have not ended.
    pub fn len(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Whether the watch shows no pod.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pod of this UID as the watch shows it.
    pub fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.lock().by_uid.get(uid).cloned()
    }

    /// The pod of this name as the watch shows it.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.lock().by_name.get(&*key(namespace, name)).cloned()
    }

    /// Every pod that the watch shows, in no order.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.lock().by_name.values().cloned().collect()
    }

    /// The pods of a namespace that have a label of this value, in no order; one that is assumed on
    /// a node names that node.
    ///
    /// Waits for no writer, but where nobody asked for the label before.
    pub fn with_label(&self, namespace: &str, key: &str, value: &str) -> Vec<Arc<Pod>> {
        let known = self.snapshot().labelled().get(namespace, key, value);
        known.unwrap_or_else(|| {
            let mut writer = self.lock();
            let found = writer.followed(key).get(namespace, key, value);
            self.published.outdated(true);
            found.unwrap_or_default()
        })
    }

    /// Counts a pod as on a node before the watch shows it there; it moves if it was assumed
    /// elsewhere. A pod that the watch shows bound already stays where it is.
    ///
    /// # Errors
    /// The pod has no UID, or the node no name.
    pub fn assume(&self, pod: &Arc<Pod>, node: &str) -> Result<(), Unassumable> {
        if pod.uid.is_empty() {
            return Err(Unassumable::NoUid);
        }
        if node.is_empty() {
            return Err(Unassumable::NoNode);
        }
        self.write(|writer| writer.assume(pod, node));
        Ok(())
    }

    /// Counts an assumed pod no longer. False if it is not, or no longer, only assumed.
    pub fn forget(&self, uid: &str) -> bool {
        self.write(|writer| writer.forget(uid))
    }

    /// The pods that are only assumed; each names the node that it is assumed on.
    pub fn assumed(&self) -> Vec<Arc<Pod>> {
        self.lock().ledger.values().cloned().collect()
    }

    /// The pods on nodes as they are now: what was written before this call is in it.
    pub fn snapshot(&self) -> Arc<PodSnapshot> {
        let snapshot = |writer: &mut Writer| writer.shown.clone();
        self.published.latest(|| self.lock(), snapshot)
    }

    /// The pods that the watch shows and that are kept without some of their parts, in no order.
    pub fn truncated(&self) -> Vec<Arc<Pod>> {
        let writer = self.lock();
        let watched = writer.by_name.values();
        watched.filter(|pod| pod.truncated).cloned().collect()
    }

    /// The pod, ready to be kept: what it has in common with others is shared.
    pub(crate) fn shared(&self, mut pod: Pod) -> Arc<Pod> {
        self.keeping.trim(&mut pod);
        self.templates().share(&mut pod);
        Arc::new(pod)
    }

    /// Holds exactly these pods from now on, and the ledger. True if anything changed.
    pub(crate) fn replace(&self, listed: Vec<Arc<Pod>>) -> bool {
        self.write(|writer| writer.replace(listed))
    }

    /// Takes an added or modified pod. True if anything that plugins read changed.
    pub(crate) fn applied(&self, pod: Arc<Pod>) -> bool {
        self.write(|writer| writer.apply(pod))
    }

    /// Drops a pod. True if it was there.
    pub(crate) fn deleted(&self, pod: &Pod) -> bool {
        self.write(|writer| writer.remove(pod))
    }

    fn write(&self, work: impl FnOnce(&mut Writer) -> bool) -> bool {
        let mut writer = self.lock();
        let before = writer.by_name.len();
        let changed = work(&mut writer);
        let left = writer.by_name.len();
        self.published.outdated(changed);
        drop(writer);
        if left < before {
            self.templates().lost(before - left, left);
        }
        changed
    }

    fn templates(&self) -> MutexGuard<'_, Templates> {
        self.templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the API calls a pod; a name has no slash.
fn key(namespace: &str, name: &str) -> Box<str> {
    [namespace, "/", name].concat().into()
}

/// The store's private state; nothing of it is seen before it is published.
///
/// Of a UID at most one pod takes room: the watched one if it is bound, else the ledger's.
#[derive(Debug, Default)]
struct Writer {
    by_name: ByText,
    by_uid: ByText,
    /// Assumed pods by UID. None of them is bound as the watch shows it.
    ledger: ByText,
    /// The watched pods and the ledger's, each UID once.
    shown: PodSnapshot,
}

impl Writer {
    fn apply(&mut self, pod: Arc<Pod>) -> bool {
        if pod.is_terminal() {
            return self.remove(&pod);
        }
        let key = key(&pod.namespace, &pod.name);
        if self.by_name.get(&key) == Some(&pod) {
            return false;
        }
        if let Some(old) = self.by_name.remove(&key) {
            self.leave(&old);
            if old.uid != pod.uid {
                self.forget(&old.uid);
            }
        }
        self.enter(key, pod);
        true
    }

    fn enter(&mut self, key: Box<str>, pod: Arc<Pod>) {
        if pod.is_bound() {
            self.forget(&pod.uid);
            self.shown.add(&pod);
        } else if let Some(assumed) = self.ledger.get(&*pod.uid) {
            let node = assumed.node_name.clone();
            self.enter_ledger(&pod, node);
        } else {
            self.shown.add(&pod);
        }
        if !pod.uid.is_empty() {
            self.by_uid.insert((*pod.uid).into(), pod.clone());
        }
        self.by_name.insert(key, pod);
    }

    /// Takes away what a watched pod counts for; its name is gone already.
    fn leave(&mut self, pod: &Arc<Pod>) {
        self.shown.remove(pod);
        if self
            .by_uid
            .get(&*pod.uid)
            .is_some_and(|kept| Arc::ptr_eq(kept, pod))
        {
            self.by_uid.remove(&*pod.uid);
        }
    }

    fn remove(&mut self, pod: &Pod) -> bool {
        let known = self.by_name.remove(&key(&pod.namespace, &pod.name));
        if let Some(known) = &known {
            self.leave(known);
            self.forget(&known.uid);
        }
        self.forget(&pod.uid) || known.is_some()
    }

    fn replace(&mut self, listed: Vec<Arc<Pod>>) -> bool {
        let mut changed = false;
        let mut present = HashSet::default();
        for pod in listed {
            if !pod.is_terminal() {
                present.insert(key(&pod.namespace, &pod.name));
            }
            changed |= self.apply(pod);
        }
        let gone: Vec<Arc<Pod>> = self
            .by_name
            .iter()
            .filter(|(key, _)| !present.contains(*key))
            .map(|(_, pod)| pod.clone())
            .collect();
        for pod in &gone {
            self.remove(pod);
        }
        changed || !gone.is_empty()
    }

    fn assume(&mut self, pod: &Pod, node: &str) -> bool {
        let watched = self.by_uid.get(&*pod.uid).cloned();
        if watched.as_ref().is_some_and(|watched| watched.is_bound()) {
            return false;
        }
        self.enter_ledger(watched.as_deref().unwrap_or(pod), node.to_owned());
        true
    }

    fn enter_ledger(&mut self, pod: &Pod, node_name: String) {
        self.forget(&pod.uid);
        if let Some(watched) = self.by_uid.get(&*pod.uid) {
            self.shown.remove(watched);
        }
        let assumed = Arc::new(Pod {
            node_name,
            ..pod.clone()
        });
        self.shown.add(&assumed);
        self.ledger.insert((*assumed.uid).into(), assumed);
    }

    fn forget(&mut self, uid: &str) -> bool {
        let Some(assumed) = self.ledger.remove(uid) else {
            return false;
        };
        self.shown.remove(&assumed);
        if let Some(watched) = self.by_uid.get(uid) {
            self.shown.add(watched);
        }
        true
    }

    /// The pods by their labels, this one among them.
    fn followed(&mut self, key: &str) -> &Labelled {
        let assumed = self.ledger.values();
        let watched = self.by_name.values();
        let watched = watched.filter(|pod| !self.ledger.contains_key(&*pod.uid));
        self.shown
            .labelled_mut()
            .follow(key, assumed.chain(watched));
        self.shown.labelled()
    }
}
