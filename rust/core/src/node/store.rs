//! `NodeStore`: the parsed nodes of a cluster, changed by one writer and read through snapshots.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use super::names::Names;
use super::record::Node;
use super::selection::Nodes;
use super::snapshot::{MaskCache, Rows, Snapshot, Stored};
use super::source::{Body, Segment, Source, Span};
use crate::pool::Strings;
use crate::published::Published;

/// How many requests come between two sweeps, in which a request store drops nodes that no recent
/// request had.
const SWEEP_EVERY: u32 = 256;

/// How many requests without a node it takes until a request store drops the node.
const FORGOTTEN_AFTER: i32 = 4096;

/// A store of parsed nodes, for one writer and any number of readers on immutable snapshots.
///
/// A store has one of two uses. List and watch fill a watched store (`replace`, `applied`,
/// `deleted`). Requests with whole nodes fill a request store. After a watch has filled a store, no
/// request changes the store.
#[derive(Debug)]
pub struct NodeStore {
    /// Locked by the watch during a whole change. No verb waits for this lock.
    watch: Mutex<()>,
    /// The state that changes; locked for moments only.
    writer: Mutex<Writer>,
    strings: Mutex<Strings>,
    published: Published<Snapshot>,
    generation: AtomicU32,
    hits: AtomicU64,
    misses: AtomicU64,
    max_bytes: u64,
}

/// Statistics of a node store: its size, and how many nodes of requests the store knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStoreStats {
    /// The number of stored nodes.
    pub nodes: u64,
    /// Bytes of nodes' JSON that a request store keeps, to recognise the nodes.
    pub bytes: u64,
    /// How many nodes of requests were recognised by their bytes or known by name, since the start.
    pub hits: u64,
    /// How many nodes of requests were new, changed or unknown, since the start.
    pub misses: u64,
}

/// A node of a request with whole nodes that the store did not recognise.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) node: Arc<Node>,
    pub(crate) span: Span,
}

