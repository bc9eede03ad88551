//! What the pods of one template have in common, each once.

use std::hash::Hash;
use std::sync::Arc;

use super::record::{Container, Pod};
use super::resources::Word;
use super::size::{amounts, containers, pairs, preferred, required, tolerations};
use crate::labels::{PreferredTerm, RequiredNodeAffinity, Toleration};
use crate::pool::Pool;

/// What is larger is one pod's own: no template makes it, and what is in a pool outlives the pods.
const LARGEST: usize = 4096;

/// What a value in a pool takes beside itself.
const ENTRY: usize = 32;

/// The pools are purged after no fewer deleted pods than this.
const FEW: usize = 256;

/// The pools are purged after no fewer bytes than this that were put into them.
const LITTLE: usize = 8 << 20;

/// Most pods come from few templates; of 150,000 pods the shared parts are most of the memory.
///
/// What one pod alone has is in no pool: a value enters when it comes for the second time.
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
    /// How many pods are gone since the pools were purged.
    lost: usize,
    /// What the pools hold, about, and how much has them purged.
    bytes: usize,
    purge_at: usize,
}

impl Templates {
    /// Lets a pod share what pods before it had too.
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
        for word in [&mut pod.namespace, &mut pod.node_name] {
            if let Word::Other(text) = word {
                self.bytes += share(&mut self.words, seen, text, str::len);
            }
        }
        if self.bytes > self.purge_at {
            self.purge();
        }
    }

    /// Tells of so many pods that are gone, and how many are left. What nobody shares any more goes
    /// once more pods are gone than left: else an hour with many pods would be remembered for ever.
    pub(crate) fn lost(&mut self, pods: usize, left: usize) {
        self.lost += pods;
        if self.lost > left.max(FEW) {
            self.purge();
        }
    }

    /// How much memory the pools take, about.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what nobody shares; done again when the pools hold a quarter more.
    fn purge(&mut self) {
        self.bytes = purged(&mut self.words, str::len)
            + purged(&mut self.pairs, pairs)
            + purged(&mut self.tolerations, tolerations)
            + purged(&mut self.required, required)
            + purged(&mut self.preferred, preferred)
            + purged(&mut self.containers, containers)
            + purged(&mut self.amounts, amounts);
        self.purge_at = self.bytes + LITTLE.max(self.bytes / 4);
        self.lost = 0;
    }
}

/// Shares a value that is not too large, as `size` says; how much memory the pool takes more.
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

/// Purges a pool; how much memory it takes then.
fn purged<T: ?Sized + Hash + Eq>(pool: &mut Pool<T>, size: fn(&T) -> usize) -> usize {
    pool.purge();
    pool.iter().map(|value| size(value) + ENTRY).sum()
}

/// Which values came not long ago, in memory that does not grow: of values in one place the last is
/// known.
#[derive(Debug, Default)]
struct Seen(Vec<u32>);

/// A template that comes again before so many other values is known.
const PLACES: usize = 1 << 15;

impl Seen {
    /// Whether the value of this hash came before, as far as that is known.
    fn again(&mut self, hash: u64) -> bool {
        self.0.resize(PLACES, 0);
        let place = hash as usize % PLACES;
        // Zero says that there was none.
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
