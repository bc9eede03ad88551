//! Each distinct value once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use ahash::RandomState;

/// Values that repeat from object to object; one lives as long as an object names it.
#[derive(Debug)]
pub(crate) struct Pool<T: ?Sized> {
    known: HashSet<Arc<T>, RandomState>,
    purge_at: usize,
}

/// Label keys and values, names of resources.
pub(crate) type Strings = Pool<str>;

const SMALLEST_PURGE: usize = 4096;

/// The API server takes no longer label key (253 + 1 + 63 bytes), nor value (63). What is longer is
/// no label of a real node; its bytes must not outlive the node that brought them.
const LONGEST: usize = 317;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: HashSet::default(),
            purge_at: SMALLEST_PURGE,
        }
    }
}

impl Strings {
    pub(crate) fn intern(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        self.keep(text.into())
    }
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    /// Puts the value that is kept already in the place of one that equals it. True if there is one.
    pub(crate) fn share(&self, value: &mut Arc<T>) -> bool {
        let known = self.known.get(value);
        known.map(|known| *value = known.clone()).is_some()
    }

    /// A number that equal values have in common.
    pub(crate) fn hash(&self, value: &T) -> u64 {
        self.known.hasher().hash_one(value)
    }

    /// Every value that is kept.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.known.iter().map(|value| &**value)
    }

    /// Takes a value from an object that goes: nobody else may name it.
    pub(crate) fn give_up(&mut self, value: Arc<T>) {
        // The pool's own, and this one. Nobody else can take it from the pool meanwhile.
        if Arc::strong_count(&value) == 2 {
            self.known.remove(&value);
        }
        drop(value);
    }

    /// Keeps a value that is not kept yet.
    pub(crate) fn keep(&mut self, new: Arc<T>) -> Arc<T> {
        if self.known.len() >= self.purge_at {
            self.purge();
        }
        self.known.insert(new.clone());
        new
    }

    /// Drops what no object names any more; done again when the rest has doubled.
    pub(crate) fn purge(&mut self) {
        self.known.retain(|value| Arc::strong_count(value) > 1);
        self.purge_at = SMALLEST_PURGE.max(2 * self.known.len());
    }
}

#[cfg(test)]
impl Strings {
    pub(crate) fn holds(&self, text: &str) -> bool {
        self.known.contains(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_longer_than_any_label_live_no_longer_than_their_node() {
        let mut strings = Strings::default();
        let long = strings.intern(&"x".repeat(LONGEST + 1));
        assert_eq!(Arc::strong_count(&long), 1);
        let longest = strings.intern(&"x".repeat(LONGEST));
        assert_eq!(Arc::strong_count(&longest), 2);
    }

    #[test]
    fn strings_that_no_object_names_are_dropped() {
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
