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

/// The pools are not purged for fewer deleted pods than this.
const FEW: usize = 256;

/// Nor for less that was put into them since.
const LITTLE: usize = 8 << 20;

/// Most pods come from few templates; of 150,000 pods the shared parts are most of the memory.
#[derive(Debug, Default)]
pub(crate) struct Templates {
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
        self.bytes += share(&mut self.pairs, &mut pod.labels, pairs)
            + share(&mut self.pairs, &mut pod.annotations, pairs)
            + share(&mut self.tolerations, &mut pod.tolerations, tolerations)
            + share(&mut self.required, &mut pod.required, required)
            + share(&mut self.preferred, &mut pod.preferred, preferred)
            + share(&mut self.containers, &mut pod.containers, containers)
            + share(&mut self.containers, &mut pod.init_containers, containers)
            + share(&mut self.amounts, &mut pod.overhead.0, amounts)
            + share(&mut self.amounts, &mut pod.requests.0, amounts);
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

    /// Drops what nobody shares; done again when the pools hold a quarter more.
    fn purge(&mut self) {
        self.bytes = purged(&mut self.pairs, pairs)
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
    value: &mut Arc<T>,
    size: fn(&T) -> usize,
) -> usize {
    let bytes = size(value);
    let is_new = bytes <= LARGEST && pool.share(value);
    if is_new { bytes + ENTRY } else { 0 }
}

/// Purges a pool; how much memory it takes then.
fn purged<T: ?Sized + Hash + Eq>(pool: &mut Pool<T>, size: fn(&T) -> usize) -> usize {
    pool.purge();
    pool.iter().map(|value| size(value) + ENTRY).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_come_and_go_one_by_one_leave_little_beside_many_that_stay() {
        let mut templates = Templates::default();
        let mut pod = |annotation: String| {
            let annotations = [("a".to_owned(), annotation)];
            let mut pod = Pod {
                annotations: annotations.into(),
                ..Pod::default()
            };
            templates.share(&mut pod);
            templates.lost(1, 1_000_000);
            (pod, templates.pairs.iter().map(pairs).sum::<usize>())
        };
        let stay: Vec<_> = (0..1000).map(|i| pod(format!("{i:03000}")).0).collect();
        for i in 0..10_000 {
            let (_, held) = pod(format!("{i:03900}"));
            assert!(held < 13 << 20, "{held} bytes after {i}");
        }
        let (again, _) = pod(format!("{:03000}", 7));
        assert!(Arc::ptr_eq(&again.annotations, &stay[7].annotations));
    }
}
