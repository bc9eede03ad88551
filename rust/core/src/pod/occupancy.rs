//! The pods on each node, and the sums of their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use super::counting::{Counted, Counts, Version};
use super::groups::address;
use super::labelled::Unlabelled;
use super::namespaces::{Namespaces, Untold};
use super::record::Pod;
use super::resources::{Amounts, usual};
use crate::node::{Names, Nodes};
use crate::rows::Rows;
use crate::shared_map::SharedMap;

/// The pods of one node, and the sums of their requests.
///
/// A user may create many pods for one node, with any resources. Therefore to clone the value is
/// cheap, and a change walks neither over all pods nor over the resources of other pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodePods {
    /// Each pod by its memory address, with the number of pods that came to the node before it.
    pods: SharedMap<usize, (u64, Arc<Pod>)>,
    came: u64,
    /// The sums of the pods' requests of the usual resources, which are few. With 128 bits the sums
    /// are exact, so that a pod's requests can be subtracted again.
    requested: BTreeMap<&'static str, i128>,
    /// The sums of the pods' requests of cpu and memory with kube-scheduler's defaults.
    with_defaults: (i128, i128),
    /// The pods that request unusual resources, or some of whose requests the store does not keep.
    others: SharedMap<usize, Others>,
    /// Another number after each change.
    version: Version,
}

/// The requests of one pod for unusual resources.
#[derive(Debug, Clone)]
struct Others {
    requests: Amounts,
    /// Whether the store does not keep some of the pod's requests, because they are too large.
    more: bool,
}

/// The amount that stands for an unknown request of a resource: more than any node has, and so
/// small that sums over many nodes do not overflow.
const MORE_THAN_ANY: i64 = 1 << 53;

impl NodePods {
    /// Iterates over the pods of the node, in no order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let pods = self.pods.iter().map(|(_, (_, pod))| pod);
        #[cfg(test)]
        let pods = pods.inspect(|_| WALKED.set(walked() + 1));
        pods
    }

    /// The number of this state of the node's pods.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Whether the node has this pod, by the object and not by its UID.
    pub(crate) fn has(&self, pod: &Arc<Pod>) -> bool {
        self.pods.get(&address(pod)).is_some()
    }

    /// Returns the node's pods for which `some` is true, in the order in which they came to the
    /// node.
    pub(crate) fn as_they_came(&self, some: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let all = self.pods.iter().map(|(_, pod)| pod);
        let mut found: Vec<&(u64, Arc<Pod>)> = all.filter(|(_, pod)| some(pod)).collect();
        found.sort_unstable_by_key(|(came, _)| *came);
        found.into_iter().map(|(_, pod)| pod.clone()).collect()
    }

    /// Returns the sum of the pods' requests of one resource; for the resource `pods` the number of
    /// pods.
    ///
    /// The sum is `MORE_THAN_ANY` if a pod, some of whose requests the store does not keep, may
    /// request the resource: a sum that is too small would let pods onto a full node.
    pub(crate) fn requested(&self, resource: &str) -> i64 {
        if resource == "pods" {
            return i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        }
        let sum = match usual(resource) {
            Some(usual) => self.requested.get(usual).copied().unwrap_or(0),
            None => match self.others_of(resource) {
                Some(sum) => sum,
                None => return MORE_THAN_ANY,
            },
        };
        sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns the sum of the pods' requests of an unusual resource; None if the store does not
    /// keep some requests.
    fn others_of(&self, resource: &str) -> Option<i128> {
        let mut sum = 0;
        for (_, others) in self.others.iter() {
            match others.requests.get(resource) {
                Some(amount) => sum += i128::from(amount),
                None if others.more => return None,
                None => {}
            }
        }
        Some(sum)
    }

    fn push(&mut self, pod: Arc<Pod>) {
        self.count(&pod, 1);
        let others = pod.requests.iter().any(|(word, _)| usual(word).is_none());
        if others || pod.missing.resources {
            let requests = pod.requests.clone();
            let more = pod.missing.resources;
            self.others.insert(address(&pod), Others { requests, more });
        }
        self.pods.insert(address(&pod), (self.came, pod));
        self.came += 1;
        self.version = Version::next();
    }

    /// Removes a pod from the node, by the object that was added. Returns false if the node does
    /// not have this object.
    fn remove(&mut self, pod: &Arc<Pod>) -> bool {
        if self.pods.remove(&address(pod)).is_none() {
            return false;
        }
        self.others.remove(&address(pod));
        self.count(pod, -1);
        self.version = Version::next();
        true
    }

    /// Returns the sums of the pods' requests of cpu and memory with kube-scheduler's defaults.
    pub(crate) fn requested_with_defaults(&self) -> (i64, i64) {
        let limited = |sum: i128| sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (limited(self.with_defaults.0), limited(self.with_defaults.1))
    }

    /// Adds `times` the pod's requests of the usual resources to the sums; `times` may be negative.
    fn count(&mut self, pod: &Pod, times: i128) {
        let defaulted = pod.requests_with_defaults();
        self.with_defaults.0 += times * i128::from(defaulted.cpu);
        self.with_defaults.1 += times * i128::from(defaulted.memory);
        for (resource, amount) in pod.requests.iter() {
            if let Some(usual) = usual(resource) {
                *self.requested.entry(usual).or_default() += times * i128::from(amount);
            }
        }
    }
}

