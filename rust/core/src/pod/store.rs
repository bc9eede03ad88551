//! `PodStore`: the watched pods of a cluster, and the ledger of assumed pods.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ahash::HashSet;

use super::keeping::Keeping;
use super::keys::{ByName, ByUid, named};
use super::labelled::{Labelled, Unlabelled};
use super::record::Pod;
use super::resources::{Word, word};
use super::snapshot::PodSnapshot;
use super::templates::Templates;
use crate::labels::LabelLookup;
use crate::node::Parts;
use crate::published::Published;

/// A store of the pods of a cluster that have not ended, and of the assumed pods.
///
/// A pod counts on the node to which the watch shows the pod bound. Before that the pod counts on
/// the node for which it is assumed: from `assume` until the watch shows the pod bound to any node,
/// ended or deleted, or until `forget`.
#[derive(Debug, Default)]
pub struct PodStore {
    /// Locked during each whole change of the watched pods. No verb waits for this lock.
    watch: Mutex<()>,
    /// The state that changes; locked for moments only.
    writer: Mutex<Writer>,
    keeping: Keeping,
    templates: Mutex<Templates>,
    published: Published<PodSnapshot>,
}

/// Why a pod cannot be assumed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unassumable {
    /// The pod has no UID, so that the store cannot recognise the pod in the watch.
    #[error("a pod without metadata.uid cannot be assumed")]
    NoUid,
    /// The name of the node for which to assume the pod is empty.
    #[error("a pod cannot be assumed on a node without a name")]
    NoNode,
}

impl PodStore {
    /// Makes an empty store that keeps all parts of pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty store that keeps those parts of pods that `keeping` allows.
    pub fn keeping(keeping: Keeping) -> Self {
        Self {
            keeping,
            ..Self::default()
        }
    }

    /// How many pods that have not ended the watch shows.
    pub fn len(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Whether the watch shows no pod.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pod with this UID as the watch shows it; None if there is no such pod.
    pub fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.lock().by_uid.get(uid).cloned()
    }

