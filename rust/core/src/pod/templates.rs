//! What the pods of one template have in common, each once.

use super::record::{Container, Pod};
use super::resources::Word;
use crate::labels::{PreferredTerm, RequiredNodeAffinity, Toleration};
use crate::pool::Pool;

/// Larger annotations are one pod's own; they must not outlive it in a pool.
const LARGEST: usize = 4096;

/// Most pods come from few templates; of 150,000 pods the shared parts are most of the memory.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    pairs: Pool<[(String, String)]>,
    tolerations: Pool<[Toleration]>,
    required: Pool<RequiredNodeAffinity>,
    preferred: Pool<[PreferredTerm]>,
    containers: Pool<[Container]>,
    amounts: Pool<[(Word, i64)]>,
}

impl Templates {
    /// Lets a pod share what pods before it had too.
    pub(crate) fn share(&mut self, pod: &mut Pod) {
        self.pairs.share(&mut pod.labels);
        let size: usize = pod.annotations.iter().map(|(k, v)| k.len() + v.len()).sum();
        if size <= LARGEST {
            self.pairs.share(&mut pod.annotations);
        }
        self.tolerations.share(&mut pod.tolerations);
        self.required.share(&mut pod.required);
        self.preferred.share(&mut pod.preferred);
        self.containers.share(&mut pod.containers);
        self.containers.share(&mut pod.init_containers);
        self.amounts.share(&mut pod.overhead.0);
        self.amounts.share(&mut pod.requests.0);
    }
}
