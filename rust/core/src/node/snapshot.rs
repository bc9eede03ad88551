//! `Snapshot`: the content of a node store at one moment.

use std::collections::{HashMap, HashSet, hash_map};
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;

use super::columns::{Column, Columns};
use super::mask::Mask;
use super::names::Names;
use super::record::{Field, Node};
use super::source::Source;
use crate::labels::Selector;
use crate::pool::LONGEST;

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
    pub(crate) labels: Arc<Columns>,
    pub(crate) annotations: Arc<Columns>,
}

impl Snapshot {
    pub(crate) fn stored(&self, row: u32) -> Option<&Arc<Stored>> {
        self.rows.get(row)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Stored>> {
        self.stored(self.names.row_of(name.as_bytes())?)
    }

    /// Returns the values of a label key, and for each row the number of its value; results are
    /// cached.
    pub(crate) fn topology(&self, key: &str) -> Arc<Topology> {
        self.masks.topology(key, &self.rows)
    }

    /// Returns for each row the value of a key in a field; results are cached.
    pub(crate) fn column(&self, field: Field, key: &str) -> Arc<Column> {
        let columns = match field {
            Field::Labels => &self.labels,
            Field::Annotations => &self.annotations,
        };
        columns.get(field, key, &self.rows)
    }

    /// Returns the mask of the rows whose nodes' labels satisfy a selector; results are cached.
    pub(crate) fn matching_rows(&self, selector: &Selector) -> Arc<Mask> {
        self.masks.get(selector, &self.rows)
    }
}

/// The most selectors whose results are cached; plugins use few, and a result is cheap to compute.
const MOST_SELECTORS: usize = 64;

/// The most bytes of a selector whose result is cached: a tenant's pod may write a selector.
const LARGEST_SELECTOR: usize = 16 << 10;

/// The most label keys whose values are cached; plugins use few.
const MOST_KEYS: usize = 16;

/// The most answers and values for each row that are found anew while the writer waits. What would
/// need more is dropped: the next reader who needs it finds it anew, and nobody waits for that reader.
pub(super) const MOST_CHANGES: usize = 8;

/// Removes entries by chance until one more leaves at most `most`.
///
/// To remove the oldest or all of them would make a plugin that asks for one more in each round find
/// nothing in any round.
// Beside the lookups, this code made requests with names 7 % slower.
#[cold]
pub(crate) fn make_room<K: Clone + Eq + Hash, V>(
    known: &mut HashMap<K, V, RandomState>,
    most: usize,
) {
    while known.len() >= most {
        // A new state hashes the same value to another number each time.
        let chance = hash_map::RandomState::new().hash_one(0) as usize;
        let Some(any) = known.keys().nth(chance % known.len()).cloned() else {
            return;
        };
        known.remove(&any);
    }
}

/// The values that the nodes have for one label key.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Each value once, in the order of the rows.
    pub(crate) values: Vec<Arc<str>>,
    /// For each row the position of its value in `values`; None for a node without the label.
    pub(crate) of_row: Vec<Option<u32>>,
}

impl Topology {
    /// Returns the values of a label key in the order of some nodes.
    pub(crate) fn of<'a>(key: &str, nodes: impl Iterator<Item = Option<&'a Node>>) -> Self {
        let mut known: HashMap<&str, u32, RandomState> = HashMap::default();
        let mut values = Vec::new();
        let code = |node: Option<&'a Node>| {
            let value = node?.label(key)?;
            let code = *known.entry(value).or_insert_with(|| {
                values.push(value.clone());
                values.len() as u32 - 1
            });
            Some(code)
        };
        let of_row = nodes.map(code).collect();
        Self { values, of_row }
    }
}

/// The cached results of selectors and label keys over all rows, shared by snapshots with equal
/// labels.
#[derive(Debug, Default)]
pub(crate) struct MaskCache {
    masks: Mutex<Masks>,
    topologies: Mutex<HashMap<String, Arc<Topology>, RandomState>>,
}

/// The masks of the rows that selectors match. The caches of later snapshots share the selectors.
type Masks = HashMap<Arc<Selector>, Arc<Mask>, RandomState>;

