//! Which pods take room on which node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::Pod;
use super::resources::{Amounts, Word};
use crate::shared_map::SharedMap;

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

/// The pods of every node that has any. A clone is cheap; a change copies the node's own list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occupancy {
    by_node: SharedMap<Arc<str>, Arc<NodePods>>,
    pods: usize,
}

impl Occupancy {
    /// How many pods there are on all nodes.
    pub(crate) fn pods(&self) -> usize {
        self.pods
    }

    pub(crate) fn on(&self, node: &str) -> Option<&NodePods> {
        self.by_node.get(node).map(|pods| &**pods)
    }

    /// Puts a pod on the node that it names.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        self.pods += 1;
        if let Some(node) = self.by_node.get_mut(&*pod.node_name) {
            return Arc::make_mut(node).push(pod);
        }
        let (name, mut node) = (Arc::from(&*pod.node_name), NodePods::default());
        node.push(pod);
        self.by_node.insert(name, Arc::new(node));
    }

    /// Takes a pod, the very one that was added, off its node.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>) {
        let Some(node) = self.by_node.get_mut(&*pod.node_name) else {
            return;
        };
        let node = Arc::make_mut(node);
        node.remove(pod);
        if node.pods.is_empty() {
            self.by_node.remove(&*pod.node_name);
        }
        self.pods -= 1;
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
    fn a_node_is_known_for_as_long_as_it_has_a_pod() {
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
        for pod in pods.iter().enumerate().filter(|(i, _)| i % 5 > 0) {
            occupancy.remove(pod.1);
        }
        assert_eq!((occupancy.pods(), occupancy.by_node.len()), (60, 60));
        for node in 0..300 {
            let name = format!("n{node}");
            let found = occupancy
                .on(&name)
                .map(|node| node.pods()[0].node_name.as_str());
            assert_eq!(found, (node % 5 == 0).then_some(&*name));
        }
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
