//! Each distinct string once.

use std::collections::HashSet;
use std::sync::Arc;

use ahash::RandomState;

/// Label keys and values repeat from node to node; a string lives as long as a node names it.
#[derive(Debug)]
pub(crate) struct Strings {
    known: HashSet<Arc<str>, RandomState>,
    purge_at: usize,
}

const SMALLEST_PURGE: usize = 4096;

impl Default for Strings {
    fn default() -> Self {
        Self {
            known: HashSet::default(),
            purge_at: SMALLEST_PURGE,
        }
    }
}

impl Strings {
    pub(crate) fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.purge_at {
            self.purge();
        }
        let new: Arc<str> = text.into();
        self.known.insert(new.clone());
        new
    }

    /// Drops what no node names any more; done again when the rest has doubled.
    fn purge(&mut self) {
        self.known.retain(|text| Arc::strong_count(text) > 1);
        self.purge_at = SMALLEST_PURGE.max(2 * self.known.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_no_node_names_are_dropped() {
        let mut strings = Strings::default();
        let kept: Vec<_> = (0..100)
            .map(|i| strings.intern(&format!("kept-{i}")))
            .collect();
        for i in 0..10 * SMALLEST_PURGE {
            strings.intern(&format!("passing-{i}"));
        }
        assert!(strings.known.len() <= SMALLEST_PURGE);
        assert!(Arc::ptr_eq(&strings.intern("kept-7"), &kept[7]));
    }
}
