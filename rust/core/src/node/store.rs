//! `NodeStore`: the nodes of a cluster, filled by list and watch.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use super::details::Parts;
use super::record::Node;
use super::snapshot::Stored;
use super::table::{NodeStoreStats, NodeTable, Writer};

/// A store of the nodes of a cluster, which only list and watch change.
#[derive(Debug, Default)]
pub struct NodeStore {
    /// Locked by the watch during a whole change. No verb waits for this lock.
    watch: Mutex<()>,
    table: Arc<NodeTable>,
}

/// Gives access to the table, whose public methods only read.
impl Deref for NodeStore {
    type Target = NodeTable;

    fn deref(&self) -> &NodeTable {
        &self.table
    }
}

impl NodeStore {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty store that keeps these optional parts of nodes too.
    pub fn with_parts(parts: Parts) -> Self {
        Self {
            table: NodeTable::with_parts(parts),
            ..Self::default()
        }
    }

    /// Returns the table of the store.
    pub fn table(&self) -> &Arc<NodeTable> {
        &self.table
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> NodeStoreStats {
        self.table.stats(0)
    }

    /// Replaces the content of the store by these nodes; of equal names the last counts. Returns
    /// true if any field changed that plugins read.
    ///
    /// Unchanged nodes are found before the writer is locked.
    pub(crate) fn replace(&self, listed: &[Arc<Node>]) -> bool {
        let _turn = self.turn();
        let known = self.table.snapshot();
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
        let changed = !differing.is_empty() || !gone.is_empty();
        let mut writer = self.table.lock();
        for node in differing {
            put_if_changed(&mut writer, node.clone());
        }
        let gone = writer.remove(&gone);
        self.table.outdated(changed);
        drop(writer);
        drop(gone);
        changed
    }

    /// Stores an added or modified node. Returns true if any field changed that plugins read.
    pub(crate) fn applied(&self, node: Arc<Node>) -> bool {
        let _turn = self.turn();
        let mut writer = self.table.lock();
        let changed = put_if_changed(&mut writer, node);
        self.table.outdated(changed);
        changed
    }

    /// Removes the node with this name. Returns true if the node was stored.
    pub(crate) fn deleted(&self, name: &str) -> bool {
        let _turn = self.turn();
        let mut writer = self.table.lock();
        let row = writer.row_of(name);
        let changed = row.is_some_and(|row| !writer.remove(&[row]).is_empty());
        self.table.outdated(changed);
        changed
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a node that differs from the stored one; returns true if it differs.
fn put_if_changed(writer: &mut Writer, node: Arc<Node>) -> bool {
    let row = writer.row_of(node.name());
    let old = row.and_then(|row| writer.rows.get(row));
    if old.is_some_and(|old| old.node == node) {
        return false;
    }
    writer.put(node, None, 0);
    true
}
