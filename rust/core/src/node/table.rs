//! `NodeTable`: parsed nodes by name, changed by one writer and read through snapshots.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ahash::HashMap;

use super::columns::Columns;
use super::details::Parts;
use super::names::Names;
use super::record::{Field, Labels, Node};
use super::selection::Nodes;
use super::snapshot::{MaskCache, Rows, Snapshot, Stored};
use super::source::Source;
use crate::pool::Strings;
use crate::published::Published;

/// The nodes of a `NodeStore` or of a `RequestStore`, for any number of readers on immutable
/// snapshots. Only the store changes its table.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// The state that changes; locked for moments only.
    writer: Mutex<Writer>,
    strings: Mutex<Strings>,
    parts: Parts,
    published: Published<Snapshot>,
    /// What `kept` returned last, as long as somebody keeps it.
    kept: Mutex<Weak<Nodes>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Statistics of a store of nodes: its size, and how many nodes of requests the store knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStoreStats {
    /// The number of stored nodes.
    pub nodes: u64,
    /// Bytes of nodes' JSON that a request store keeps, to recognise the nodes; else 0.
    pub bytes: u64,
    /// How many nodes of requests were recognised by their bytes or known by name, since the start.
    pub hits: u64,
    /// How many nodes of requests were new, changed or unknown, since the start.
    pub misses: u64,
}

impl NodeTable {
    /// Makes an empty table whose store keeps these parts of nodes.
    pub(super) fn with_parts(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            ..Self::default()
        })
    }

    /// The optional parts of nodes that the store keeps.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// Returns all nodes of the store.
    pub fn nodes(&self) -> Nodes {
        let snapshot = self.snapshot();
        let mut nodes = Nodes::over(snapshot.clone(), snapshot.names.len());
        for (row, _) in snapshot.rows.iter() {
            nodes.push_row(row);
        }
        nodes
    }

    /// Returns the nodes of these names, in order; a name that is not stored gives a node that has
    /// only a name.
    pub fn select<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Nodes {
        let mut nodes = Nodes::over(self.snapshot(), 0);
        for name in names {
            nodes.push_name(name);
        }
        nodes
    }

    /// Returns the node with this name as a selection of one node; None if the store has no such
    /// node.
    pub fn named(&self, name: &str) -> Option<Nodes> {
        let mut nodes = Nodes::over(self.snapshot(), 1);
        nodes.push_name(name);
        (nodes.known_count() == 1).then_some(nodes)
    }

    /// Returns nodes to keep for long: if the nodes that were kept last are the same and somebody
    /// still has them, those, else the given ones.
    ///
    /// kube-scheduler asks about the same nodes in the same order for one pod after the other. Memory
    /// that somebody keeps of each request is not in the processor's cache for the next request.
    pub fn kept(&self, nodes: &Arc<Nodes>) -> Arc<Nodes> {
        let last = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = last().upgrade();
        match kept {
            Some(kept) if kept.is_same_as(nodes) => kept,
            _ => {
                *last() = Arc::downgrade(nodes);
                nodes.clone()
            }
        }
    }

    /// Returns the given nodes as the store has them now; nodes that a request itself brought are
    /// unchanged.
    pub fn latest(&self, nodes: &Nodes) -> Nodes {
        nodes.looked_up_in(self.snapshot())
    }

    /// Whether a node of this name is stored.
    pub fn contains(&self, name: &str) -> bool {
        self.snapshot().names.row_of(name.as_bytes()).is_some()
    }

    /// Returns a snapshot of the store that has every write from before this call.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.published.latest(|| self.lock(), Writer::publish)
    }

    pub(crate) fn with_strings<T>(&self, work: impl FnOnce(&mut Strings) -> T) -> T {
        work(&mut self.strings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn count(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.misses.fetch_add(misses as u64, Ordering::Relaxed);
    }

    /// Returns the statistics of a store that keeps so many bytes.
    pub(super) fn stats(&self, bytes: u64) -> NodeStoreStats {
        NodeStoreStats {
            nodes: self.lock().by_name.len() as u64,
            bytes,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Marks the snapshot as stale if `changed` is true. The caller holds the writer's lock.
    pub(super) fn outdated(&self, changed: bool) {
        self.published.outdated(changed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a table that the writer changes; readers see changes only in the next snapshot.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) rows: Rows,
    by_name: HashMap<Arc<str>, u32>,
    /// The names in the latest snapshot; None after a name was added or removed.
    names: Option<Arc<Names>>,
    masks: Arc<MaskCache>,
    labels: Arc<Columns>,
    annotations: Arc<Columns>,
    /// Rows whose labels have changed since the latest snapshot.
    relabelled: HashSet<u32>,
    /// Rows whose annotations have changed since the latest snapshot.
    annotated: HashSet<u32>,
    free: Vec<u32>,
}

/// Whether a field that a node had and a field that it has are the same, with their memory.
fn same(old: Option<&Labels>, new: Option<&Labels>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => new.shares_all_with(old),
        (old, new) => old.is_none() && new.is_none(),
    }
}

impl Writer {
    fn publish(&mut self) -> Snapshot {
        if !self.relabelled.is_empty() {
            let changed = std::mem::take(&mut self.relabelled);
            self.masks = Arc::new(self.masks.updated(&self.rows, &changed));
            self.labels = Arc::new(self.labels.updated(Field::Labels, &self.rows, &changed));
        }
        if !self.annotated.is_empty() {
            let changed = std::mem::take(&mut self.annotated);
            let annotations = &self.annotations;
            self.annotations =
                Arc::new(annotations.updated(Field::Annotations, &self.rows, &changed));
        }
        let rows = &self.rows;
        let names = self.names.get_or_insert_with(|| Arc::new(Names::of(rows)));
        Snapshot {
            rows: self.rows.clone(),
            names: names.clone(),
            masks: self.masks.clone(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
        }
    }

    /// Stores a node; returns the earlier node of the same name.
    pub(super) fn put(
        &mut self,
        node: Arc<Node>,
        source: Option<Source>,
        seen: u32,
    ) -> Option<Arc<Stored>> {
        let row = self.row_for(&node);
        let old = self.rows.get(row).map(|old| &*old.node);
        let stays = |field: Field| {
            let old = old.map(|old| field.of(old));
            old.is_some_and(|old| same(old, field.of(&node)))
        };
        let [labels_stay, annotations_stay] = [Field::Labels, Field::Annotations].map(stays);
        if !labels_stay {
            self.relabelled.insert(row);
        }
        if !annotations_stay {
            self.annotated.insert(row);
        }
        let stored = Stored {
            node,
            source,
            seen: AtomicU32::new(seen),
        };
        self.rows.set(row, Some(Arc::new(stored)))
    }

    /// Returns the row of a name.
    pub(super) fn row_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    fn row_for(&mut self, node: &Node) -> u32 {
        if let Some(&row) = self.by_name.get(node.name()) {
            return row;
        }
        let row = self.free.pop().unwrap_or(self.by_name.len() as u32);
        self.by_name.insert(node.shared_name().clone(), row);
        self.names = None;
        row
    }

    /// Removes the nodes of these rows, and returns them.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Vec<Arc<Stored>> {
        let mut removed = Vec::with_capacity(rows.len());
        for &row in rows {
            let Some(old) = self.rows.set(row, None) else {
                continue;
            };
            self.by_name.remove(old.node.name());
            self.names = None;
            self.free.push(row);
            self.relabelled.insert(row);
            self.annotated.insert(row);
            removed.push(old);
        }
        removed
    }
}
