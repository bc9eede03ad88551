//! Limits on the parts of a watched pod that a pod store keeps, and the memory that a pod takes.
//!
//! Users choose how large their pods are. Of a pod that waits or runs, plugins mostly read labels,
//! requests and times. Tolerations, affinity and annotations decide where the pod itself may run,
//! and each request about the pod brings these parts again.

use std::collections::BTreeSet;
use std::mem::size_of;
use std::sync::Arc;

use super::record::{KeptParts, Pod};
use super::resources::word;
use super::size;
use crate::node::Parts;

/// Says which parts of a pod a pod store keeps; by default all parts.
#[derive(Debug, Clone, Default)]
pub struct Keeping {
    /// The keys of the annotations that the store keeps; None: all.
    pub annotations: Option<BTreeSet<String>>,
    /// The most bytes of memory for tolerations, node selector, node affinity and annotations of
    /// one pod together, and also for resources, gates, labels and containers together. The store
    /// keeps a larger pod without some of these parts; `Pod::missing` lists the parts. The store
    /// cuts other long texts so that they equal no valid name. None: no limit.
    pub max_pod_bytes: Option<usize>,
    /// The optional parts of pods that the store keeps. `max_pod_bytes` limits the memory of each.
    pub parts: Parts,
}

impl Keeping {
    /// Removes the parts of a pod that the store does not keep.
    pub(super) fn trim(&self, pod: &mut Pod) {
        if let Some(keys) = &self.annotations {
            let kept = pod.annotations.iter().filter(|(key, _)| keys.contains(key));
            pod.annotations = kept.cloned().collect();
        }
        if let Some(most) = self.max_pod_bytes {
            trim_rare(pod, most);
            trim_common(pod, most);
            trim_texts(pod);
            trim_parts(pod, most);
        }
    }
}

fn trim_rare(pod: &mut Pod, most: usize) {
    if rare_bytes(pod) > most {
        pod.annotations = Arc::default();
        pod.tolerations = Arc::default();
        pod.required = Arc::default();
        pod.preferred = Arc::default();
        pod.missing.rare = true;
    }
}

/// Drops the details or the JSON of a pod if they take more than `most` bytes.
fn trim_parts(pod: &mut Pod, most: usize) {
    let Some(parts) = &mut pod.parts else {
        return;
    };
    if details_bytes(parts) > most {
        Arc::make_mut(parts).details = None;
        pod.missing.details = true;
    }
    if raw_bytes(parts) > most {
        Arc::make_mut(parts).raw = None;
        pod.missing.raw = true;
    }
}

fn details_bytes(parts: &KeptParts) -> usize {
    parts.details.as_ref().map_or(0, size::details)
}

fn raw_bytes(parts: &KeptParts) -> usize {
    parts.raw.as_deref().map_or(0, <[u8]>::len)
}

/// Keeps those of a pod's resources, gates, labels and containers that fit into `most` bytes
/// together; the most needed parts come first.
fn trim_common(pod: &mut Pod, most: usize) {
    let mut left = most;
    let mut fits = |size: usize| {
        let fits = size <= left;
        left -= if fits { size } else { 0 };
        fits
    };
    let asked = |pod: &Pod| size::amounts(&pod.requests.0) + size::amounts(&pod.overhead.0);
    if asked(pod) > most {
        // A request of zero needs nothing of a resource.
        pod.requests = pod.requests.without_zeros();
        pod.overhead = pod.overhead.without_zeros();
    }
    if asked(pod) > most {
        // The other parts keep half of the room.
        pod.requests = pod.requests.within(most / 4, size::amounts);
        pod.overhead = pod.overhead.within(most / 4, size::amounts);
        pod.missing.resources = true;
    }
    fits(asked(pod));
    if !fits(
        pod.scheduling_gates
            .iter()
            .map(|gate| size::gate(gate))
            .sum(),
    ) {
        // Enough gates to see that the pod has others than any one gate.
        pod.scheduling_gates = pod
            .scheduling_gates
            .iter()
            .take(FEW_GATES)
            .cloned()
            .collect();
        pod.missing.gates = true;
    }
    if !fits(size::pairs(&pod.labels)) {
        pod.labels = Arc::default();
        pod.missing.labels = true;
    }
    if !fits(size::containers(&pod.containers) + size::containers(&pod.init_containers)) {
        pod.containers = Arc::default();
        pod.init_containers = Arc::default();
        pod.missing.containers = true;
    }
}

