//! A pool of shared values, which keeps each distinct value once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use ahash::RandomState;

/// Shared values, such as label keys, that occur in many objects. A value that no object uses any
/// more is dropped by `purge` or `give_up`.
#[derive(Debug)]
pub(crate) struct Pool<T: ?Sized> {
    known: HashSet<Arc<T>, RandomState>,
    purge_at: usize,
    /// How many uses of values have ended since the last purge, as far as they were counted.
    lost: usize,
}

/// A pool of label keys, label values and names of resources.
pub(crate) type Strings = Pool<str>;

const SMALLEST_PURGE: usize = 4096;

/// The most bytes of a text that is pooled: kube-apiserver accepts no longer label key (253 + 1 +
/// 63 bytes). A longer text is no label of a real node, and is freed with its node.
pub(crate) const LONGEST: usize = 317;

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: HashSet::default(),
            purge_at: SMALLEST_PURGE,
            lost: 0,
        }
    }
}

impl Strings {
    pub(crate) fn intern(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        if self.lost > SMALLEST_PURGE.max(self.known.len()) {
            self.purge();
        }
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        self.keep(text.into())
    }
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    /// Replaces `value` by the equal value of the pool; returns true if the pool has one.
    pub(crate) fn share(&self, value: &mut Arc<T>) -> bool {
        let known = self.known.get(value);
        known.map(|known| *value = known.clone()).is_some()
    }

    /// Returns the hash of a value; equal values have equal hashes.
    pub(crate) fn hash(&self, value: &T) -> u64 {
        self.known.hasher().hash_one(value)
    }

    /// How many values the pool has.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Iterates over all values of the pool.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.known.iter().map(|value| &**value)
    }

    /// Takes a value back from an object that is dropped; drops the value if no other object uses
    /// it.
    pub(crate) fn give_up(&mut self, value: Arc<T>) {
        // Two references: the pool's, and `value`. Nobody else can take the value from the pool
        // meanwhile.
        if Arc::strong_count(&value) == 2 {
            self.known.remove(&value);
        }
        drop(value);
    }

    /// Adds a value that the pool does not have yet, and returns it.
    pub(crate) fn keep(&mut self, new: Arc<T>) -> Arc<T> {
        if self.known.len() >= self.purge_at {
            self.purge();
        }
        self.known.insert(new.clone());
        new
    }

    /// Drops the values of the pool that no object uses any more; the next purge is due when the
    /// pool has doubled.
    pub(crate) fn purge(&mut self) {
        self.known.retain(|value| Arc::strong_count(value) > 1);
        self.purge_at = SMALLEST_PURGE.max(2 * self.known.len());
        self.lost = 0;
        self.shrink();
    }

    /// Gives back the memory that the pool took for values that are dropped.
    pub(crate) fn shrink(&mut self) {
        self.known
            .shrink_to(SMALLEST_PURGE.max(2 * self.known.len()));
    }

    /// Counts uses of values by objects that are dropped now or soon. The next search for a value
    /// purges the pool if more uses have ended than the pool has values.
    pub(crate) fn lost(&mut self, uses: usize) {
        self.lost += uses;
    }
}

#[cfg(test)]
impl Strings {
    pub(crate) fn holds(&self, text: &str) -> bool {
        self.known.contains(text)
    }

    /// For how many values the pool has memory.
    pub(crate) fn room(&self) -> usize {
        self.known.capacity()
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

    const MANY: usize = 10 * SMALLEST_PURGE;

    fn many(strings: &mut Strings) -> Vec<Arc<str>> {
        let texts = (0..MANY).map(|i| format!("many-{i}"));
        texts.map(|text| strings.intern(&text)).collect()
    }

    #[test]
    fn a_pool_takes_no_memory_for_what_it_dropped() {
        let mut strings = Strings::default();
        let most = 4 * SMALLEST_PURGE;
        drop(many(&mut strings));
        strings.purge();
        assert!(strings.room() < most);
        let many = many(&mut strings);
        assert!(strings.room() >= MANY);
        for text in many {
            strings.give_up(text);
        }
        strings.shrink();
        assert!(strings.room() < most);
    }

    #[test]
    fn strings_are_dropped_when_more_uses_have_ended_than_there_are_strings() {
        let mut strings = Strings::default();
        drop(many(&mut strings));
        for lost in [MANY + 1, 1] {
            strings.intern("usual");
            assert!(strings.holds("many-0"));
            strings.lost(lost);
        }
        strings.intern("usual");
        assert!(!strings.holds("many-0"));
        // From then on it takes as many lost uses again.
        strings.intern("passing");
        strings.intern("usual");
        assert!(strings.holds("passing"));
    }
}
