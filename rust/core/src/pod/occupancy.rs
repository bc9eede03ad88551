//! Which pods take room on which node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;

use super::record::Pod;
use super::resources::{Amounts, Word};
use crate::rows::Rows;

type Index = HashMap<Arc<str>, u32, RandomState>;

/// How many nodes without pods are kept beside those that have some.
const FEW_EMPTY: usize = 64;

/// The pods of one node, and what they ask for together.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodePods {
    pods: Vec<Arc<Pod>>,
    /// Wide enough that a sum is exact: what is added can be taken away again.
    requested: BTreeMap<Word, i128>,
}

impl NodePods {
    pub(crate) fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    /// The sum of the pods' requests of one resource; of `pods` their number.
    pub(crate) fn requested(&self, resource: &str) -> i64 {
        if resource == "pods" {
            return i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        }
        let sum = self.requested.get(resource).copied().unwrap_or(0);
        sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn push(&mut self, pod: Arc<Pod>) {
        self.count(&pod.requests, 1);
        self.pods.push(pod);
    }

    /// Takes out the very pod that was put in.
    fn remove(&mut self, pod: &Arc<Pod>) {
        let Some(at) = self.pods.iter().position(|kept| Arc::ptr_eq(kept, pod)) else {
            return;
        };
        self.pods.remove(at);
        self.count(&pod.requests, -1);
    }

    /// Adds so many times these amounts. What comes to nothing is forgotten: else each pod that
    /// passes would leave its resources' names behind.
    fn count(&mut self, requests: &Amounts, times: i128) {
        for (resource, amount) in requests.iter().filter(|(_, amount)| *amount != 0) {
            let more = times * i128::from(amount);
            match self.requested.get_mut(&**resource) {
                Some(sum) if *sum + more == 0 => drop(self.requested.remove(&**resource)),
                Some(sum) => *sum += more,
                None => drop(self.requested.insert(resource.clone(), more)),
            }
        }
    }
}

/// The pods of every node. A clone is cheap; a change copies the node's own list and its chunk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occupancy {
    rows: Rows<NodePods>,
    by_node: Arc<Index>,
    free: Vec<u32>,
    /// How many nodes are named that have no pod.
    empty: usize,
    pods: usize,
}

impl Occupancy {
    /// How many pods there are on all nodes.
    pub(crate) fn pods(&self) -> usize {
        self.pods
    }

    pub(crate) fn on(&self, node: &str) -> Option<&NodePods> {
        self.rows.get(*self.by_node.get(node)?).map(|pods| &**pods)
    }

    /// Puts a pod on the node that it names.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        let row = self.row_for(&pod.node_name);
        let was_empty = self.rows.change(row, |node| {
            let empty = node.pods.is_empty();
            node.push(pod);
            empty
        });
        self.empty -= usize::from(was_empty);
        self.pods += 1;
    }

    /// Takes a pod, the very one that was added, off its node.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        let Some(&row) = self.by_node.get(&*pod.node_name) else {
            return;
        };
        let emptied = self.rows.change(row, |node| {
            node.remove(pod);
            node.pods.is_empty()
        });
        self.empty += usize::from(emptied);
        self.pods -= 1;
    }

    fn row_for(&mut self, node: &str) -> u32 {
        if let Some(&row) = self.by_node.get(node) {
            return row;
        }
        // A new name copies the index that snapshots share: the time to drop names as well.
        if self.empty > FEW_EMPTY + self.by_node.len() / 2 {
            self.forget_empty();
        }
        let row = self.free.pop().unwrap_or(self.by_node.len() as u32);
        Arc::make_mut(&mut self.by_node).insert(node.into(), row);
        self.empty += 1;
        row
    }

    fn forget_empty(&mut self) {
        let Self { rows, free, .. } = self;
        Arc::make_mut(&mut self.by_node).retain(|_, row| {
            let occupied = rows.get(*row).is_some_and(|node| !node.pods.is_empty());
            if !occupied {
                rows.set(*row, None);
                free.push(*row);
            }
            occupied
        });
        self.empty = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pod::parsed;

    fn pod(requests: &str) -> Arc<Pod> {
        let pod = format!(
            r#"{{"spec":{{"containers":[{{"resources":{{"requests":{{{requests}}}}}}}]}}}}"#
        );
        Arc::new(parsed(pod.as_bytes()).expect("a pod"))
    }

    #[test]
    fn names_of_nodes_without_pods_are_forgotten_and_new_nodes_share_with_nobody() {
        let on = |node: usize| {
            let node_name = format!("n{node}");
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
        // Most go, and every fifth stays, so that free rows lie among those in use.
        for pod in pods.iter().enumerate().filter(|(i, _)| i % 5 > 0) {
            occupancy.remove(pod.1);
        }
        for node in 1000..1300 {
            occupancy.add(on(node));
        }
        let staying = (0..300).step_by(5).chain(1000..1300);
        assert_eq!((occupancy.pods(), occupancy.by_node.len()), (360, 360));
        for node in staying {
            let name = format!("n{node}");
            let found = occupancy.on(&name).expect("a node with a pod").pods();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].node_name, name);
        }
        assert!(occupancy.on("n1").is_none());
    }

    #[test]
    fn a_node_keeps_no_name_of_a_resource_that_none_of_its_pods_asks_for() {
        let mut node = NodePods::default();
        node.push(pod(r#""cpu":"1","example.com/none":"0""#));
        for passing in 0..100 {
            let passing = pod(&format!(r#""cpu":"2","example.com/r{passing}":"3""#));
            node.push(passing.clone());
            assert_eq!((node.requested.len(), node.requested("cpu")), (2, 3000));
            node.remove(&passing);
        }
        assert_eq!((node.requested.len(), node.requested("cpu")), (1, 1000));
    }
}
