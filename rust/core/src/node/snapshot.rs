//! `Snapshot`: the content of a node store at one moment.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;

use super::mask::Mask;
use super::names::Names;
use super::record::Node;
use super::source::Source;
use crate::labels::Selector;

/// A node as a node store keeps it, with the bytes of its JSON and the last request that had it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) node: Arc<Node>,
    /// The bytes of the node's JSON, by which a request store recognises the node; None in a
    /// watched store.
    pub(crate) source: Option<Source>,
    /// The number of the last request that had the node.
    pub(crate) seen: AtomicU32,
}

pub(crate) type Rows = crate::rows::Rows<Stored>;

/// The content of a node store at one moment; never changes.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) rows: Rows,
    pub(crate) names: Arc<Names>,
    pub(crate) masks: Arc<MaskCache>,
}

impl Snapshot {
    pub(crate) fn stored(&self, row: u32) -> Option<&Arc<Stored>> {
        self.rows.get(row)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Stored>> {
        self.stored(self.names.row_of(name.as_bytes())?)
    }

    /// Returns the mask of the rows whose nodes' labels satisfy a selector; results are cached.
    pub(crate) fn matching_rows(&self, selector: &Selector) -> Arc<Mask> {
        self.masks.get(selector, &self.rows)
    }
}

/// The most selectors whose results are cached; plugins use few, and a result is cheap to compute.
const MOST_SELECTORS: usize = 64;

/// The cached results of selectors over all rows, shared by snapshots with equal labels.
#[derive(Debug, Default)]
pub(crate) struct MaskCache(Mutex<HashMap<Selector, Arc<Mask>, RandomState>>);

impl MaskCache {
    fn get(&self, selector: &Selector, rows: &Rows) -> Arc<Mask> {
        if let Some(known) = self.lock().get(selector) {
            return known.clone();
        }
        let mask = Arc::new(Mask::from_fn(rows.end(), |row| {
            matches(rows, row as u32, selector)
        }));
        let mut masks = self.lock();
        if masks.len() >= MOST_SELECTORS {
            masks.clear();
        }
        masks.insert(selector.clone(), mask.clone());
        mask
    }

    /// Returns the cache for a snapshot in which the labels of the `changed` rows differ.
    pub(crate) fn updated(&self, rows: &Rows, changed: &[u32]) -> Self {
        let known: Vec<_> = {
            let masks = self.lock();
            let shared = masks
                .iter()
                .map(|(selector, old)| (selector.clone(), old.clone()));
            shared.collect()
        };
        let masks = known.into_iter().map(|(selector, old)| {
            let mut mask = old.grown_to(rows.end());
            for &row in changed {
                mask.set(row as usize, matches(rows, row, &selector));
            }
            (selector, Arc::new(mask))
        });
        Self(Mutex::new(masks.collect()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Selector, Arc<Mask>, RandomState>> {
        // Whole entries are inserted, so a panic elsewhere leaves nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn matches(rows: &Rows, row: u32, selector: &Selector) -> bool {
    rows.get(row)
        .is_some_and(|stored| node_matches(&stored.node, selector))
}

pub(crate) fn node_matches(node: &Node, selector: &Selector) -> bool {
    selector.matches(node.labels())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_a_few_selectors_are_kept_and_no_more() {
        let (masks, rows) = (MaskCache::default(), Rows::default());
        let selector = |i: usize| Selector::parse(&format!("x={i}")).expect("a selector");
        let mut most = 0;
        for i in 0..10 * MOST_SELECTORS {
            masks.get(&selector(i), &rows);
            masks.get(&selector(i), &rows);
            most = most.max(masks.lock().len());
        }
        assert_eq!(most, MOST_SELECTORS);
    }
}
