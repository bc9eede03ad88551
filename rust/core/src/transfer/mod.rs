//! Serialises nodes and pods for another process of the same build.
//!
//! The format may change with every build: the bytes are never written to a file or a network.

mod receiver;
mod sender;

use crate::packing::{Received, Transfer};
use crate::pod::Pod;

pub use crate::packing::Unreceivable;
pub use receiver::NodeReceiver;
pub use sender::NodeSender;

impl Pod {
    /// Serialises the pod for another process of the same build.
    ///
    /// ```
    /// use kubextend_core::pod::Pod;
    ///
    /// let pod = Pod { name: "web-0".to_owned(), ..Pod::default() };
    /// assert_eq!(Pod::unpacked(&pod.packed()), Ok(pod));
    /// ```
    pub fn packed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Deserialises a pod from the bytes that `packed` returned.
    ///
    /// # Errors
    /// The bytes are not those of a pod.
    pub fn unpacked(bytes: &[u8]) -> Result<Self, Unreceivable> {
        Received::whole(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{list, text};
    use crate::wire::pod::parsed;

    fn pods() -> Vec<Pod> {
        let recorded = list("pod_requests", "cases");
        let read = |case: &serde_json::Value| parsed(text(&case["pod"]).as_bytes());
        let mut pods: Vec<Pod> = recorded
            .iter()
            .map(|case| read(case).expect("a pod"))
            .collect();
        pods.push(parsed(EVERY_FIELD.as_bytes()).expect("a pod"));
        pods
    }

    const EVERY_FIELD: &str = r#"{
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1",
            "labels": {"app": "web", "": "odd"}, "annotations": {"note": "ä\u0000\"x"},
            "creationTimestamp": "2024-01-02T03:04:05Z",
            "deletionTimestamp": "2024-01-02T03:04:06Z"},
        "spec": {"schedulerName": "mine", "nodeName": "n1", "priority": -7,
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}],
                     "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference":
                    {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]}},
            "containers": [{"name": "c", "resources":
                {"requests": {"cpu": "1500m", "example.com/gpu": "2"}, "limits": {"cpu": "3"}}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "overhead": {"memory": "64Mi"}, "schedulingGates": [{"name": "g"}],
            "schedulingGroup": {"podGroupName": "workers"}},
        "status": {"phase": "Odd", "qosClass": "Burstable", "nominatedNodeName": "n2",
            "startTime": "2024-01-02T03:04:07Z"}}"#;

    #[test]
    fn a_pod_comes_out_as_it_went_in() {
        for pod in pods() {
            assert_eq!(Pod::unpacked(&pod.packed()), Ok(pod));
        }
    }

    #[test]
    fn a_pod_that_is_cut_off_or_goes_on_is_refused() {
        let whole = parsed(EVERY_FIELD.as_bytes()).expect("a pod").packed();
        for end in 0..whole.len() {
            assert_eq!(Pod::unpacked(&whole[..end]), Err(Unreceivable), "{end}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(Pod::unpacked(&longer), Err(Unreceivable));
    }
}
