//! What of a pod is kept that a watch shows.
//!
//! Whoever may create pods chooses how large they are. A pod that waits or runs is counted, matched
//! and shown to plugins by its labels, requests and times. Its tolerations, affinity and annotations
//! decide where that one pod may go, and the request that asks for it brings them again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::record::Pod;
use super::size;

/// What of a pod is kept; by default all of it.
#[derive(Debug, Clone, Default)]
pub struct Keeping {
    /// The keys of the annotations that are kept; None keeps all.
    pub annotations: Option<BTreeSet<String>>,
    /// The most memory that tolerations, node selector, node affinity and annotations of one pod
    /// may take together; a pod with more is kept without them and says so. None is no limit.
    pub max_pod_bytes: Option<usize>,
}

impl Keeping {
    /// Takes out of a pod what is not kept.
    pub(super) fn trim(&self, pod: &mut Pod) {
        if let Some(keys) = &self.annotations {
            let kept = pod.annotations.iter().filter(|(key, _)| keys.contains(key));
            pod.annotations = kept.cloned().collect();
        }
        if self
            .max_pod_bytes
            .is_some_and(|most| rare_bytes(pod) > most)
        {
            pod.annotations = Arc::default();
            pod.tolerations = Arc::default();
            pod.required = Arc::default();
            pod.preferred = Arc::default();
            pod.truncated = true;
        }
    }
}

/// The memory of what may be left out of a pod.
fn rare_bytes(pod: &Pod) -> usize {
    size::pairs(&pod.annotations)
        + size::tolerations(&pod.tolerations)
        + size::required(&pod.required)
        + size::preferred(&pod.preferred)
}

#[cfg(test)]
mod tests {
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
            truncated: true,
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
        };
        let long = WHOLE.replace(r#""a": "1""#, &format!(r#""a": "{}""#, "x".repeat(2000)));
        let kept = trimmed(&long, &keeping);
        assert_eq!(*kept.annotations, [("b".to_owned(), "2".to_owned())]);
        assert!(!kept.truncated && !kept.tolerations.is_empty());
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
}
