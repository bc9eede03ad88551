//! `RequestStore`: the nodes that requests bring whole, recognised by their bytes.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::details::Parts;
use super::record::Node;
use super::snapshot::Stored;
use super::source::{Body, Segment, Source, Span};
use super::table::{NodeStoreStats, NodeTable, Writer};

/// How many requests come between two sweeps, in which a request store drops nodes that no recent
/// request had.
const SWEEP_EVERY: u32 = 256;

/// How many requests without a node it takes until a request store drops the node.
const FORGOTTEN_AFTER: i32 = 4096;

/// A store of the nodes that requests bring whole; only such requests change it.
#[derive(Debug)]
pub struct RequestStore {
    table: Arc<NodeTable>,
    /// Locked before the table's writer, and only by requests that change the store and by `stats`.
    kept: Mutex<Kept>,
    generation: AtomicU32,
    max_bytes: u64,
}

/// A node of a request with whole nodes that the store did not recognise.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) node: Arc<Node>,
    pub(crate) span: Span,
}

/// Gives access to the table, whose public methods only read.
impl Deref for RequestStore {
    type Target = NodeTable;

    fn deref(&self) -> &NodeTable {
        &self.table
    }
}

impl RequestStore {
    /// Makes an empty store that keeps at most `max_bytes` of nodes' JSON.
    pub fn new(max_bytes: u64) -> Self {
        Self::with_parts(max_bytes, Parts::default())
    }

    /// Makes an empty store that keeps these optional parts of nodes too.
    pub fn with_parts(max_bytes: u64, parts: Parts) -> Self {
        Self {
            table: NodeTable::with_parts(parts),
            kept: Mutex::default(),
            generation: AtomicU32::new(0),
            max_bytes,
        }
    }