/// The pods of every node that has pods. To clone the value is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occupancy {
    /// The row of each node that has pods, by the name of the node.
    row_of: SharedMap<Arc<str>, u32>,
    nodes: Rows<NodePods>,
    pods: usize,
    /// Another one for each other `row_of`.
    joined: Arc<ArcSwap<Join>>,
    /// Shared by all clones: the versions of nodes' pods tell which counts hold.
    counts: Arc<Counts>,
    /// Shared by all clones, as the counts are.
    namespaces: Arc<Namespaces>,
}

/// The rows of nodes in an `Occupancy`, by the rows of the nodes in a snapshot of nodes: looking up
/// thousands of names takes longer than everything else that is done for their nodes.
#[derive(Debug, Default)]
struct Join {
    names: Arc<Names>,
    /// Empty before the node is looked up; None for a node without pods.
    rows: Vec<OnceLock<Option<u32>>>,
}

impl Occupancy {
    /// How many pods there are on all nodes.
    pub(crate) fn pods(&self) -> usize {
        self.pods
    }

    pub(crate) fn on(&self, node: &str) -> Option<&NodePods> {
        self.in_row(*self.row_of.get(node)?)
    }

    /// Returns what `on` returns for the name of each of these nodes.
    pub(crate) fn on_each<'a>(
        &'a self,
        nodes: &'a Nodes,
    ) -> impl Iterator<Item = Option<&'a NodePods>> {
        self.rows_of(nodes).map(|row| self.in_row(row?))
    }

    /// Returns for each of these nodes how many of its pods are counted.
    pub(crate) fn count(&self, counted: &Counted, nodes: &Nodes) -> Result<Vec<u32>, Unlabelled> {
        let with_pods = |row: Option<u32>| Some((row?, self.in_row(row?)?));
        let nodes = self.rows_of(nodes).map(with_pods);
        self.counts.count(counted, self.row_of.len(), nodes)
    }

    /// Returns the sums of what the pods of a namespace request on all nodes: of all resources, or
    /// of those in `only` and the first other.
    ///
    /// # Errors
    /// A pod of the namespace, some of whose requests the store does not keep.
    pub(crate) fn requested_in(
        &self,
        namespace: &str,
        only: Option<&BTreeSet<String>>,
    ) -> Result<Amounts, Arc<Pod>> {
        self.namespaces
            .requested(namespace, only, &self.nodes)
            .or_else(|Untold| {
                let pods = self.nodes.iter().flat_map(|(_, node)| node.pods());
                let mut theirs = pods.filter(|pod| pod.namespace == namespace);
                let untold = theirs.find(|pod| pod.missing.resources).cloned();
                untold.map_or_else(|| Ok(Amounts::default()), Err)
            })
    }

    /// Returns the row of each of these nodes; None for a node without pods.
    fn rows_of<'a>(&'a self, nodes: &'a Nodes) -> impl Iterator<Item = Option<u32>> + 'a {
        let join = self.join(nodes.names());
        (0..nodes.len()).map(move |at| {
            let look_up = || self.row_of.get(nodes.name(at)).copied();
            match nodes.row(at) {
                Some(node) => *join.rows[node as usize].get_or_init(look_up),
                None => look_up(),
            }
        })
    }

    /// Adds a pod to the node in its `node_name`.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        let row = self.row_of.get(&*pod.node_name).copied();
        let row = row.unwrap_or_else(|| {
            self.joined = Arc::default();
            let row = self.row_of.len() as u32;
            self.row_of.insert(Arc::from(&*pod.node_name), row);
            row
        });
        Arc::make_mut(self.nodes.place(row).get_or_insert_default()).push(pod);
        self.pods += 1;
    }

    /// Removes a pod from its node, by the object that was added; does nothing if the node does not
    /// have this object.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        let Some(&row) = self.row_of.get(&*pod.node_name) else {
            return;
        };
        let node = Arc::make_mut(self.nodes.place(row).get_or_insert_default());
        if !node.remove(pod) {
            return;
        }
        if node.pods.len() == 0 {
            self.give_up(row, &pod.node_name);
        }
        self.pods -= 1;
    }

    /// Removes a node without pods; the last row moves to the node's row.
    fn give_up(&mut self, row: u32, node: &str) {
        self.joined = Arc::default();
        self.row_of.remove(node);
        let last = self.nodes.set(self.row_of.len() as u32, None);
        let name = last.iter().flat_map(|last| last.pods()).next();
        if let Some(moved) = name.and_then(|pod| self.row_of.get_mut(&*pod.node_name)) {
            *moved = row;
            self.nodes.set(row, last);
        }
    }

    fn in_row(&self, row: u32) -> Option<&NodePods> {
        self.nodes.get(row).map(|pods| &**pods)
    }

    fn join(&self, names: &Arc<Names>) -> Arc<Join> {
        let mut join = self.joined.load_full();
        if !Arc::ptr_eq(&join.names, names) {
            join = Arc::new(Join {
                names: names.clone(),
                rows: vec![OnceLock::new(); names.end()],
            });
            self.joined.store(join.clone());
        }
        join
    }
}