/// The most bytes of a valid name of a node or a profile.
const LONGEST_NAME: usize = 253;

/// Cuts those strings of a pod whose length Kubernetes does not limit. A string that is cut stays
/// longer than any valid name, so that it equals no name.
fn trim_texts(pod: &mut Pod) {
    let words = [
        &mut pod.scheduler_name,
        &mut pod.scheduling_group,
        &mut pod.phase,
        &mut pod.qos_class,
        &mut pod.scheduled_reason,
    ];
    for text in words {
        if let Some(beginning) = beginning(text) {
            *text = word(beginning);
            pod.missing.texts = true;
        }
    }
    if let Some(beginning) = beginning(&pod.nominated_node_name) {
        pod.nominated_node_name = beginning.into();
        pod.missing.texts = true;
    }
}

/// Returns the part to keep of a text that is longer than any valid name; None for a shorter text.
fn beginning(text: &str) -> Option<&str> {
    let end = text.char_indices().map(|(at, _)| at);
    let end = end.chain([text.len()]).find(|at| *at > LONGEST_NAME)?;
    Some(&text[..end])
}

/// How many scheduling gates are kept of a pod whose gates are too large.
const FEW_GATES: usize = 16;

/// Returns the bytes of memory of a pod's tolerations, node selector, node affinity and
/// annotations.
fn rare_bytes(pod: &Pod) -> usize {
    size::pairs(&pod.annotations)
        + size::tolerations(&pod.tolerations)
        + size::required(&pod.required)
        + size::preferred(&pod.preferred)
}

