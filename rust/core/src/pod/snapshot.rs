//! `PodSnapshot`: the pods on nodes at one moment.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ahash::{HashSet, RandomState};

use super::counting::Counted;
use super::groups::Groups;
use super::labelled::{Labelled, Unlabelled};
use super::occupancy::{NodePods, Occupancy};
use super::record::Pod;
use super::resources::{Amounts, word};
use crate::labels::LabelLookup;
use crate::node::{Mask, Nodes};

type ByUid<'a> = HashMap<&'a str, &'a Arc<Pod>, RandomState>;

/// The bound, assumed and nominated pods of all nodes at one moment; never changes.
#[derive(Debug, Clone, Default)]
pub struct PodSnapshot {
    occupancy: Occupancy,
    /// What `occupancy` was before `with_nominated`; None if no nominated pods were added.
    without_nominated: Option<Occupancy>,
    /// Pods on no node, by the node that each pod is nominated to.
    nominated: Groups,
    /// The pods of `with_places`, by UID, each with its node.
    placed: HashMap<String, Arc<Pod>, RandomState>,
    /// The UIDs of the pods of `before`, which have no node yet.
    not_yet: HashSet<String>,
    /// The index of all pods by label. A snapshot that is made from another snapshot shares the
    /// index.
    labelled: Labelled,
}

impl PodSnapshot {
    /// How many pods are on nodes.
    pub fn len(&self) -> usize {
        self.occupancy.pods()
    }

