//! Sums what the pods of each namespace request on all nodes, and remembers the sums.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

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
    fn add_pod(&mut self, pod: &Pod) {
        self.pods += 1;
        self.untold += i64::from(pod.missing.resources);
        for (resource, amount) in pod.requests.iter().filter(|(_, amount)| *amount != 0) {
            *self.requested.entry(resource.clone()).or_default() += i128::from(amount);
        }
    }

    /// Adds `times` the sums of `other`; `times` may be negative.
    fn add(&mut self, other: &Self, times: i8) {
        self.pods += i64::from(times) * other.pods;
        self.untold += i64::from(times) * other.untold;
        for (resource, amount) in &other.requested {
            let sum = self.requested.entry(resource.clone()).or_default();
            *sum += i128::from(times) * amount;
            if *sum == 0 {
                self.requested.remove(resource);
            }
        }
    }
}

type ByNamespace = HashMap<Box<str>, Sums, RandomState>;

/// The sums of the nodes' pods by namespace, as of when they were last asked for.
#[derive(Debug, Default)]
struct Remembered {
    /// For each row of nodes with pods, the version of the node's pods, and their sums.
    nodes: Vec<(Version, ByNamespace)>,
    /// The sums over all nodes; a namespace without pods is left out.
    total: ByNamespace,
}

/// What was summed before. A node's pods are summed again only if they have changed.
#[derive(Debug, Default)]
pub(super) struct Namespaces(Mutex<Remembered>);

/// Says that the store does not keep some requests of a pod of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Untold;

impl Namespaces {
    /// Returns the sums of what the pods of a namespace request, in the units of `Amounts`; a
    /// resource of which they request nothing is left out.
    pub(super) fn requested(
        &self,
        namespace: &str,
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
        let limited = |sum: &i128| (*sum).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let requested = sums.requested.iter();
        let requested = requested.map(|(resource, sum)| (resource.clone(), limited(sum)));
        Ok(Amounts(requested.collect()))
    }
}

impl Remembered {
    fn catch_up(&mut self, nodes: &Rows<NodePods>) {
        let rows = nodes.end().max(self.nodes.len());
        self.nodes.resize_with(rows, Default::default);
        for (row, known) in self.nodes.iter_mut().enumerate() {
            let pods = nodes.get(row as u32);
            let version = pods.map_or_else(Version::default, |pods| pods.version());
            if known.0 == version {
                continue;
            }
            let now = pods.map_or_else(ByNamespace::default, |pods| by_namespace(pods));
            for (sums, times) in [(&known.1, -1), (&now, 1)] {
                for (namespace, of_node) in sums {
                    let total = self.total.entry(namespace.clone()).or_default();
                    total.add(of_node, times);
                }
            }
            for namespace in known.1.keys() {
                if self.total.get(namespace).is_some_and(|sums| sums.pods == 0) {
                    self.total.remove(namespace);
                }
            }
            *known = (version, now);
        }
    }
}

fn by_namespace(pods: &NodePods) -> ByNamespace {
    let mut sums = ByNamespace::default();
    for pod in pods.pods() {
        match sums.get_mut(&*pod.namespace) {
            Some(known) => known.add_pod(pod),
            None => sums
                .entry((&*pod.namespace).into())
                .or_default()
                .add_pod(pod),
        }
    }
    sums
}
