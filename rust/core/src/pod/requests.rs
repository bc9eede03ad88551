//! Computes the resources that a pod requests from its node.
//!
//! Source: component-helpers v0.36 resource/helpers.go `PodRequests`, with the options that
//! kube-scheduler 1.36 gives it by default.

use std::borrow::Cow;
use std::sync::Arc;

use super::resources::ResourceList;

/// The parts of a pod that decide which resources it requests.
#[derive(Debug, Default)]
pub(crate) struct PodResources {
    pub(crate) containers: Vec<ContainerResources>,
    pub(crate) init_containers: Vec<ContainerResources>,
    /// The resources of the pod as a whole: `spec.resources`, and what the node has given the pod.
    pub(crate) whole: ContainerResources,
    /// Whether the pod has the field `spec.resources`, even an empty one.
    pub(crate) whole_is_given: bool,
    /// `spec.overhead`
    pub(crate) overhead: ResourceList,
    /// Whether the node has refused to resize the pod to the resources in its spec.
    pub(crate) resize_refused: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ContainerResources {
    pub(crate) requests: ResourceList,
    pub(crate) limits: ResourceList,
    /// The resources that the node reports for the container or pod; None if the node reports none.
    pub(crate) held: Option<Arc<Held>>,
    /// Whether the container is a sidecar: an init container that keeps running.
    pub(crate) sidecar: bool,
}

/// The resources that a node has given a running container or a whole pod.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) actuated: ResourceList,
    pub(crate) allocated: ResourceList,
}

impl PodResources {
    /// Computes the pod's requests: for each resource, the most that the pod needs at one time.
    pub(crate) fn requests(&self) -> ResourceList {
        let mut requests = self.of_containers();
        let effective = self
            .whole
            .held
            .as_ref()
            .map(|_| self.effective(&self.whole));
        for (resource, quantity) in self.whole.requests.iter() {
            if is_pod_level(resource) {
                let quantity = match &effective {
                    Some(effective) => effective.get(resource).unwrap_or_default(),
                    None => quantity,
                };
                requests.set(resource, quantity);
            }
        }
        requests.add(&self.overhead);
        requests
    }

    /// Computes the sum over all containers and sidecars, or, if that is more, an init container's
    /// request with the sidecars before it.
    ///
    /// The init containers run one after the other. Each raises the peak only of the resources that
    /// it names, because of all other resources the sidecars before it need as much as at the step
    /// before. To add up the sidecars again for each init container would cost the product of two
    /// lists that a tenant writes.
    fn of_containers(&self) -> ResourceList {
        let mut running = ResourceList::default();
        for container in &self.containers {
            running.add(&self.effective(container));
        }
        let mut sidecars = ResourceList::default();
        let mut peak = ResourceList::default();
        for container in &self.init_containers {
            if container.sidecar {
                let requests = self.effective(container);
                running.add(&requests);
                sidecars.add(&requests);
                for (resource, _) in requests.iter() {
                    peak.raise(resource, sidecars.get(resource).unwrap_or_default());
                }
            } else {
                for (resource, quantity) in container.requests.iter() {
                    let beside = sidecars.get(resource).unwrap_or_default();
                    peak.raise(resource, quantity + beside);
                }
            }
        }
        running.raise_to(&peak);
        running
    }

    /// Returns the requests that count for a container: those of the spec, or, if the node reports
    /// the container's resources, the largest of these and, unless the node has refused the resize,
    /// of the spec's.
    fn effective<'a>(&self, container: &'a ContainerResources) -> Cow<'a, ResourceList> {
        let Some(held) = &container.held else {
            return Cow::Borrowed(&container.requests);
        };
        let mut requests = held.actuated.clone();
        requests.raise_to(&held.allocated);
        if !self.resize_refused {
            requests.raise_to(&container.requests);
        }
        Cow::Owned(requests)
    }
}

/// Whether `spec.resources` of a pod may name this resource.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use crate::oracle::{list, text};
    use crate::wire::pod::parsed;

    #[test]
    fn a_pod_asks_for_what_go_says() {
        let cases = list("pod_requests", "cases");
        assert!(cases.len() >= 120);
        for case in cases {
            let pod = parsed(text(&case["pod"]).as_bytes()).expect("a pod");
            let ours: BTreeMap<String, i64> = pod
                .requests
                .iter()
                .map(|(resource, amount)| (resource.to_string(), amount))
                .collect();
            let Value::Object(theirs) = &case["requests"] else {
                panic!("no answer: {case}");
            };
            let theirs: BTreeMap<String, i64> = theirs
                .iter()
                .map(|(resource, amount)| {
                    let milli = if resource == "cpu" {
                        "roundedMilli"
                    } else {
                        "rounded"
                    };
                    (resource.clone(), amount[milli].as_i64().expect("an amount"))
                })
                .collect();
            assert_eq!(ours, theirs, "{case}");
        }
    }
}