impl NodeStore {
    /// Makes an empty store that keeps at most `max_bytes` of nodes' JSON as a request store.
    pub fn new(max_bytes: u64) -> Self {
        Self {
            watch: Mutex::default(),
            writer: Mutex::default(),
            strings: Mutex::default(),
            published: Published::default(),
            generation: AtomicU32::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            max_bytes,
        }
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

    /// Returns the given nodes as the store has them now; nodes that a request itself brought are
    /// unchanged.
    pub fn latest(&self, nodes: &Nodes) -> Nodes {
        nodes.looked_up_in(self.snapshot())
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> NodeStoreStats {
        let writer = self.lock();
        NodeStoreStats {
            nodes: writer.by_name.len() as u64,
            bytes: writer.bytes,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
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

    pub(crate) fn next_generation(&self) -> u32 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn count(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        self.misses.fetch_add(misses as u64, Ordering::Relaxed);
    }

    /// Stores those nodes of a request that the store did not recognise. Call this only after the
    /// request's whole body proved valid.
    pub(crate) fn merge(&self, body: &Body, fresh: &[Fresh], generation: u32) {
        let size: u64 = fresh.iter().map(|fresh| u64::from(fresh.span.len)).sum();
        if fresh.is_empty() || size > self.max_bytes {
            return;
        }
        let mut writer = self.lock();
        if writer.watched {
            return;
        }
        // Copying most of a body into fresh memory costs more than reading it did.
        let adopt = 2 * size >= body.bytes().len() as u64;
        let segment = adopt.then(|| writer.adopt(body, size as u32));
        let mut replaced = Vec::new();
        for Fresh { node, span } in fresh {
            let source = match &segment {
                Some(segment) => Source {
                    segment: segment.clone(),
                    span: *span,
                },
                None => writer.copy_in(span.of(body.bytes())),
            };
            replaced.extend(writer.put(node.clone(), Some(source), generation).1);
        }
        // A name that comes twice replaces itself; its segment must be whole before that counts.
        writer.release_all(&replaced);
        writer.sweep(generation);
        writer.shrink_to(self.max_bytes);
        self.published.outdated(true);
    }

    /// Replaces the content of the store by these nodes; of equal names the last counts. Returns
    /// true if any field changed that plugins read.
    ///
    /// Unchanged nodes are found before the writer is locked.
    pub(crate) fn replace(&self, listed: &[Arc<Node>]) -> bool {
        let _turn = self.turn();
        let emptied = {
            let mut writer = self.lock();
            let emptied = writer.become_watched();
            self.published.outdated(emptied);
            emptied
        };
        let known = self.snapshot();
        let last: HashMap<&str, &Arc<Node>> =
            listed.iter().map(|node| (node.name(), node)).collect();
        let differs = |node: &&Arc<Node>| {
            let is_last = std::ptr::eq(last[node.name()], *node);
            is_last
                && known
                    .named(node.name())
                    .is_none_or(|old| old.node != **node)
        };
        // In the order of the list, which requests have too.
        let differing: Vec<&Arc<Node>> = listed.iter().filter(differs).collect();
        let is_gone = |stored: &Stored| !last.contains_key(stored.node.name());
        let gone = known.rows.iter().filter(|(_, stored)| is_gone(stored));
        let gone: Vec<u32> = gone.map(|(row, _)| row).collect();
        let changed = emptied || !differing.is_empty() || !gone.is_empty();
        let mut writer = self.lock();
        for node in differing {
            writer.put_if_changed(node.clone());
        }
        writer.remove_all(&gone);
        self.published.outdated(changed);
        drop(writer);
        changed
    }

    /// Stores an added or modified node. Returns true if any field changed that plugins read.
    pub(crate) fn applied(&self, node: Arc<Node>) -> bool {
        let _turn = self.turn();
        let mut writer = self.lock();
        writer.become_watched();
        let changed = writer.put_if_changed(node);
        self.published.outdated(changed);
        changed
    }

    /// Removes the node with this name. Returns true if the node was stored.
    pub(crate) fn deleted(&self, name: &str) -> bool {
        let _turn = self.turn();
        let mut writer = self.lock();
        let emptied = writer.become_watched();
        let changed = writer.remove_named(name) || emptied;
        self.published.outdated(changed);
        changed
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the store that the writer changes; readers see changes only in the next snapshot.
#[derive(Debug, Default)]
struct Writer {
    rows: Rows,
    by_name: HashMap<Arc<str>, u32>,
    /// The names in the latest snapshot; None after a name was added or removed.
    names: Option<Arc<Names>>,
    masks: Arc<MaskCache>,
    /// Rows whose labels have changed since the latest snapshot.
    relabelled: Vec<u32>,
    free: Vec<u32>,
    bytes: u64,
    watched: bool,
    swept: u32,
}

impl Writer {
    fn publish(&mut self) -> Snapshot {
        if !self.relabelled.is_empty() {
            self.masks = Arc::new(self.masks.updated(&self.rows, &self.relabelled));
            self.relabelled.clear();
        }
        let rows = &self.rows;
        let names = self.names.get_or_insert_with(|| Arc::new(Names::of(rows)));
        Snapshot {
            rows: self.rows.clone(),
            names: names.clone(),
            masks: self.masks.clone(),
        }
    }

    /// Makes the store a watched store, and drops the nodes of requests. Returns true if there were
    /// any.
    fn become_watched(&mut self) -> bool {
        if self.watched {
            return false;
        }
        self.watched = true;
        let rows: Vec<u32> = self.rows.iter().map(|(row, _)| row).collect();
        self.remove_all(&rows);
        !rows.is_empty()
    }

    fn adopt(&mut self, body: &Body, alive: u32) -> Arc<Segment> {
        let segment = Segment::new(body.clone());
        segment.grow(alive);
        self.bytes += segment.size();
        segment
    }

    fn copy_in(&mut self, bytes: &[u8]) -> Source {
        let source = Source::copied(bytes);
        source.segment.grow(source.span.len);
        self.bytes += source.segment.size();
        source
    }

    /// Stores a node; returns its row and the row's earlier node, whose bytes the caller releases.
    fn put(
        &mut self,
        node: Arc<Node>,
        source: Option<Source>,
        seen: u32,
    ) -> (u32, Option<Arc<Stored>>) {
        let row = self.row_for(&node);
        let labels_stay = self
            .rows
            .get(row)
            .is_some_and(|old| old.node.labels() == node.labels());
        if !labels_stay {
            self.relabelled.push(row);
        }
        let stored = Stored {
            node,
            source,
            seen: AtomicU32::new(seen),
        };
        (row, self.rows.set(row, Some(Arc::new(stored))))
    }

    fn put_if_changed(&mut self, node: Arc<Node>) -> bool {
        let row = self.by_name.get(node.name());
        if row.is_some_and(|&row| self.rows.get(row).is_some_and(|old| old.node == node)) {
            return false;
        }
        // A watched store keeps no bytes, so there are none to release.
        self.put(node, None, 0);
        true
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

    fn remove_named(&mut self, name: &str) -> bool {
        let row = self.by_name.get(name).copied();
        row.map(|row| self.remove_all(&[row])).is_some()
    }

    fn remove_all(&mut self, rows: &[u32]) {
        let mut removed = Vec::with_capacity(rows.len());
        for &row in rows {
            let Some(old) = self.rows.set(row, None) else {
                continue;
            };
            self.by_name.remove(old.node.name());
            self.names = None;
            self.free.push(row);
            self.relabelled.push(row);
            removed.push(old);
        }
        self.release_all(&removed);
    }

    /// Releases the bytes of nodes that are no longer stored. Copies the other nodes out of blocks
    /// of bytes of which less than half still belongs to stored nodes.
    fn release_all(&mut self, gone: &[Arc<Stored>]) {
        let mut left_behind = 0;
        for source in gone.iter().filter_map(|stored| stored.source.as_ref()) {
            if let Some(left) = source.segment.lose(source.span.len) {
                self.bytes -= source.segment.size();
                left_behind += left;
            }
        }
        // Most segments hold one node and die with it: then there is nothing to look for.
        if left_behind > 0 {
            self.copy_out();
        }
    }

    /// Copies the bytes of nodes out of blocks of which less than half belongs to stored nodes.
    fn copy_out(&mut self) {
        let left_behind = |stored: &Stored| {
            let source = stored.source.as_ref();
            source.is_some_and(|source| source.segment.is_given_up())
        };
        let survivors: Vec<(u32, Arc<Stored>)> = self
            .rows
            .iter()
            .filter(|(_, stored)| left_behind(stored))
            .map(|(row, stored)| (row, stored.clone()))
            .collect();
        for (row, stored) in survivors {
            let source = stored.source.as_ref().map(|old| self.copy_in(old.bytes()));
            let moved = Stored {
                node: stored.node.clone(),
                source,
                seen: AtomicU32::new(stored.seen.load(Ordering::Relaxed)),
            };
            self.rows.set(row, Some(Arc::new(moved)));
        }
    }

    /// Drops the nodes that none of the last `FORGOTTEN_AFTER` requests had.
    fn sweep(&mut self, generation: u32) {
        if generation.wrapping_sub(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = generation;
        let forgotten: Vec<u32> = self
            .rows
            .iter()
            .filter(|(_, stored)| {
                let seen = stored.seen.load(Ordering::Relaxed);
                // Another request may have seen it in a later generation than this one's.
                generation.wrapping_sub(seen).cast_signed() > FORGOTTEN_AFTER
            })
            .map(|(row, _)| row)
            .collect();
        self.remove_all(&forgotten);
    }

    /// Drops the least recently seen nodes until their bytes are within the limit.
    fn shrink_to(&mut self, max_bytes: u64) {
        if self.bytes <= max_bytes {
            return;
        }
        let mut by_age: Vec<(u32, u32)> = self
            .rows
            .iter()
            .map(|(row, stored)| (stored.seen.load(Ordering::Relaxed), row))
            .collect();
        by_age.sort_unstable();
        for (_, row) in by_age {
            if self.bytes <= max_bytes {
                break;
            }
            self.remove_all(&[row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores a node that a request of this generation brought.
    fn bring(store: &NodeStore, name: &'static str, generation: u32) {
        let node = Arc::new(Node::called(name));
        let span = Span::between(0, name.len());
        store.merge(&Body::new(name), &[Fresh { node, span }], generation);
    }

    #[test]
    fn a_request_that_took_long_drops_nothing_that_later_ones_have_seen() {
        for (late, early) in [(5000, 4999), (5000, 1), (3, u32::MAX - 5)] {
            let store = NodeStore::new(1 << 20);
            bring(&store, "seen", late);
            bring(&store, "slow", early);
            assert!(store.contains("seen") && store.contains("slow"), "{early}");
        }
    }
}
