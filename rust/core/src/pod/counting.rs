//! Counts the pods on each node that a selector matches, and remembers the counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;

use super::labelled::Unlabelled;
use super::occupancy::NodePods;
use super::record::Pod;
use super::size;
use crate::labels::Selector;
use crate::node::make_room;

/// Says which pods are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Counted {
    /// The selector that the pods' labels have to satisfy.
    pub selector: Selector,
    /// The namespaces of the pods, sorted; None: all namespaces.
    pub namespaces: Option<Vec<String>>,
    /// Whether pods that are being deleted count too.
    pub terminating: bool,
}

impl Counted {
    fn has(&self, pod: &Arc<Pod>) -> Result<bool, Unlabelled> {
        let namespaces = self.namespaces.as_deref();
        // A tenant may name thousands of namespaces.
        let elsewhere = |of: &[String]| {
            let found = of.binary_search_by(|namespace| (**namespace).cmp(&pod.namespace));
            found.is_err()
        };
        let terminates = pod.deletion_timestamp.is_some();
        if namespaces.is_some_and(elsewhere) || (terminates && !self.terminating) {
            return Ok(false);
        }
        if self.selector.requirements().is_empty() {
            return Ok(true);
        }
        if pod.missing.labels {
            return Err(Unlabelled(pod.clone()));
        }
        Ok(self.selector.matches(&pod.label_lookup()))
    }

    /// The approximate memory of the question in bytes.
    fn bytes(&self) -> usize {
        let namespaces = self.namespaces.iter().flatten();
        self.selector.bytes()
            + namespaces
                .map(|namespace| size::gate(namespace))
                .sum::<usize>()
    }

    /// Returns how many pods of a node are counted.
    fn on(&self, node: &NodePods) -> Result<u32, Unlabelled> {
        let mut count = 0;
        for pod in node.pods() {
            count += u32::from(self.has(pod)?);
        }
        Ok(count)
    }
}

/// The number of a state of the pods on a node: states with equal numbers are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

/// The number of the next state.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Version {
    pub(super) fn next() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Version {
    /// Returns the number of a node without pods that never had any.
    fn default() -> Self {
        Self(0)
    }
}

/// The most questions whose counts are remembered; each workload may have one of its own.
const MOST_QUESTIONS: usize = 512;

/// The most counts that are remembered for all questions, of 16 bytes each: whoever may create pods
/// may give each of them a node of its own, which need not exist.
const MOST_COUNTS: usize = 1 << 20;

/// The most bytes of a question whose counts are remembered: a tenant's pod may write a question.
const LARGEST_QUESTION: usize = 16 << 10;

/// For each row of nodes with pods, the version of the node's pods that was counted, and the count.
type Rows = Vec<(Version, u32)>;

type Remembered = HashMap<Counted, Arc<Mutex<Rows>>, RandomState>;

/// What was counted before. A node is counted again only if its pods have changed.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<Remembered>);

impl Counts {
    /// Returns a count for each of these nodes, which have numbers of rows below `end`.
    pub(super) fn count<'a>(
        &self,
        counted: &Counted,
        end: usize,
        nodes: impl Iterator<Item = Option<(u32, &'a NodePods)>>,
    ) -> Result<Vec<u32>, Unlabelled> {
        let rows = self.rows(counted, end);
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |node: Option<(u32, &NodePods)>| {
            let Some((row, pods)) = node else {
                return Ok(0);
            };
            let row = row as usize;
            if row >= rows.len() {
                rows.resize(row + 1, (Version::default(), 0));
            }
            if rows[row].0 != pods.version() {
                rows[row] = (pods.version(), counted.on(pods)?);
            }
            Ok(rows[row].1)
        };
        nodes.map(count).collect()
    }

    fn rows(&self, counted: &Counted, end: usize) -> Arc<Mutex<Rows>> {
        if counted.bytes() > LARGEST_QUESTION {
            return Arc::default();
        }
        // The rows of each question grow with the nodes that have pods.
        let most = (MOST_COUNTS / end.max(1)).clamp(1, MOST_QUESTIONS);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut all, most + 1);
        if let Some(known) = all.get(counted) {
            return known.clone();
        }
        make_room(&mut all, most);
        all.entry(counted.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_number_do_not_multiply_what_is_remembered() {
        let counts = Counts::default();
        let pods = NodePods::default();
        let question = |number: usize| Counted {
            selector: Selector::default(),
            namespaces: Some(vec![number.to_string()]),
            terminating: false,
        };
        let ask = |number: usize, end: usize| {
            let last = Some((end as u32 - 1, &pods));
            let counted = counts.count(&question(number), end, [last].into_iter());
            assert_eq!(counted.ok(), Some(vec![0]));
        };
        let remembered = || {
            let all = counts.0.lock().expect("not poisoned");
            let rows = all
                .values()
                .map(|rows| rows.lock().map_or(0, |rows| rows.len()));
            (all.len(), rows.sum::<usize>())
        };
        (0..MOST_QUESTIONS).for_each(|number| ask(number, 2_000));
        assert_eq!(remembered(), (MOST_QUESTIONS, MOST_QUESTIONS * 2_000));
        ask(MOST_QUESTIONS, 2_000);
        assert_eq!(remembered().0, MOST_QUESTIONS);
        // The same questions as before, about more nodes, and then others.
        for number in 0..2 * MOST_QUESTIONS {
            ask(number, 150_000);
            assert!(remembered().1 <= MOST_COUNTS, "{:?}", remembered());
        }
    }
}
