//! Pools of the parts that pods of one template, such as a Deployment's, have in common.

use std::hash::Hash;
use std::sync::Arc;

use super::details::PodTemplate;
use super::record::{Container, Pod, RequestsWithDefaults};
use super::resources::Word;
use super::size::{amounts, containers, pairs, preferred, required, template, tolerations};
use crate::labels::{PreferredTerm, RequiredNodeAffinity, Toleration};
use crate::pool::Pool;

/// The most bytes of a part that is shared: a pool keeps parts longer than the pods live.
const LARGEST: usize = 4096;

/// Bytes that a pool takes for a value besides the value itself.
const ENTRY: usize = 32;

/// The least number of deleted pods after which the pools are purged.
const FEW: usize = 256;

/// The least bytes put into the pools after which the pools are purged.
const LITTLE: usize = 8 << 20;

/// Pools of labels, tolerations, containers and other parts of pods. Most pods come from few
/// templates, so that most of the memory of 150,000 pods can be shared.
///
/// A part enters a pool when it comes for the second time, so that no pool has a part that only one
/// pod has.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    seen: Seen,
    words: Pool<str>,
    pairs: Pool<[(String, String)]>,
    tolerations: Pool<[Toleration]>,
    required: Pool<RequiredNodeAffinity>,
    preferred: Pool<[PreferredTerm]>,
    containers: Pool<[Container]>,
    amounts: Pool<[(Word, i64)]>,
    details: Pool<PodTemplate>,
    defaulted: Pool<RequestsWithDefaults>,
    /// How many pods were removed since the pools were purged.
    lost: usize,
    /// The approximate bytes of the pools, and the bytes at which they are purged.
    bytes: usize,
    purge_at: usize,
}

impl Templates {
    /// Replaces the parts of a pod by equal parts of the pools, where a pool has them.
    pub(crate) fn share(&mut self, pod: &mut Pod) {
        let seen = &mut self.seen;
        self.bytes += share(&mut self.pairs, seen, &mut pod.labels, pairs)
            + share(&mut self.pairs, seen, &mut pod.annotations, pairs)
            + share(
                &mut self.tolerations,
                seen,
                &mut pod.tolerations,
                tolerations,
            )
            + share(&mut self.required, seen, &mut pod.required, required)
            + share(&mut self.preferred, seen, &mut pod.preferred, preferred)
            + share(&mut self.containers, seen, &mut pod.containers, containers)
            + share(
                &mut self.containers,
                seen,
                &mut pod.init_containers,
                containers,
            )
            + share(&mut self.amounts, seen, &mut pod.overhead.0, amounts)
            + share(&mut self.amounts, seen, &mut pod.requests.0, amounts);
        // The pod was parsed a moment ago, so no other pod has its details yet.
        if let Some(parts) = pod.parts.as_mut().and_then(Arc::get_mut)
            && let Some(details) = &mut parts.details
        {
            self.bytes += share(&mut self.details, seen, &mut details.template, template);
        }
        if let Some(defaulted) = &mut pod.defaulted {
            self.bytes += share(&mut self.defaulted, seen, defaulted, size_of_val);
        }
        for word in [&mut pod.namespace, &mut pod.node_name] {
            if let Word::Other(text) = word {
                self.bytes += share(&mut self.words, seen, text, str::len);
            }
        }
        if self.bytes > self.purge_at {
            self.purge();
        }
    }

    /// Counts removed pods, and purges the pools when more pods were removed than are left;
    /// otherwise the parts of removed pods would take memory for ever.
    pub(crate) fn lost(&mut self, pods: usize, left: usize) {
        self.lost += pods;
        if self.lost > left.max(FEW) {
            self.purge();
        }
    }

