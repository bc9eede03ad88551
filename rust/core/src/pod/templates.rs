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

/// The pools are not purged for fewer deleted pods than this.
const FEW: usize = 256;

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
}

impl Templates {
    /// Lets a pod share what pods before it had too.
    pub(crate) fn share(&mut self, pod: &mut Pod) {
        share(&mut self.pairs, &mut pod.labels, pairs);
        share(&mut self.pairs, &mut pod.annotations, pairs);
        share(&mut self.tolerations, &mut pod.tolerations, tolerations);
        share(&mut self.required, &mut pod.required, required);
        share(&mut self.preferred, &mut pod.preferred, preferred);
        share(&mut self.containers, &mut pod.containers, containers);
        share(&mut self.containers, &mut pod.init_containers, containers);
        share(&mut self.amounts, &mut pod.overhead.0, amounts);
        share(&mut self.amounts, &mut pod.requests.0, amounts);
    }

    /// Tells of so many pods that are gone, and how many are left. What nobody shares any more goes
    /// once more pods are gone than left: else an hour with many pods would be remembered for ever.
    pub(crate) fn lost(&mut self, pods: usize, left: usize) {
        self.lost += pods;
        if self.lost > left.max(FEW) {
            self.lost = 0;
            self.pairs.purge();
            self.tolerations.purge();
            self.required.purge();
            self.preferred.purge();
            self.containers.purge();
            self.amounts.purge();
        }
    }
}

/// Shares a value that is not too large, as `size` says.
fn share<T: ?Sized + Hash + Eq>(pool: &mut Pool<T>, value: &mut Arc<T>, size: fn(&T) -> usize) {
    if size(value) <= LARGEST {
        pool.share(value);
    }
}