#[cfg(test)]
thread_local! {
    static WALKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns over how many pods this thread has walked so far, for tests.
#[cfg(test)]
pub(crate) fn walked() -> usize {
    WALKED.get()
}

#[cfg(test)]
mod tests {
    use super::super::resources::word;
    use super::*;
    use crate::wire::pod::parsed;

    fn pod(requests: &str) -> Arc<Pod> {
        let pod = format!(
            r#"{{"spec":{{"containers":[{{"resources":{{"requests":{{{requests}}}}}}}]}}}}"#
        );
        Arc::new(parsed(pod.as_bytes()).expect("a pod"))
    }

    #[test]
    fn a_node_is_known_for_as_long_as_it_has_a_pod() {
        let on = |node: usize| {
            let node_name = word(&format!("n{node}"));
            Arc::new(Pod {
                node_name,
                ..Pod::default()
            })
        };
        let mut occupancy = Occupancy::default();
        let pods: Vec<Arc<Pod>> = (0..300).map(on).collect();
        for pod in &pods {
            occupancy.add(pod.clone());
        }
        for pod in pods.iter().enumerate().filter(|(i, _)| i % 5 > 0) {
            occupancy.remove(pod.1);
        }
        assert_eq!((occupancy.pods(), occupancy.row_of.len()), (60, 60));
        for node in 0..300 {
            let name = format!("n{node}");
            let found = occupancy
                .on(&name)
                .map(|node| node.as_they_came(|_| true)[0].node_name.clone());
            assert_eq!(found, (node % 5 == 0).then_some(word(&name)));
        }
    }

    #[test]
    fn sums_are_those_of_the_pods_that_are_there_whatever_came_and_went() {
        let mut node = NodePods::default();
        let asks = |cpu: usize, other: usize| {
            pod(&format!(r#""cpu":"{cpu}","example.com/r{other}":"{cpu}""#))
        };
        let pods: Vec<_> = (0..300).map(|i| asks(i, i % 7)).collect();
        for pod in &pods {
            node.push(pod.clone());
        }
        for (left, pod) in pods.iter().enumerate().rev() {
            node.remove(pod);
            node.remove(pod);
            let left = &pods[..left];
            for resource in ["cpu", "example.com/r0", "example.com/r6", "memory"] {
                let asked = left.iter().filter_map(|pod| pod.requests.get(resource));
                assert_eq!(node.requested(resource), asked.sum::<i64>());
            }
            let defaulted = left.iter().map(|pod| pod.requests_with_defaults().memory);
            assert_eq!(node.requested_with_defaults().1, defaulted.sum::<i64>());
            assert_eq!(
                node.requested("pods"),
                i64::try_from(left.len()).expect("few")
            );
            assert!(node.as_they_came(|_| true) == left);
        }
    }

    #[test]
    fn of_a_pod_without_all_of_its_resources_those_count_that_it_names() {
        let mut known = Pod::clone(&pod(r#""cpu":"1","a.b/known":"2""#));
        known.missing.resources = true;
        let known = Arc::new(known);
        let mut node = NodePods::default();
        node.push(known.clone());
        node.push(pod(r#""a.b/known":"1","a.b/other":"1""#));
        let asked =
            |node: &NodePods| ["cpu", "a.b/known", "a.b/other"].map(|of| node.requested(of));
        assert_eq!(asked(&node), [1000, 3, MORE_THAN_ANY]);
        node.remove(&known);
        assert_eq!(asked(&node), [0, 1, 1]);
    }
}
