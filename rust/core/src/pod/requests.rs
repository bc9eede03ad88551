//! Computes the resources that a pod requests from its node.
//!
//! Source: component-helpers v0.36 resource/helpers.go `PodRequests`, with the options that
//! kube-scheduler 1.36 gives it by default.

use std::borrow::Cow;
use std::sync::Arc;

use super::record::RequestsWithDefaults;
use super::resources::{ResourceList, Word};
use crate::labels::Quantity;

/// What kube-scheduler assumes in scores for a container that names no request of cpu.
const DEFAULT_MILLI_CPU: i64 = 100;
/// What kube-scheduler assumes in scores for a container that names no request of memory.
const DEFAULT_MEMORY: i64 = 200 << 20;

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
        self.requests_with(&ResourceList::default())
    }

    /// Computes the pod's requests of cpu and memory with kube-scheduler's defaults, from
    /// `requests`, which are those without; None if each container names both resources, so that no
    /// default counts.
    pub(crate) fn requests_with_defaults(
        &self,
        requests: &ResourceList,
    ) -> Option<RequestsWithDefaults> {
        let containers = || self.containers.iter().chain(&self.init_containers);
        let named = |container: &ContainerResources, resource| {
            container.held.is_none() && container.requests.get(resource).is_some()
        };
        let without = |resource| -> i64 {
            let unnamed = containers().map(|of| i64::from(!named(of, resource)));
            unnamed.sum()
        };
        let (no_cpu, no_memory) = (without("cpu"), without("memory"));
        if no_cpu == 0 && no_memory == 0 {
            return None;
        }
        let plain = self.init_containers.is_empty()
            && self.whole.requests.iter().next().is_none()
            && containers().all(|of| of.held.is_none());
        if !plain {
            return Some(self.filled_requests());
        }
        // The containers of most pods run side by side, so that each default counts.
        let sum = |resource, missing| amount(requests, resource).saturating_add(missing);
        Some(RequestsWithDefaults {
            cpu: sum("cpu", no_cpu * DEFAULT_MILLI_CPU),
            memory: sum("memory", no_memory * DEFAULT_MEMORY),
        })
    }

    /// Computes the pod's requests of cpu and memory as if each container that names no request
    /// had kube-scheduler's default.
    fn filled_requests(&self) -> RequestsWithDefaults {
        let missing = [
            ("cpu", format!("{DEFAULT_MILLI_CPU}m")),
            ("memory", DEFAULT_MEMORY.to_string()),
        ];
        let missing = missing.map(|(resource, text)| {
            let quantity = Quantity::parse(&text).expect("a number is a quantity");
            (Word::Usual(resource), quantity)
        });
        let requests = self.requests_with(&missing.into_iter().collect());
        RequestsWithDefaults {
            cpu: amount(&requests, "cpu"),
            memory: amount(&requests, "memory"),
        }
    }

    /// Computes the pod's requests as if each container that names no request of a resource
    /// requested the amount in `missing`.
    pub(crate) fn requests_with(&self, missing: &ResourceList) -> ResourceList {
        let mut requests = self.of_containers(missing);
        let effective = self
            .whole
            .held
            .as_ref()
            .map(|_| self.effective(&self.whole, &ResourceList::default()));
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
    fn of_containers(&self, missing: &ResourceList) -> ResourceList {
        let mut running = ResourceList::default();
        for container in &self.containers {
            running.add(&self.effective(container, missing));
        }
        let mut sidecars = ResourceList::default();
        let mut peak = ResourceList::default();
        for container in &self.init_containers {
            if container.sidecar {
                let requests = self.effective(container, missing);
                running.add(&requests);
                sidecars.add(&requests);
                for (resource, _) in requests.iter() {
                    peak.raise(resource, sidecars.get(resource).unwrap_or_default());
                }
            } else {
                for (resource, quantity) in filled(&container.requests, missing).iter() {
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
    /// of the spec's. A resource without a request gets the amount in `missing`.
    fn effective<'a>(
        &self,
        container: &'a ContainerResources,
        missing: &ResourceList,
    ) -> Cow<'a, ResourceList> {
        let Some(held) = &container.held else {
            return filled(&container.requests, missing);
        };
        let mut requests = held.actuated.clone();
        requests.raise_to(&held.allocated);
        if !self.resize_refused {
            requests.raise_to(&container.requests);
        }
        Cow::Owned(filled(&requests, missing).into_owned())
    }
}

fn amount(requests: &ResourceList, resource: &str) -> i64 {
    let quantity = requests.get(resource);
    quantity.map_or(0, |quantity| quantity.amount_of(resource))
}

/// Returns the requests of a container, with the amounts in `missing` of the resources that the
/// container does not name.
fn filled<'a>(requests: &'a ResourceList, missing: &ResourceList) -> Cow<'a, ResourceList> {
    let mut filled = Cow::Borrowed(requests);
    for (resource, quantity) in missing.iter() {
        if requests.get(resource).is_none() {
            filled.to_mut().set(resource, quantity);
        }
    }
    filled
}

/// Whether `spec.resources` of a pod may name this resource.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::{
        ContainerResources, PodResources, Quantity, RequestsWithDefaults, ResourceList, Word,
    };
    use crate::oracle::{list, text};
    use crate::wire::pod::parsed;

    #[test]
    fn a_container_without_requests_counts_in_scores_as_in_kube_scheduler() {
        let of = |spec: &str| {
            let pod = parsed(format!(r#"{{"spec":{spec}}}"#).as_bytes()).expect("a pod");
            let counted = pod.requests_with_defaults();
            (counted.cpu, counted.memory)
        };
        let mib = 1 << 20;
        let empty = r#"{"resources":{}}"#;
        let zero = r#"{"resources":{"requests":{"cpu":"0","memory":"1Mi"}}}"#;
        assert_eq!(of("{}"), (0, 0));
        assert_eq!(
            of(&format!(r#"{{"containers":[{empty},{empty}]}}"#)),
            (200, 400 * mib)
        );
        assert_eq!(
            of(&format!(r#"{{"containers":[{empty},{zero}]}}"#)),
            (100, 201 * mib)
        );
        let first = format!(r#"{{"containers":[{zero}],"initContainers":[{empty}]}}"#);
        assert_eq!(of(&first), (100, 200 * mib));
        let over = format!(r#"{{"containers":[{zero}],"overhead":{{"cpu":"7m"}}}}"#);
        assert_eq!(of(&over), (7, mib));
    }

    #[test]
    fn defaults_of_containers_side_by_side_are_those_of_the_rules_for_all_containers() {
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let mut resources = PodResources::default();
            let containers = draw(4);
            for _ in 0..containers {
                let texts = ["0", "1n", "99m", "1500u", "2", "8Ei"];
                let mut requests = ResourceList::default();
                for resource in ["cpu", "memory", "ephemeral-storage"] {
                    if draw(2) == 0 {
                        let text = texts[draw(6) as usize];
                        let quantity = Quantity::parse(text).expect("a quantity");
                        requests.set(&Word::Usual(resource), quantity);
                    }
                }
                resources.containers.push(ContainerResources {
                    requests,
                    ..ContainerResources::default()
                });
            }
            let requests = resources.requests();
            let slow = resources.filled_requests();
            let ours = resources.requests_with_defaults(&requests);
            let same = RequestsWithDefaults {
                cpu: super::amount(&requests, "cpu"),
                memory: super::amount(&requests, "memory"),
            };
            assert_eq!(ours.unwrap_or(same), slow, "{resources:?}");
        }
    }

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