    /// Returns the pod with this namespace and name as the watch shows it; None if there is no such
    /// pod.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.lock().by_name.get(named(&(namespace, name))).cloned()
    }

    /// Returns all pods that the watch shows, in no order.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.watched().pods().cloned().collect()
    }

    /// Returns the pods of a namespace that have a label with a value, in no order; the `node_name`
    /// of an assumed pod is the node for which it is assumed.
    ///
    /// The first call for a label key walks over all pods, and each call for a key that comes when
    /// 16 keys are indexed already. No call waits for a writer.
    ///
    /// # Errors
    /// The labels of a pod of the namespace are too large for the store to keep.
    pub fn with_label(
        &self,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Result<Vec<Arc<Pod>>, Unlabelled> {
        let known = |labelled: &Labelled| labelled.get(namespace, key, value);
        let full = {
            let snapshot = self.snapshot();
            if let Some(found) = known(snapshot.labelled()) {
                return found;
            }
            snapshot.labelled().is_full()
        };
        if !full && let Some(_turn) = self.turn_at_once() {
            self.beside(|writer| {
                writer.follow(key);
                true
            });
        }
        // The watch is taking a list in, or more label keys are in use than are indexed.
        let now = self.lock().clone();
        known(now.shown.labelled()).unwrap_or_else(|| {
            let has = |pod: &&Arc<Pod>| {
                pod.namespace == namespace && pod.label_lookup().value(key) == Some(value)
            };
            Ok(now.pods().filter(has).cloned().collect())
        })
    }

    /// Counts a pod on a node as assumed, until the watch shows the pod bound. A pod that is
    /// already assumed on another node moves to this node; a pod that the watch shows bound stays
    /// where it is.
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
        let pod = pod.clone();
        let node = word(node);
        self.count(LedgerChange::Assumed { pod, node });
        Ok(())
    }

    /// Stops counting an assumed pod. Returns false if the pod is bound or was not assumed.
    pub fn forget(&self, uid: &str) -> bool {
        self.count(LedgerChange::Forgotten(uid.to_owned()))
    }

    /// Returns the assumed pods; the `node_name` of each pod is the node for which it is assumed.
    pub fn assumed(&self) -> Vec<Arc<Pod>> {
        self.lock().ledger.pods().cloned().collect()
    }

    /// Returns a snapshot of the pods on nodes that has every write from before this call.
    pub fn snapshot(&self) -> Arc<PodSnapshot> {
        let snapshot = |writer: &mut Writer| writer.shown.clone();
        self.published.latest(|| self.lock(), snapshot)
    }

    /// The optional parts of pods that the store keeps.
    pub(crate) fn kept_parts(&self) -> Parts {
        self.keeping.parts
    }

    /// Returns a pod as it is to be stored: without parts that are too large, and with parts that
    /// other pods have too in shared memory.
    pub(crate) fn shared(&self, mut pod: Pod) -> Arc<Pod> {
        self.keeping.trim(&mut pod);
        self.templates().share(&mut pod);
        Arc::new(pod)
    }

    /// Replaces the watched pods by `listed`. Returns true if any field changed that plugins read.
    ///
    /// Assumed pods stay assumed, except those that the list shows bound or ended, and those that
    /// the store had and the list does not have.
    pub(crate) fn replace(&self, listed: &[Arc<Pod>]) -> bool {
        let _turn = self.turn();
        self.beside(|writer| writer.replace(listed))
    }

    /// Stores an added or modified pod. Returns true if any field changed that plugins read.
    pub(crate) fn applied(&self, pod: &Arc<Pod>) -> bool {
        let _turn = self.turn();
        self.write(|writer| writer.apply(pod))
    }

    /// Removes a pod from the store. Returns true if the pod was stored.
    pub(crate) fn deleted(&self, pod: &Pod) -> bool {
        let _turn = self.turn();
        self.write(|writer| writer.remove(pod))
    }

    fn count(&self, change: LedgerChange) -> bool {
        self.write(|writer| {
            if let Some(missed) = &mut writer.missed {
                missed.push(change.clone());
            }
            writer.count(change)
        })
    }

    fn write(&self, work: impl FnOnce(&mut Writer) -> bool) -> bool {
        let mut writer = self.lock();
        let before = writer.by_name.len();
        let changed = work(&mut writer);
        let left = writer.by_name.len();
        self.published.outdated(changed);
        drop(writer);
        self.lost(before, left);
        changed
    }

    /// Does work that takes long on a copy of the writer's state, which then replaces the writer's
    /// state; returns the result of the work. Requests do not wait for the work: pods that requests
    /// assume and forget meanwhile count in the writer's state, and afterwards in the copy.
    ///
    /// The caller holds the lock `watch`, so that no second copy is made meanwhile.
    fn beside(&self, work: impl FnOnce(&mut Writer) -> bool) -> bool {
        let mut copy = {
            let mut writer = self.lock();
            writer.missed = None;
            let copy = writer.clone();
            writer.missed = Some(Vec::new());
            copy
        };
        let changed = work(&mut copy);
        let (before, left) = {
            let mut writer = self.lock();
            for change in writer.missed.take().into_iter().flatten() {
                copy.count(change);
            }
            self.published.outdated(changed);
            (std::mem::replace(&mut *writer, copy), writer.by_name.len())
        };
        // The old state is freed here: not under the lock, nor by the next request that reads. The
        // pools drop what nobody names any more, so the old pods end before the pools are told.
        self.snapshot();
        let were = before.by_name.len();
        drop(before);
        self.lost(were, left);
        changed
    }

    /// Tells the pools of shared parts how many pods were removed.
    fn lost(&self, before: usize, left: usize) {
        if left < before {
            self.templates().lost(before - left, left);
        }
    }

    /// Returns the map of the pods that the watch shows now.
    fn watched(&self) -> ByName {
        self.lock().by_name.clone()
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks `watch` if no other thread has locked it; returns None otherwise.
    fn turn_at_once(&self) -> Option<MutexGuard<'_, ()>> {
        match self.watch.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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

/// A change of the ledger, the list of assumed pods.
#[derive(Debug, Clone)]
enum LedgerChange {
    Assumed { pod: Arc<Pod>, node: Word },
    Forgotten(String),
}

/// The state of the store that the writer changes; readers see changes only in the next snapshot.
/// To clone the state is cheap.
///
/// Of each UID, at most one pod counts on a node: the watched pod if it is bound, else the assumed
/// pod.
#[derive(Debug, Clone, Default)]
struct Writer {
    by_name: ByName,
    by_uid: ByUid,
    /// The assumed pods. The watch shows none of them bound.
    ledger: ByUid,
    /// The snapshot of the watched and the assumed pods, each UID once.
    shown: PodSnapshot,
    /// The changes of the list of assumed pods since a copy of this state was made; None if there
    /// is no copy.
    missed: Option<Vec<LedgerChange>>,
}

impl Writer {
    fn apply(&mut self, pod: &Arc<Pod>) -> bool {
        if pod.is_terminal() {
            return self.remove(pod);
        }
        if self.by_name.get(named(&**pod)) == Some(pod) {
            return false;
        }
        if let Some(old) = self.by_name.remove(named(&**pod)) {
            self.leave(&old);
            if old.uid != pod.uid {
                self.forget(&old.uid);
            }
        }
        self.enter(pod);
        true
    }

    fn enter(&mut self, pod: &Arc<Pod>) {
        if pod.is_bound() {
            self.forget(&pod.uid);
            self.shown.add(pod);
        } else if let Some(assumed) = self.ledger.get(&*pod.uid) {
            let node = assumed.node_name.clone();
            self.enter_ledger(pod, node);
        } else {
            self.shown.add(pod);
        }
        if !pod.uid.is_empty() {
            self.by_uid.add(pod);
        }
        self.by_name.add(pod);
    }

    /// Removes a watched pod from the snapshot; its name is removed from the map already.
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
        let known = self.by_name.remove(named(pod));
        if let Some(known) = &known {
            self.leave(known);
            self.forget(&known.uid);
        }
        self.forget(&pod.uid) || known.is_some()
    }

    fn replace(&mut self, listed: &[Arc<Pod>]) -> bool {
        let mut changed = false;
        let mut present = HashSet::default();
        for pod in listed {
            changed |= self.apply(pod);
            if !pod.is_terminal() {
                present.insert(named(&**pod));
            }
        }
        let watched = self.by_name.pods();
        let gone = watched.filter(|pod| !present.contains(named(&***pod)));
        let gone: Vec<Arc<Pod>> = gone.cloned().collect();
        for pod in &gone {
            self.remove(pod);
        }
        changed || !gone.is_empty()
    }

    fn count(&mut self, change: LedgerChange) -> bool {
        match change {
            LedgerChange::Assumed { pod, node } => self.assume(&pod, node),
            LedgerChange::Forgotten(uid) => self.forget(&uid),
        }
    }

    fn assume(&mut self, pod: &Pod, node: Word) -> bool {
        let watched = self.by_uid.get(&*pod.uid).cloned();
        if watched.as_ref().is_some_and(|watched| watched.is_bound()) {
            return false;
        }
        self.enter_ledger(watched.as_deref().unwrap_or(pod), node);
        true
    }

    fn enter_ledger(&mut self, pod: &Pod, node_name: Word) {
        self.forget(&pod.uid);
        if let Some(watched) = self.by_uid.get(&*pod.uid) {
            self.shown.remove(watched);
        }
        let assumed = Arc::new(Pod {
            node_name,
            ..pod.clone()
        });
        self.shown.add(&assumed);
        self.ledger.add(&assumed);
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

    /// Iterates over the assumed pods, and over the watched pods that are not assumed.
    fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        all(&self.ledger, &self.by_name)
    }

    /// Indexes the pods by one more label key.
    fn follow(&mut self, key: &str) {
        let pods = all(&self.ledger, &self.by_name);
        self.shown.labelled_mut().follow(key, pods);
    }
}