    /// Whether no node has a pod.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pods on a node, in the order in which they came to the node.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        let node = self.occupancy.on(node);
        node.map_or_else(Vec::new, |node| node.as_they_came(|_| true))
    }

    /// Returns the pod with a UID on a node; None if there is no such pod on the node.
    pub fn pod_on(&self, node: &str, uid: &str) -> Option<Arc<Pod>> {
        let mut there = self.occupancy.on(node).into_iter().flat_map(NodePods::pods);
        there.find(|pod| pod.uid == uid).cloned()
    }

    /// Returns the sum of the requests of one resource by the pods on a node: cpu in milli-CPUs,
    /// others in units; for the resource `pods` the number of pods.
    pub fn requested_on(&self, node: &str, resource: &str) -> i64 {
        self.occupancy
            .on(node)
            .map_or(0, |node| node.requested(resource))
    }

    /// Returns a snapshot without some pods; `gone` has pairs of a node's name and pods' UIDs.
    #[must_use]
    pub fn without<'a>(&self, gone: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Self {
        let mut left = self.clone();
        for (node, uids) in gone {
            let uids: HashSet<&String> = uids.iter().filter(|uid| !uid.is_empty()).collect();
            for pod in self.occupancy.on(node).into_iter().flat_map(NodePods::pods) {
                if uids.contains(&pod.uid) {
                    left.occupancy.remove(pod);
                }
            }
        }
        left
    }

    /// Returns the mask of the nodes to which pods of at least this pod's priority are nominated;
    /// None if there is no such node.
    ///
    /// Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go `addGENominatedPods`
    pub fn nominated(&self, pod: &Pod, nodes: &Nodes) -> Option<Mask> {
        if self.nominated.is_empty() {
            return None;
        }
        let kept_for_others = |at| self.nominated_before(pod, nodes.name(at)).next().is_some();
        let mask = Mask::from_fn(nodes.len(), kept_for_others);
        (mask.count() > 0).then_some(mask)
    }

    /// Returns a snapshot that has the nominated pods of the nodes in `some` on these nodes too.
    #[must_use]
    pub fn with_nominated(&self, pod: &Pod, nodes: &Nodes, some: &Mask) -> Self {
        let mut filled = self.clone();
        filled.without_nominated = Some(self.occupancy.clone());
        for at in some.indices() {
            let node = nodes.name(at);
            let mut coming: Vec<_> = self.nominated_before(pod, node).collect();
            coming.sort_by_key(|pod| (&pod.namespace, &pod.name));
            for pod in coming {
                filled.occupancy.add(Arc::new(Pod {
                    node_name: word(node),
                    ..Pod::clone(pod)
                }));
            }
        }
        filled
    }

    fn nominated_before<'a>(
        &'a self,
        pod: &'a Pod,
        node: &str,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        let others = self.nominated.of(node);
        let others = others.filter(|other| !self.placed.contains_key(&other.uid));
        others.filter(|other| other.uid != pod.uid && other.priority() >= pod.priority())
    }

    /// Returns a snapshot that has these pods on these nodes too. A pod that is on its node already
    /// counts once; a pod that is nominated to another node does not count there.
    #[must_use]
    pub fn with_places(&self, places: &[(Arc<Pod>, &str)]) -> Self {
        let mut filled = self.clone();
        for &(ref pod, node) in places {
            if self.pod_on(node, &pod.uid).is_some() {
                continue;
            }
            let member = Arc::new(Pod {
                node_name: word(node),
                ..Pod::clone(pod)
            });
            if let Entry::Vacant(free) = filled.placed.entry(pod.uid.clone()) {
                filled.occupancy.add(free.insert(member).clone());
            }
        }
        filled
    }

    /// Returns a snapshot as of before these pods got their nodes.
    #[must_use]
    pub fn before(&self, later: &[(&str, &[String])]) -> Self {
        let mut before = self.without(later.iter().copied());
        let uids = later.iter().flat_map(|(_, uids)| uids.iter().cloned());
        before.not_yet.extend(uids);
        before
    }

    /// Returns the pods of `with_places` in a namespace that have a label with a value, each with
    /// its node, in no order.
    ///
    /// # Errors
    /// The labels of a pod of the namespace are too large for the store to keep.
    pub fn placed_with_label(
        &self,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Result<Vec<Arc<Pod>>, Unlabelled> {
        let mut found = Vec::new();
        let there = |pod: &&Arc<Pod>| pod.namespace == namespace;
        for pod in self.placed.values().filter(there) {
            if pod.missing.labels {
                return Err(Unlabelled(pod.clone()));
            }
            if pod.label_lookup().value(key) == Some(value) {
                found.push(pod.clone());
            }
        }
        Ok(found)
    }

    /// Returns given pods of the snapshot's store as this snapshot has them. The result leaves out
    /// a pod that has a node if this snapshot does not have the pod on that node. A pod without a
    /// node gets its place of `with_places`, or its nominated node if this snapshot has the pod
    /// there. A pod of `before` has no node. The function walks over the pods of each node at most
    /// once.
    pub fn these(&self, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let mut walked = HashMap::default();
        let mut these = Vec::with_capacity(pods.len());
        for pod in pods {
            if self.not_yet.contains(&pod.uid) {
                these.push(Arc::new(Pod {
                    node_name: word(""),
                    ..Pod::clone(pod)
                }));
            } else if pod.is_bound() {
                these.extend(self.here(&pod.node_name, pod, &mut walked));
            } else {
                let placed = self.placed.get(&pod.uid).cloned();
                let here = || self.here(&pod.nominated_node_name, pod, &mut walked);
                these.push(placed.or_else(here).unwrap_or_else(|| pod.clone()));
            }
        }
        these
    }

    /// Returns a pod as this snapshot has the pod on a node; `walked` caches the pods of nodes.
    fn here<'a>(
        &'a self,
        node: &'a str,
        pod: &Arc<Pod>,
        walked: &mut HashMap<&'a str, ByUid<'a>, RandomState>,
    ) -> Option<Arc<Pod>> {
        let of_node = self.occupancy.on(node)?;
        if of_node.has(pod) {
            return Some(pod.clone());
        }
        let by_uid = || of_node.pods().map(|other| (&*other.uid, other)).collect();
        let of_node = walked.entry(node).or_insert_with(by_uid);
        of_node.get(&*pod.uid).map(|here| (*here).clone())
    }

    pub(crate) fn labelled(&self) -> &Labelled {
        &self.labelled
    }

    pub(super) fn labelled_mut(&mut self) -> &mut Labelled {
        &mut self.labelled
    }

    /// Adds a pod to the snapshot; a pod with a node counts on that node.
    pub(super) fn add(&mut self, pod: &Arc<Pod>) {
        if pod.is_bound() {
            self.occupancy.add(pod.clone());
        } else if !pod.nominated_node_name.is_empty() {
            self.nominated.add(&pod.nominated_node_name, pod);
        }
        self.labelled.add(pod);
    }

    /// Removes a pod, by the object that was added. A pod on no node may be removed already.
    pub(super) fn remove(&mut self, pod: &Arc<Pod>) {
        if pod.is_bound() {
            self.occupancy.remove(pod);
        } else {
            self.nominated.remove(&pod.nominated_node_name, pod);
        }
        self.labelled.remove(pod);
    }

    /// Returns the pods that started after a time or have not started yet: for each node with such
    /// pods the node's position in `nodes`, and the pods in the order in which they came to the
    /// node.
    pub fn started_after(&self, nodes: &Nodes, time: &str) -> Vec<(usize, Vec<Arc<Pod>>)> {
        let is_late = |pod: &Pod| pod.start_time.as_deref().is_none_or(|start| start > time);
        let late = |(at, node): (usize, Option<&NodePods>)| {
            let late = node?.as_they_came(is_late);
            (!late.is_empty()).then_some((at, late))
        };
        let nodes = self.occupancy.on_each(nodes).enumerate();
        nodes.filter_map(late).collect()
    }

    /// Returns, for each node in order, how many pods on the node are counted.
    ///
    /// # Errors
    /// The labels of a pod of these namespaces are too large for the store to keep.
    pub fn count(&self, nodes: &Nodes, counted: &Counted) -> Result<Vec<i64>, Unlabelled> {
        let counts = self.occupancy.count(counted, nodes)?;
        Ok(counts.into_iter().map(i64::from).collect())
    }

    /// Returns, for each node in order, how many pods are counted on those nodes of `among` that
    /// have the node's value of a label; -1 for a node without the label.
    ///
    /// # Errors
    /// The labels of a pod of these namespaces are too large for the store to keep.
    pub fn count_by(
        &self,
        nodes: &Nodes,
        topology_key: &str,
        counted: &Counted,
        among: &Nodes,
    ) -> Result<Vec<i64>, Unlabelled> {
        let counts = self.occupancy.count(counted, among)?;
        let (domains, values) = among.domains(topology_key);
        let mut sums = vec![0; values.len()];
        for (count, domain) in counts.into_iter().zip(&domains) {
            if let Some(domain) = domain {
                sums[*domain as usize] += i64::from(count);
            }
        }
        let by_value: HashMap<&str, i64, RandomState> =
            values.iter().map(|value| &**value).zip(sums).collect();
        let (domains, values) = nodes.domains(topology_key);
        let sums = values.iter();
        let sums: Vec<i64> = sums
            .map(|value| by_value.get(&**value).copied().unwrap_or(0))
            .collect();
        let sum = |domain: Option<u32>| domain.map_or(-1, |domain| sums[domain as usize]);
        Ok(domains.into_iter().map(sum).collect())
    }

    /// Returns, for each node in order, the sum of its pods' requests of one resource, in the units
    /// of `requested_on`.
    pub fn requested(&self, nodes: &Nodes, resource: &str) -> Vec<i64> {
        let requested = |node: Option<&NodePods>| node.map_or(0, |node| node.requested(resource));
        self.occupancy.on_each(nodes).map(requested).collect()
    }

    /// Returns the sums of what the pods of a namespace request on all nodes, sorted by resource, in
    /// the units of `requested_on`; a resource of which they request nothing is left out. The pods
    /// that `with_nominated` added do not count: `nominated_pods` returns them. With `only`, of the
    /// resources that are not in it only the first is returned of which the sum is above 0.
    ///
    /// # Errors
    /// A pod of the namespace, some of whose requests are too large for the store to keep.
    pub fn requested_in(
        &self,
        namespace: &str,
        only: Option<&BTreeSet<String>>,
    ) -> Result<Amounts, Arc<Pod>> {
        let occupancy = self.without_nominated.as_ref();
        let occupancy = occupancy.unwrap_or(&self.occupancy);
        occupancy.requested_in(namespace, only)
    }

    /// Returns the pods on no node that are nominated to a node, in no order; not those that
    /// `with_places` has put on a node.
    pub fn nominated_pods(&self) -> Vec<Arc<Pod>> {
        let elsewhere = |pod: &&Arc<Pod>| !self.placed.contains_key(&pod.uid);
        self.nominated.pods().filter(elsewhere).cloned().collect()
    }

    /// Returns, for each node in order, the sums of its pods' requests of cpu and of memory, with
    /// kube-scheduler's defaults for containers without requests.
    pub fn requested_with_defaults(&self, nodes: &Nodes) -> (Vec<i64>, Vec<i64>) {
        let sums = |node: Option<&NodePods>| node.map_or((0, 0), NodePods::requested_with_defaults);
        self.occupancy.on_each(nodes).map(sums).unzip()
    }

    /// Returns, for each node in order, how many of its pods have a `metadata.deletionTimestamp`.
    pub fn terminating(&self, nodes: &Nodes) -> Vec<i64> {
        let ends = |pod: &Arc<Pod>| i64::from(pod.deletion_timestamp.is_some());
        let count = |node: &NodePods| node.pods().map(ends).sum();
        let each = self.occupancy.on_each(nodes);
        each.map(|node| node.map_or(0, count)).collect()
    }

    /// Returns, for each node in order, how many pods are nominated to the node and on no node.
    pub fn nominated_to(&self, nodes: &Nodes) -> Vec<i64> {
        if self.nominated.is_empty() {
            return vec![0; nodes.len()];
        }
        let count = |at| self.nominated.of(nodes.name(at)).map(|_| 1).sum();
        (0..nodes.len()).map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::occupancy::walked;
    use super::*;

    fn pod(uid: &str, node: &str) -> Arc<Pod> {
        Arc::new(Pod {
            uid: uid.to_owned(),
            node_name: word(node),
            ..Pod::default()
        })
    }

    #[test]
    fn however_many_pods_are_looked_for_on_a_node_its_pods_are_walked_over_once() {
        let here: Vec<_> = (0..100).map(|i| pod(&format!("u{i}"), "n")).collect();
        let mut snapshot = PodSnapshot::default();
        for pod in &here {
            snapshot.add(pod);
        }
        let others: Vec<_> = (50..150).map(|i| pod(&format!("u{i}"), "n")).collect();
        let before = walked();
        assert_eq!(snapshot.these(&here), here);
        assert_eq!(walked(), before);
        assert_eq!(snapshot.these(&others), here[50..]);
        assert_eq!(walked(), before + 100);
    }
}