impl Pod {
    /// The approximate memory of the pod in bytes; each part whose size its creator chooses counts.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let gates = self.scheduling_gates.iter();
        let words = [
            &self.namespace,
            &self.node_name,
            &self.scheduler_name,
            &self.scheduling_group,
            &self.phase,
            &self.qos_class,
            &self.scheduled_reason,
        ];
        size_of::<Self>()
            + self.name.len()
            + self.uid.len()
            + words.map(size::word).iter().sum::<usize>()
            + self.nominated_node_name.len()
            + rare_bytes(self)
            + size::amounts(&self.requests.0)
            + size::amounts(&self.overhead.0)
            + gates.map(|gate| size::gate(gate)).sum::<usize>()
            + size::pairs(&self.labels)
            + size::containers(&self.containers)
            + size::containers(&self.init_containers)
            + self.parts.as_deref().map_or(0, details_bytes)
            + self.parts.as_deref().map_or(0, raw_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Missing;
    use super::*;
    use crate::wire::pod::parsed;

    fn trimmed(pod: &str, keeping: &Keeping) -> Pod {
        let mut pod = parsed(pod.as_bytes()).expect("a pod");
        keeping.trim(&mut pod);
        pod
    }

    const WHOLE: &str = r#"{
        "metadata": {"name": "p", "labels": {"app": "web"}, "annotations": {"a": "1", "b": "2"}},
        "spec": {"nodeSelector": {"zone": "x"}, "tolerations": [{"operator": "Exists"}],
            "schedulingGates": [{"name": "g"}],
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}"#;

    #[test]
    fn a_pod_within_the_bound_is_kept_whole_and_one_above_without_all_rare_parts() {
        let whole = trimmed(WHOLE, &Keeping::default());
        let size = rare_bytes(&whole);
        let bounded = |max_pod_bytes| {
            let max_pod_bytes = Some(max_pod_bytes);
            trimmed(
                WHOLE,
                &Keeping {
                    max_pod_bytes,
                    ..Keeping::default()
                },
            )
        };
        assert_eq!(bounded(size), whole);
        let without = Pod {
            annotations: Arc::default(),
            tolerations: Arc::default(),
            required: Arc::default(),
            preferred: Arc::default(),
            missing: Missing {
                rare: true,
                ..Missing::default()
            },
            ..whole
        };
        assert_eq!(bounded(size - 1), without);
    }

    #[test]
    fn only_the_annotations_that_are_asked_for_are_kept_and_only_they_count() {
        let annotations = Some(BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        let keeping = Keeping {
            annotations,
            max_pod_bytes: Some(1000),
            ..Keeping::default()
        };
        let long = WHOLE.replace(r#""a": "1""#, &format!(r#""a": "{}""#, "x".repeat(2000)));
        let kept = trimmed(&long, &keeping);
        assert_eq!(*kept.annotations, [("b".to_owned(), "2".to_owned())]);
        assert!(!kept.missing.any() && !kept.tolerations.is_empty());
    }

    #[test]
    fn each_rare_part_counts_with_its_texts() {
        let long = "x".repeat(5000);
        let expression = format!(r#"{{"matchExpressions":[{{"key":"k","values":["{long}"]}}]}}"#);
        let affinity = |kind: &str, value: &str| {
            let field = format!("{kind}DuringSchedulingIgnoredDuringExecution");
            format!(r#"{{"spec":{{"affinity":{{"nodeAffinity":{{"{field}":{value}}}}}}}}}"#)
        };
        for pod in [
            format!(r#"{{"metadata":{{"annotations":{{"a":"{long}"}}}}}}"#),
            format!(r#"{{"spec":{{"nodeSelector":{{"{long}":""}}}}}}"#),
            format!(r#"{{"spec":{{"tolerations":[{{"value":"{long}"}}]}}}}"#),
            affinity(
                "required",
                &format!(r#"{{"nodeSelectorTerms":[{expression}]}}"#),
            ),
            affinity(
                "preferred",
                &format!(r#"[{{"weight":1,"preference":{expression}}}]"#),
            ),
        ] {
            let size = rare_bytes(&trimmed(&pod, &Keeping::default()));
            assert!((5000..5500).contains(&size), "{size}: {pod:.60}");
        }
    }

    #[test]
    fn of_a_text_that_is_longer_than_any_name_a_part_is_kept_that_is_longer_than_any_name() {
        type Field = (&'static str, fn(&Pod) -> &str);
        let fields: [Field; 6] = [
            (r#""spec":{"schedulerName":"TEXT"}"#, |pod| {
                &pod.scheduler_name
            }),
            (
                r#""spec":{"schedulingGroup":{"podGroupName":"TEXT"}}"#,
                |pod| &pod.scheduling_group,
            ),
            (r#""status":{"nominatedNodeName":"TEXT"}"#, |pod| {
                &pod.nominated_node_name
            }),
            (r#""status":{"phase":"TEXT"}"#, |pod| &pod.phase),
            (r#""status":{"qosClass":"TEXT"}"#, |pod| &pod.qos_class),
            (
                r#""status":{"conditions":[{"type":"PodScheduled","reason":"TEXT"}]}"#,
                |pod| &pod.scheduled_reason,
            ),
        ];
        let keeping = Keeping {
            max_pod_bytes: Some(64 << 10),
            ..Keeping::default()
        };
        for (field, read) in fields {
            for (text, kept, long) in [
                ("x".repeat(253), "x".repeat(253), false),
                ("x".repeat(254), "x".repeat(254), true),
                ("x".repeat(1 << 20), "x".repeat(254), true),
                ("ä".repeat(1 << 10), "ä".repeat(127), true),
                ("\u{20ac}".repeat(1 << 10), "\u{20ac}".repeat(85), true),
            ] {
                let pod = format!("{{{}}}", field.replace("TEXT", &text));
                let found = trimmed(&pod, &keeping);
                assert_eq!(read(&found), kept);
                assert_eq!((found.missing.texts, found.missing.any()), (long, long));
                let whole = trimmed(&pod, &Keeping::default());
                assert!(read(&whole) == text && !whole.missing.any());
                assert!((text.len()..text.len() + 1000).contains(&whole.held_bytes()));
            }
        }
    }

    #[test]
    fn of_too_many_resources_those_of_nothing_go_first_and_then_those_that_do_not_fit() {
        let asking = |amount: &dyn Fn(usize) -> usize| {
            let many = (0..1000).map(|i| format!(r#""a.b/r{i:04}":"{}""#, amount(i)));
            let many = many.collect::<Vec<_>>().join(",");
            let limits = r#""limits":{"cpu":"1"}"#;
            format!(
                r#"{{"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"2",{many}}},{limits}}}}}]}}}}"#
            )
        };
        let keeping = Keeping {
            max_pod_bytes: Some(16 << 10),
            ..Keeping::default()
        };
        let kept = trimmed(&asking(&|i| usize::from(i == 700)), &keeping);
        assert!(!kept.missing.resources);
        let named: Vec<_> = kept.requests.iter().map(|(word, n)| (&**word, n)).collect();
        assert_eq!(named, [("a.b/r0700", 1), ("cpu", 2000)]);

        let kept = trimmed(&asking(&|i| i % 2), &keeping);
        assert!(kept.missing.resources);
        assert_eq!(kept.requests.get("cpu"), Some(2000));
        assert_eq!(kept.requests.get("a.b/r0001"), Some(1));
        assert_eq!(kept.requests.get("a.b/r0000"), None);
        assert_eq!(kept.requests.get("a.b/r0999"), None);
        let bytes = size::amounts(&kept.requests.0);
        assert!((2 << 10..4 << 10).contains(&bytes), "{bytes}");
    }

    #[test]
    fn of_common_parts_those_stay_that_fit_and_the_others_are_missed() {
        let many = |piece: &dyn Fn(usize) -> String| -> String {
            (0..1000).map(piece).collect::<Vec<_>>().join(",")
        };
        let labels = format!(
            r#"{{"metadata":{{"labels":{{{}}}}}}}"#,
            many(&|i| format!(r#""k{i}":"v""#))
        );
        let gates = format!(
            r#"{{"spec":{{"schedulingGates":[{}]}}}}"#,
            many(&|i| format!(r#"{{"name":"g{i}"}}"#))
        );
        let containers = format!(
            r#"{{"spec":{{"containers":[{}]}}}}"#,
            many(&|i| format!(
                r#"{{"name":"c{i}","resources":{{"requests":{{"cpu":"1"}},"limits":{{"r":"1"}}}}}}"#
            ))
        );
        let resources = format!(
            r#"{{"spec":{{"overhead":{{"cpu":"1",{}}}}}}}"#,
            many(&|i| format!(r#""r{i}":"1""#))
        );
        let keeping = Keeping {
            max_pod_bytes: Some(8192),
            ..Keeping::default()
        };
        let none = Missing::default();
        for (pod, missing) in [
            (WHOLE, none),
            (
                &labels,
                Missing {
                    labels: true,
                    ..none
                },
            ),
            (
                &gates,
                Missing {
                    gates: true,
                    ..none
                },
            ),
            (
                &containers,
                Missing {
                    containers: true,
                    ..none
                },
            ),
            (
                &resources,
                Missing {
                    resources: true,
                    ..none
                },
            ),
        ] {
            let kept = trimmed(pod, &keeping);
            assert_eq!(kept.missing, missing, "{pod:.60}");
            let whole = trimmed(pod, &Keeping::default());
            let cpu = |pod: &Pod| (pod.requests.get("cpu"), pod.overhead.get("cpu"));
            assert_eq!(cpu(&kept), cpu(&whole));
            assert_eq!(
                kept.labels.is_empty(),
                missing.labels || whole.labels.is_empty()
            );
            assert_eq!(kept.requests.get("r7"), None);
            let gates = whole.scheduling_gates.len();
            let kept_gates = if missing.gates { FEW_GATES } else { gates };
            assert_eq!(
                kept.scheduling_gates,
                whole.scheduling_gates[..kept_gates].into()
            );
            if !missing.any() {
                assert_eq!(kept, whole);
            }
        }
    }
}