/// Iterates over the assumed pods, and over the watched pods that are not assumed.
fn all<'a>(ledger: &'a ByUid, by_name: &'a ByName) -> impl Iterator<Item = &'a Arc<Pod>> {
    let watched = by_name.pods();
    let watched = watched.filter(|pod| ledger.get(&*pod.uid).is_none());
    ledger.pods().chain(watched)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// After this time the test takes it that a thread waits for ever.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Debug, Clone)]
    enum Step {
        Applied(Arc<Pod>),
        Deleted(Arc<Pod>),
        Assumed(Arc<Pod>, &'static str),
        Forgotten(String),
        Asked(&'static str),
    }

    /// Makes a pod for a test; no two names ever have one UID.
    fn pod(name: u8, uid: u8, node: &str, phase: &str, group: &str) -> Arc<Pod> {
        Arc::new(Pod {
            name: format!("p{name}"),
            uid: format!("u{name}{uid}"),
            node_name: word(node),
            phase: word(phase),
            labels: Arc::new([("group".to_owned(), group.to_owned())]),
            ..Pod::default()
        })
    }

    fn pods() -> impl Strategy<Value = Arc<Pod>> {
        let node = prop::sample::select(vec!["", "", "a", "b"]);
        let phase = prop::sample::select(vec!["Pending", "Running", "Succeeded"]);
        let group = prop::sample::select(vec!["x", "y"]);
        (0..5u8, 0..2u8, node, phase, group)
            .prop_map(|(name, uid, node, phase, group)| pod(name, uid, node, phase, group))
    }

    fn of_the_ledger() -> impl Strategy<Value = Step> {
        prop_oneof![
            (pods(), prop::sample::select(vec!["a", "b"])).prop_map(|(pod, node)| {
                let node_name = Word::default();
                let pod = Pod {
                    node_name,
                    ..Pod::clone(&pod)
                };
                Step::Assumed(Arc::new(pod), node)
            }),
            (0..5u8, 0..2u8).prop_map(|(name, uid)| Step::Forgotten(format!("u{name}{uid}"))),
            prop::sample::select(vec!["x", "y"]).prop_map(Step::Asked),
        ]
    }

    fn any() -> impl Strategy<Value = Step> {
        prop_oneof![
            pods().prop_map(Step::Applied),
            pods().prop_map(Step::Deleted),
            of_the_ledger(),
        ]
    }

    fn take(store: &PodStore, step: &Step) {
        match step {
            Step::Applied(pod) => drop(store.applied(pod)),
            Step::Deleted(pod) => drop(store.deleted(pod)),
            Step::Assumed(pod, node) => store.assume(pod, node).expect("has a UID"),
            Step::Forgotten(uid) => drop(store.forget(uid)),
            Step::Asked(group) => drop(store.with_label("", "group", group)),
        }
    }

    /// Returns everything that a store says about pods, sorted.
    fn said(store: &PodStore) -> Vec<Vec<(String, String, Word)>> {
        let snapshot = store.snapshot();
        let lists = [
            store.pods(),
            store.assumed(),
            snapshot.pods_on("a"),
            snapshot.pods_on("b"),
            store.with_label("", "group", "x").expect("all labels"),
            store.with_label("", "group", "y").expect("all labels"),
        ];
        let said = |pods: Vec<Arc<Pod>>| {
            let said = |pod: &Arc<Pod>| (pod.name.clone(), pod.uid.clone(), pod.node_name.clone());
            let mut said: Vec<_> = pods.iter().map(said).collect();
            said.sort();
            said
        };
        lists.map(said).into()
    }

    #[test]
    fn what_pods_shared_goes_with_the_list_that_lacks_them() {
        let store = PodStore::new();
        let annotations = |of: u16| Arc::new([("key".to_owned(), format!("value {of}"))]);
        let listed: Vec<_> = (0..2000u16)
            .map(|number| {
                store.shared(Pod {
                    name: format!("p{number}"),
                    uid: format!("u{number}"),
                    annotations: annotations(number / 4),
                    ..Pod::default()
                })
            })
            .collect();
        store.replace(&listed);
        drop(listed);
        let shared = std::mem::size_of_val(&*annotations(0));
        assert!(store.templates().held_bytes() > 400 * shared);
        store.replace(&[]);
        assert!(store.templates().held_bytes() < 10 * shared);
    }

    proptest! {
        #[test]
        fn what_is_assumed_while_a_list_is_taken_in_counts_at_once_and_afterwards(
            before in prop::collection::vec(any(), 0..20),
            listed in prop::collection::vec(pods(), 0..8),
            meanwhile in prop::collection::vec(of_the_ledger(), 0..8),
        ) {
            let [store, without_list, listed_first] = [(); 3].map(|()| {
                let store = PodStore::new();
                for step in &before {
                    take(&store, step);
                }
                store
            });
            let turn = store.turn();
            let changed = store.beside(|copy| {
                for step in &meanwhile {
                    take(&store, step);
                    take(&without_list, step);
                    assert_eq!(said(&store), said(&without_list));
                }
                copy.replace(&listed)
            });
            drop(turn);
            prop_assert_eq!(changed, listed_first.replace(&listed));
            for step in &meanwhile {
                take(&listed_first, step);
            }
            prop_assert_eq!(said(&store), said(&listed_first));
        }
    }

    #[test]
    fn pods_are_found_by_any_number_of_label_keys_and_the_first_keys_stay_indexed() {
        let keys: Vec<String> = (0..40).map(|key| format!("k{key:02}")).collect();
        let labelled = |name: &str, node: &str, value: &str| {
            let labels = keys.iter().map(|key| (key.clone(), value.to_owned()));
            Arc::new(Pod {
                name: name.to_owned(),
                uid: name.to_owned(),
                node_name: word(node),
                labels: labels.collect(),
                ..Pod::default()
            })
        };
        let store = PodStore::new();
        for (name, node, value) in [("bound", "a", "x"), ("waits", "", "x"), ("other", "a", "y")] {
            store.applied(&labelled(name, node, value));
        }
        let assumed = labelled("assumed", "", "x");
        store.applied(&assumed);
        store.assume(&assumed, "b").expect("has a UID");
        for _ in 0..2 {
            for key in &keys {
                let found = store.with_label("", key, "x").expect("all labels");
                let found = found.iter().map(|pod| (&*pod.name, &*pod.node_name));
                let mut found: Vec<(&str, &str)> = found.collect();
                found.sort_unstable();
                assert_eq!(found, [("assumed", "b"), ("bound", "a"), ("waits", "")]);
                assert_eq!(store.with_label("other", key, "x"), Ok(Vec::new()));
            }
            let snapshot = store.snapshot();
            assert!(snapshot.labelled().get("", &keys[0], "x").is_some());
        }
    }

    #[test]
    fn no_verb_waits_for_a_list_to_be_taken_in() {
        let store = PodStore::new();
        store.applied(&pod(0, 0, "a", "Running", "x"));
        let (answered, answer) = mpsc::channel();
        std::thread::scope(|threads| {
            let _turn = store.turn();
            store.beside(|_| {
                threads.spawn(|| {
                    let waiting = pod(1, 1, "", "Pending", "x");
                    store.assume(&waiting, "a").expect("has a UID");
                    let beside = store.with_label("", "group", "x");
                    let found = beside.map(|pods| pods.len());
                    let counted = store.snapshot().len() + store.pods().len();
                    answered.send((found, counted, store.forget("u11")))
                });
                let said = answer.recv_timeout(PATIENCE).expect("no answer");
                assert_eq!(said, (Ok(2), 3, true));
                false
            });
        });
    }
}
