//! A table with numbered rows that is cheap to clone: clones share chunks of rows until one
//! changes.

use std::sync::Arc;

const CHUNK: usize = 64;

type Chunk<T> = [Option<Arc<T>>; CHUNK];

/// A table of rows by number. A clone copies one pointer for every 64 rows; a change of a clone
/// copies one chunk of 64 rows.
#[derive(Debug)]
pub(crate) struct Rows<T: ?Sized>(Vec<Arc<Chunk<T>>>);

impl<T: ?Sized> Default for Rows<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ?Sized> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Rows<T> {
    pub(crate) fn get(&self, row: u32) -> Option<&Arc<T>> {
        let row = row as usize;
        self.0.get(row / CHUNK)?[row % CHUNK].as_ref()
    }

    /// Sets or clears a row, and returns the row's earlier content.
    pub(crate) fn set(&mut self, row: u32, stored: Option<Arc<T>>) -> Option<Arc<T>> {
        std::mem::replace(self.place(row), stored)
    }

    /// Returns the place of a row for a change.
    pub(crate) fn place(&mut self, row: u32) -> &mut Option<Arc<T>> {
        let row = row as usize;
        while self.0.len() <= row / CHUNK {
            self.0.push(Arc::new([const { None }; CHUNK]));
        }
        &mut Arc::make_mut(&mut self.0[row / CHUNK])[row % CHUNK]
    }

    /// Returns one more than the number of the highest row that can be occupied.
    pub(crate) fn end(&self) -> usize {
        self.0.len() * CHUNK
    }

    /// Iterates over the occupied rows with their numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        self.0.iter().enumerate().flat_map(|(chunk, rows)| {
            rows.iter().enumerate().filter_map(move |(at, stored)| {
                stored
                    .as_ref()
                    .map(|stored| ((chunk * CHUNK + at) as u32, stored))
            })
        })
    }
}
