//! Sums what the pods of each namespace request on all nodes, and remembers the sums.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;

use super::counting::Version;
use super::occupancy::NodePods;
use super::record::Pod;
use super::resources::{Amounts, Word};
use crate::rows::Rows;

/// What the pods of a namespace request.
///
/// A request of nothing is left out: nodes have none of most resources, so a tenant could only make
/// the sums long by requests of nothing. With 128 bits the sums are exact.
#[derive(Debug, Clone, Default)]
struct Sums {
    requested: BTreeMap<Word, i128>,
    pods: i64,
    /// How many of the pods are kept without some of their requests.
    untold: i64,
}

impl Sums {
    /// Adds `times` what a pod requests; `times` may be negative.
    fn add(&mut self, pod: &Pod, times: i8) {
        self.pods += i64::from(times);
        self.untold += i64::from(times) * i64::from(pod.missing.resources);
        for (resource, amount) in pod.requests.iter().filter(|(_, amount)| *amount != 0) {
            let sum = self.requested.entry(resource.clone()).or_default();
            *sum += i128::from(times) * i128::from(amount);
            if *sum == 0 {
                self.requested.remove(resource);
            }
        }
    }

    /// Returns the sums of the resources in `only`, and the first sum above 0 of any other; all
    /// sums if `only` is None.
    fn of(&self, only: Option<&BTreeSet<String>>) -> Amounts {
        let limited = |sum: &i128| (*sum).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let Some(only) = only else {
            let all = self.requested.iter();
            return Amounts(
                all.map(|(word, sum)| (word.clone(), limited(sum)))
                    .collect(),
            );
        };
        let named = only
            .iter()
            .filter_map(|name| self.requested.get_key_value(name.as_str()));
        let mut others = self.requested.iter();
        let other = others.find(|(word, sum)| **sum > 0 && !only.contains(&***word));
        let sums: BTreeMap<&Word, i64> = (named.chain(other))
            .map(|(word, sum)| (word, limited(sum)))
            .collect();
        Amounts(
            sums.into_iter()
                .map(|(word, sum)| (word.clone(), sum))
                .collect(),
        )
    }
}

type ByNamespace = HashMap<Box<str>, Sums, RandomState>;

/// The sums of the nodes' pods by namespace, as of when they were last asked for.
#[derive(Debug, Default)]
struct Remembered {
    /// For each row of nodes with pods, the node's pods that are in the sums.
    nodes: Vec<Arc<NodePods>>,
    /// The sums over all nodes; a namespace without pods is left out.
    total: ByNamespace,
}

/// What was summed before. Only the pods that have come or gone since are added or subtracted.
#[derive(Debug, Default)]
pub(super) struct Namespaces(Mutex<Remembered>);

/// Says that the store does not keep some requests of a pod of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Untold;

impl Namespaces {
    /// Returns the sums of what the pods of a namespace request, in the units of `Amounts`; a
    /// resource of which they request nothing is left out. With `only`, of the resources that are
    /// not in it only the first of which the pods request something is returned.
    pub(super) fn requested(
        &self,
        namespace: &str,
        only: Option<&BTreeSet<String>>,
        nodes: &Rows<NodePods>,
    ) -> Result<Amounts, Untold> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.catch_up(nodes);
        let Some(sums) = remembered.total.get(namespace) else {
            return Ok(Amounts::default());
        };
        if sums.untold > 0 {
            return Err(Untold);
        }
        Ok(sums.of(only))
    }
}

impl Remembered {
    fn catch_up(&mut self, nodes: &Rows<NodePods>) {
        let rows = nodes.end().max(self.nodes.len());
        self.nodes.resize_with(rows, Default::default);
        for (row, known) in self.nodes.iter_mut().enumerate() {
            let now = nodes.get(row as u32);
            if known.version() == now.map_or_else(Version::default, |now| now.version()) {
                continue;
            }
            let now = now.cloned().unwrap_or_default();
            for (pods, others, times) in [(&**known, &*now, -1), (&*now, &**known, 1)] {
                for pod in pods.pods().filter(|pod| !others.has(pod)) {
                    add(&mut self.total, pod, times);
                }
            }
            *known = now;
        }
    }
}

/// Adds `times` what a pod requests to the sums of its namespace.
fn add(total: &mut ByNamespace, pod: &Pod, times: i8) {
    let namespace: &str = &pod.namespace;
    if !total.contains_key(namespace) {
        total.insert(namespace.into(), Sums::default());
    }
    if let Some(sums) = total.get_mut(namespace) {
        sums.add(pod, times);
        if sums.pods == 0 {
            total.remove(namespace);
        }
    }
}
