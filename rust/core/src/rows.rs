//! The table of stored nodes: shared between snapshots, copied a chunk at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::record::Node;
use super::source::Source;

/// A node and what the store must know of it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) node: Arc<Node>,
    /// Its bytes, where full mode must recognise them.
    pub(crate) source: Option<Source>,
    /// The generation of the request that brought it last.
    pub(crate) seen: AtomicU32,
}

const CHUNK: usize = 64;

type Chunk = [Option<Arc<Stored>>; CHUNK];

/// Rows by number. A clone costs one pointer for every 64 rows; a change copies one chunk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows(Vec<Arc<Chunk>>);

impl Rows {
    pub(crate) fn get(&self, row: u32) -> Option<&Arc<Stored>> {
        let row = row as usize;
        self.0.get(row / CHUNK)?[row % CHUNK].as_ref()
    }

    /// Puts a node in a row and gives back what was there.
    pub(crate) fn set(&mut self, row: u32, stored: Option<Arc<Stored>>) -> Option<Arc<Stored>> {
        let row = row as usize;
        while self.0.len() <= row / CHUNK {
            self.0.push(Arc::new([const { None }; CHUNK]));
        }
        let chunk = Arc::make_mut(&mut self.0[row / CHUNK]);
        std::mem::replace(&mut chunk[row % CHUNK], stored)
    }

    /// One more than the highest row that can be occupied.
    pub(crate) fn end(&self) -> usize {
        self.0.len() * CHUNK
    }

    /// The occupied rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Stored>)> {
        self.0.iter().enumerate().flat_map(|(chunk, rows)| {
            rows.iter().enumerate().filter_map(move |(at, stored)| {
                stored
                    .as_ref()
                    .map(|stored| ((chunk * CHUNK + at) as u32, stored))
            })
        })
    }
}
