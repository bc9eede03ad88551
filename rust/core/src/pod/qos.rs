//! Computes the quality-of-service class of a pod, `status.qosClass`.
//!
//! Source: kubernetes v1.36 pkg/apis/core/v1/helper/qos/qos.go `ComputePodQOS`

use super::requests::{ContainerResources, PodResources};
use super::resources::{ResourceList, Word};
use crate::labels::Quantity;

/// The resources that decide the quality-of-service class.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Returns `Guaranteed`, `Burstable` or `BestEffort`, by the resources of the pod as a whole if it
/// has any, else by those of its containers.
pub(crate) fn qos_class(pod: &PodResources) -> Word {
    let each: Vec<&ContainerResources> = if pod.whole_is_given {
        vec![&pod.whole]
    } else {
        pod.containers.iter().chain(&pod.init_containers).collect()
    };
    let requests = RESOURCES.map(|resource| sum(&each, |of| &of.requests, resource));
    let limits = RESOURCES.map(|resource| sum(&each, |of| &of.limits, resource));
    let limited = each.iter().all(|of| {
        let limit = |resource| positive(&of.limits, resource);
        RESOURCES.map(limit).iter().all(Option::is_some)
    });
    Word::Usual(if requests == [None; 2] && limits == [None; 2] {
        "BestEffort"
    } else if limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    })
}

/// Returns the sum of one resource over the lists; None if no list has more than zero of it.
fn sum(
    each: &[&ContainerResources],
    list: impl Fn(&ContainerResources) -> &ResourceList,
    resource: &str,
) -> Option<Quantity> {
    let amounts = each.iter().filter_map(|of| positive(list(of), resource));
    amounts.reduce(|all, more| all + more)
}

fn positive(list: &ResourceList, resource: &str) -> Option<Quantity> {
    list.get(resource)
        .filter(|quantity| *quantity > Quantity::default())
}

#[cfg(test)]
mod tests {
    use crate::oracle::{list, text};
    use crate::wire::pod::parsed;

    #[test]
    fn a_pod_has_the_class_that_go_gives_it() {
        let cases = list("qos", "cases");
        assert!(cases.len() >= 150);
        for case in cases {
            let pod = parsed(text(&case["pod"]).as_bytes()).expect("a pod");
            assert_eq!(*pod.qos_class, *text(&case["qos"]), "{case}");
        }
    }
}