impl MaskCache {
    fn topology(&self, key: &str, rows: &Rows) -> Arc<Topology> {
        let lock = || {
            let locked = self.topologies.lock();
            locked.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = lock().get(key) {
            return known.clone();
        }
        let nodes = (0..rows.end()).map(|row| rows.get(row as u32).map(|stored| &*stored.node));
        let topology = Arc::new(Topology::of(key, nodes));
        if key.len() > LONGEST {
            return topology;
        }
        let mut topologies = lock();
        make_room(&mut topologies, MOST_KEYS);
        topologies.insert(key.to_owned(), topology.clone());
        topology
    }

    fn get(&self, selector: &Selector, rows: &Rows) -> Arc<Mask> {
        if let Some(known) = self.lock().get(selector) {
            return known.clone();
        }
        let mask = Arc::new(Mask::from_fn(rows.end(), |row| {
            matches(rows, row as u32, selector)
        }));
        if selector.bytes() > LARGEST_SELECTOR {
            return mask;
        }
        let mut masks = self.lock();
        make_room(&mut masks, MOST_SELECTORS);
        masks.insert(Arc::new(selector.clone()), mask.clone());
        mask
    }

    /// Returns the cache for a snapshot in which the labels of the `changed` rows differ; an empty
    /// one if to change it takes long.
    pub(crate) fn updated(&self, rows: &Rows, changed: &HashSet<u32>) -> Self {
        let known: Vec<_> = {
            let masks = self.lock();
            let shared = masks
                .iter()
                .map(|(selector, old)| (selector.clone(), old.clone()));
            shared.collect()
        };
        let requirements = known.iter().map(|(asked, _)| asked.requirements().len());
        if changed.len() * requirements.sum::<usize>() > MOST_CHANGES * rows.end() {
            return Self::default();
        }
        let masks = known.into_iter().map(|(selector, old)| {
            let mut mask = old.grown_to(rows.end());
            for &row in changed {
                mask.set(row as usize, matches(rows, row, &selector));
            }
            (selector, Arc::new(mask))
        });
        Self {
            masks: Mutex::new(masks.collect()),
            topologies: Mutex::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Masks> {
        // Whole entries are inserted, so a panic elsewhere leaves nothing half done here.
        self.masks.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn no_long_selector_is_kept_and_a_kept_one_is_not_copied_for_the_next_snapshot() {
        let (masks, rows) = (MaskCache::default(), Rows::default());
        let values = |count: usize| {
            let values: Vec<String> = (0..count).map(|i| format!("v{i}")).collect();
            values.join(",")
        };
        let selector = |count| Selector::parse(&format!("x in ({})", values(count)));
        let kept = selector(1).expect("a selector");
        masks.get(&kept, &rows);
        masks.get(&selector(1000).expect("a selector"), &rows);
        let only = |masks: &MaskCache| {
            let masks: Vec<Arc<Selector>> = masks.lock().keys().cloned().collect();
            let [only] = &masks[..] else {
                panic!("{} selectors", masks.len());
            };
            only.clone()
        };
        assert_eq!(*only(&masks), kept);
        assert!(Arc::ptr_eq(
            &only(&masks),
            &only(&masks.updated(&rows, &HashSet::new()))
        ));
    }

    #[test]
    fn the_domains_of_a_few_keys_are_kept_and_those_of_a_long_key_are_not() {
        let (masks, rows) = (MaskCache::default(), Rows::default());
        let kept = || masks.topologies.lock().expect("no panic").len();
        masks.topology(&"x".repeat(LONGEST + 1), &rows);
        assert_eq!(kept(), 0);
        for i in 0..3 * MOST_KEYS {
            let longest = format!("{i:0>LONGEST$}");
            masks.topology(&longest, &rows);
            masks.topology(&longest, &rows);
            assert_eq!(kept(), (i + 1).min(MOST_KEYS));
        }
    }

    #[test]
    fn one_selector_more_than_are_kept_does_not_empty_the_cache() {
        let (masks, rows) = (MaskCache::default(), Rows::default());
        let selectors: Vec<_> = (0..=MOST_SELECTORS)
            .map(|i| Selector::parse(&format!("x={i}")).expect("a selector"))
            .collect();
        let mut made_anew = 0;
        for _ in 0..100 {
            for selector in &selectors {
                made_anew += usize::from(!masks.lock().contains_key(selector));
                masks.get(selector, &rows);
            }
        }
        // Which entry goes is by chance; to empty the cache would make nearly all of 6,500 anew.
        assert!(made_anew < 2_000, "{made_anew}");
    }

    #[test]
    fn so_many_changes_that_the_writer_would_wait_leave_no_answer() {
        let (masks, mut rows) = (MaskCache::default(), Rows::default());
        rows.set(0, None);
        for text in ["a,b,c,d,e", "f,g,h"] {
            masks.get(&Selector::parse(text).expect("a selector"), &rows);
        }
        let kept = |changed: usize| {
            let changed = (0..changed as u32).collect();
            masks.updated(&rows, &changed).lock().len()
        };
        let most = MOST_CHANGES * rows.end() / 8;
        assert_eq!((kept(most), kept(most + 1)), (2, 0));
    }
}
