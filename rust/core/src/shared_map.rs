//! A hash map that is cheap to clone: clones share buckets until one changes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use ahash::RandomState;

/// The most entries of a map with a single bucket: to copy so many takes about as long as to copy
/// one.
const FEW: usize = 32;

type Bucket<K, V> = HashMap<K, V, RandomState>;

/// A hash map. A clone copies one pointer a bucket; a change of a clone copies one bucket.
///
/// A map has about as many buckets as each bucket has entries, so both numbers grow as the square
/// root of the map's size. A map with few entries has one bucket, because most maps are small.
#[derive(Debug, Clone)]
pub(crate) struct SharedMap<K, V> {
    /// The buckets; their number is 0 before the first entry, and then a power of two.
    buckets: Vec<Arc<Bucket<K, V>>>,
    len: usize,
    hasher: RandomState,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            len: 0,
            hasher: RandomState::default(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> SharedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_entry(key).map(|(_, value)| value)
    }

    /// Returns the stored key that equals `key`, and its value; None if the map has no such key.
    pub(crate) fn get_entry<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.buckets.get(self.place(key))?.get_key_value(key)
    }

    /// Returns the value of a key for a change; copies the bucket first if a clone shares it.
    pub(crate) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key);
        let bucket = self.buckets.get_mut(place)?;
        // A key that the map does not have copies no bucket.
        bucket
            .contains_key(key)
            .then(|| Arc::make_mut(bucket).get_mut(key))?
    }

    /// Sets the value of a key, and returns the key's earlier value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let has_room = self.len < FEW || self.len < 2 * self.buckets.len() * self.buckets.len();
        if !has_room || self.buckets.is_empty() {
            self.spread_over((2 * self.buckets.len()).max(1));
        }
        let place = self.place(&key);
        let old = Arc::make_mut(&mut self.buckets[place]).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a key, and returns the stored key with its value.
    pub(crate) fn remove_entry<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let place = self.place(key);
        let old = Arc::make_mut(&mut self.buckets[place]).remove_entry(key);
        self.len -= usize::from(old.is_some());
        // The map is far below the size at which it had half as many buckets.
        if 16 * self.len < self.buckets.len() * self.buckets.len() {
            self.spread_over(self.buckets.len() / 2);
        }
        old
    }

    /// Iterates over all entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }

    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        // The hash maps in the buckets use the lowest bits of a hash, and the highest.
        let hash = self.hasher.hash_one(key) >> 32;
        hash as usize & self.buckets.len().saturating_sub(1)
    }

    fn spread_over(&mut self, buckets: usize) {
        let empty = || Arc::new(Bucket::with_hasher(self.hasher.clone()));
        let fresh = (0..buckets).map(|_| empty()).collect();
        for bucket in std::mem::replace(&mut self.buckets, fresh) {
            for (key, value) in Arc::unwrap_or_clone(bucket) {
                let place = self.place(&key);
                Arc::make_mut(&mut self.buckets[place]).insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sorted(map: &SharedMap<u16, u16>) -> BTreeMap<u16, u16> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        #[test]
        fn a_map_holds_what_a_plain_one_does_and_its_clones_never_change(
            steps in proptest::collection::vec((0..200u16, 0..4u8, any::<u16>()), 0..600)
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut seen = Vec::new();
            for (at, &(key, kind, value)) in steps.iter().enumerate() {
                match kind {
                    0 | 1 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    2 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    _ => {
                        let (ours, plain) = (map.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(ours.is_some(), plain.is_some());
                        ours.into_iter().chain(plain).for_each(|old| *old = value);
                    }
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.get(&key), model.get(&key));
                if at % 97 == 0 {
                    seen.push((map.clone(), model.clone()));
                }
            }
            seen.push((map, model));
            for (map, model) in seen {
                prop_assert_eq!(sorted(&map), model);
            }
        }
    }

    #[test]
    fn neither_a_clone_nor_a_change_costs_more_than_a_few_times_the_root_of_the_map() {
        let mut map = SharedMap::default();
        let mut widest = 0;
        for key in 0..100_000u32 {
            map.insert(key, ());
            widest = widest.max(map.buckets.len());
        }
        let fullest = map.buckets.iter().map(|bucket| bucket.len()).max();
        assert!(widest <= 512, "{widest} buckets");
        assert!(fullest.is_some_and(|most| most <= 1024), "{fullest:?}");
        for key in 0..100_000u32 {
            map.remove(&key);
        }
        assert!(map.buckets.len() <= 2, "{} buckets", map.buckets.len());
    }
}