    /// Returns the table of the store.
    pub fn table(&self) -> &Arc<NodeTable> {
        &self.table
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> NodeStoreStats {
        self.table.stats(self.lock().bytes)
    }

    pub(crate) fn next_generation(&self) -> u32 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Tells the pool of strings how many strings nodes had that the store does not keep.
    pub(crate) fn lost(&self, strings: usize) {
        if strings > 0 {
            self.table.with_strings(|pool| pool.lost(strings));
        }
    }

    /// Stores those nodes of a request that the store did not recognise. Call this only after the
    /// request's whole body proved valid.
    pub(crate) fn merge(&self, body: &Body, fresh: &[Fresh], generation: u32) {
        let size: u64 = fresh.iter().map(|fresh| u64::from(fresh.span.len)).sum();
        let raw: u64 = fresh.iter().map(|fresh| raw_bytes(&fresh.node)).sum();
        if fresh.is_empty() || size + raw > self.max_bytes {
            return self.lost(fresh.iter().map(|fresh| fresh.node.pooled()).sum());
        }
        let (mut kept, mut writer) = (self.lock(), self.table.lock());
        // Copying most of a body into fresh memory costs more than reading it did.
        let adopt = 2 * size >= body.bytes().len() as u64;
        let segment = adopt.then(|| kept.adopt(body, size as u32));
        kept.bytes += raw;
        let mut replaced = Vec::new();
        for Fresh { node, span } in fresh {
            let source = match &segment {
                Some(segment) => Source {
                    segment: segment.clone(),
                    span: *span,
                },
                None => kept.copy_in(span.of(body.bytes())),
            };
            replaced.extend(writer.put(node.clone(), Some(source), generation));
        }
        // A name that comes twice replaces itself; its segment must be whole before that counts.
        kept.release_all(&mut writer, &replaced);
        kept.sweep(&mut writer, generation);
        kept.shrink_to(&mut writer, self.max_bytes);
        self.table.outdated(true);
        self.lost(std::mem::take(&mut kept.lost));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes of the JSON that a plugin can read, which is a copy of its own.
fn raw_bytes(node: &Node) -> u64 {
    node.raw().map_or(0, |raw| raw.len() as u64)
}

/// The bytes of nodes' JSON that a request store keeps, and when it last dropped old nodes.
#[derive(Debug, Default)]
struct Kept {
    bytes: u64,
    swept: u32,
    /// How many strings of the pool removed nodes had, of which the pool is not told yet.
    lost: usize,
}

impl Kept {
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

    /// Removes the nodes of these rows with their bytes.
    fn remove(&mut self, writer: &mut Writer, rows: &[u32]) {
        let gone = writer.remove(rows);
        self.release_all(writer, &gone);
    }

    /// Releases the bytes of nodes that are no longer stored. Copies the other nodes out of blocks
    /// of bytes of which less than half still belongs to stored nodes.
    fn release_all(&mut self, writer: &mut Writer, gone: &[Arc<Stored>]) {
        self.lost += gone
            .iter()
            .map(|stored| stored.node.pooled())
            .sum::<usize>();
        self.bytes -= gone
            .iter()
            .map(|stored| raw_bytes(&stored.node))
            .sum::<u64>();
        let mut left_behind = 0;
        for source in gone.iter().filter_map(|stored| stored.source.as_ref()) {
            if let Some(left) = source.segment.lose(source.span.len) {
                self.bytes -= source.segment.size();
                left_behind += left;
            }
        }
        // Most segments hold one node and die with it: then there is nothing to look for.
        if left_behind > 0 {
            self.copy_out(writer);
        }
    }

    /// Copies the bytes of nodes out of blocks of which less than half belongs to stored nodes.
    fn copy_out(&mut self, writer: &mut Writer) {
        let left_behind = |stored: &Stored| {
            let source = stored.source.as_ref();
            source.is_some_and(|source| source.segment.is_given_up())
        };
        let survivors: Vec<(u32, Arc<Stored>)> = writer
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
            writer.rows.set(row, Some(Arc::new(moved)));
        }
    }

    /// Drops the nodes that none of the last `FORGOTTEN_AFTER` requests had.
    fn sweep(&mut self, writer: &mut Writer, generation: u32) {
        if generation.wrapping_sub(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = generation;
        let forgotten: Vec<u32> = writer
            .rows
            .iter()
            .filter(|(_, stored)| {
                let seen = stored.seen.load(Ordering::Relaxed);
                // Another request may have seen it in a later generation than this one's.
                generation.wrapping_sub(seen).cast_signed() > FORGOTTEN_AFTER
            })
            .map(|(row, _)| row)
            .collect();
        self.remove(writer, &forgotten);
    }

    /// Drops the least recently seen nodes until their bytes are within the limit.
    fn shrink_to(&mut self, writer: &mut Writer, max_bytes: u64) {
        if self.bytes <= max_bytes {
            return;
        }
        let mut by_age: Vec<(u32, u32, u64)> = writer
            .rows
            .iter()
            .map(|(row, stored)| {
                let source = stored.source.as_ref();
                let block = source.map_or(0, |source| source.segment.size());
                let seen = stored.seen.load(Ordering::Relaxed);
                (seen, row, block + raw_bytes(&stored.node))
            })
            .collect();
        by_age.sort_unstable();
        let mut by_age = by_age.into_iter();
        while self.bytes > max_bytes && by_age.len() > 0 {
            // Each call of `remove` may look at every node. A node lets go of its whole block at
            // most, so that no call removes too many, and one call may not be enough.
            let (mut rows, mut left) = (Vec::new(), self.bytes - max_bytes);
            while left > 0
                && let Some((_, row, most)) = by_age.next()
            {
                rows.push(row);
                left = left.saturating_sub(most);
            }
            self.remove(writer, &rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores a node that a request of this generation brought.
    fn bring(store: &RequestStore, name: &'static str, generation: u32) {
        let node = Arc::new(Node::called(name));
        let span = Span::between(0, name.len());
        store.merge(&Body::new(name), &[Fresh { node, span }], generation);
    }

    #[test]
    fn the_json_that_plugins_read_counts_beside_that_by_which_nodes_are_recognised() {
        const NODE: &str = "a node's JSON of forty bytes, more or less";
        let store = RequestStore::new(10 * 2 * NODE.len() as u64);
        for number in 0..100 {
            let name = ["n", &number.to_string()].concat();
            let raw = Some(NODE.as_bytes().into());
            let node = Arc::new(Node {
                raw,
                ..Node::called(&name)
            });
            let span = Span::between(0, NODE.len());
            store.merge(&Body::new(NODE), &[Fresh { node, span }], number);
            let bytes = store.stats().bytes;
            assert_eq!(bytes, u64::from(number + 1).min(10) * 2 * NODE.len() as u64);
        }
    }

    #[test]
    fn a_request_that_took_long_drops_nothing_that_later_ones_have_seen() {
        for (late, early) in [(5000, 4999), (5000, 1), (3, u32::MAX - 5)] {
            let store = RequestStore::new(1 << 20);
            bring(&store, "seen", late);
            bring(&store, "slow", early);
            assert!(store.contains("seen") && store.contains("slow"), "{early}");
        }
    }
}