    /// The approximate memory of the pools in bytes.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the parts that no pod has any more; the next purge is due when the pools have a
    /// quarter more bytes.
    fn purge(&mut self) {
        self.bytes = purged(&mut self.words, str::len)
            + purged(&mut self.pairs, pairs)
            + purged(&mut self.tolerations, tolerations)
            + purged(&mut self.required, required)
            + purged(&mut self.preferred, preferred)
            + purged(&mut self.containers, containers)
            + purged(&mut self.amounts, amounts)
            + purged(&mut self.details, template)
            + purged(&mut self.defaulted, size_of_val);
        self.purge_at = self.bytes + LITTLE.max(self.bytes / 4);
        self.lost = 0;
    }
}

/// Replaces a value by the equal value of a pool, if `size` says that it is not too large; returns
/// how many bytes the pool has grown.
fn share<T: ?Sized + Hash + Eq>(
    pool: &mut Pool<T>,
    seen: &mut Seen,
    value: &mut Arc<T>,
    size: fn(&T) -> usize,
) -> usize {
    let bytes = size(value);
    if bytes > LARGEST || pool.share(value) || !seen.again(pool.hash(value)) {
        return 0;
    }
    pool.keep(value.clone());
    bytes + ENTRY
}

/// Drops the values of a pool that no pod has any more; returns the bytes that the pool then takes.
fn purged<T: ?Sized + Hash + Eq>(pool: &mut Pool<T>, size: fn(&T) -> usize) -> usize {
    pool.purge();
    pool.iter().map(|value| size(value) + ENTRY).sum()
}

/// A table of fixed size with the hashes of values that came recently; a later hash with the same
/// place replaces the earlier hash.
#[derive(Debug, Default)]
struct Seen(Vec<u32>);

/// How many places the table of recent values has.
const PLACES: usize = 1 << 15;

impl Seen {
    /// Whether a value with this hash is in the table; adds the hash if not.
    fn again(&mut self, hash: u64) -> bool {
        self.0.resize(PLACES, 0);
        let place = hash as usize % PLACES;
        // Zero marks a free place.
        let mark = (hash >> 32) as u32 | 1;
        std::mem::replace(&mut self.0[place], mark) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(templates: &mut Templates, annotation: &str) -> Pod {
        let annotations = [("a".to_owned(), annotation.to_owned())];
        let mut pod = Pod {
            annotations: annotations.into(),
            ..Pod::default()
        };
        templates.share(&mut pod);
        pod
    }

    fn held(templates: &Templates) -> usize {
        templates.pairs.iter().map(pairs).sum()
    }

    #[test]
    fn pods_that_come_and_go_one_by_one_leave_little_beside_many_that_stay() {
        let mut templates = Templates::default();
        let mut two_pods = |annotation: String| {
            let first = pod(&mut templates, &annotation);
            let second = pod(&mut templates, &annotation);
            templates.lost(2, 1_000_000);
            (first, second, held(&templates))
        };
        let stay: Vec<_> = (0..1000)
            .map(|i| two_pods(format!("{i:03000}")).1)
            .collect();
        for i in 0..10_000 {
            let (_, _, held) = two_pods(format!("{i:03900}"));
            assert!(held < 13 << 20, "{held} bytes after {i}");
        }
        let (again, _, _) = two_pods(format!("{:03000}", 7));
        assert!(Arc::ptr_eq(&again.annotations, &stay[7].annotations));
    }

    #[test]
    fn what_one_pod_alone_has_is_in_no_pool_and_what_two_have_is_there_once() {
        let mut templates = Templates::default();
        let empty = held(&templates);
        for i in 0..1000 {
            pod(&mut templates, &format!("{i:0100}"));
        }
        assert_eq!(held(&templates), empty);
        let (second, third) = (pod(&mut templates, "a"), pod(&mut templates, "a"));
        let fourth = pod(&mut templates, "a");
        assert!(!Arc::ptr_eq(&second.annotations, &third.annotations));
        assert!(Arc::ptr_eq(&third.annotations, &fourth.annotations));
        assert_eq!(held(&templates), empty + pairs(&third.annotations));
    }
}
