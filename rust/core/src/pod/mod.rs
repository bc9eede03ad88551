//! Pods: their requests, the nodes that they are on, and the nodes for which they are assumed.

mod counting;
mod details;
mod groups;
mod keeping;
mod keys;
mod labelled;
mod namespaces;
mod occupancy;
mod qos;
mod record;
mod requests;
mod resources;
mod size;
mod snapshot;
mod store;
mod templates;

pub use counting::Counted;
pub use details::{
    HostPort, LabelSelector, OwnerReference, PodAffinity, PodAffinityTerm, PodDetails, PodTemplate,
    ResourceClaim, TopologySpreadConstraint, Volume,
};
pub use keeping::Keeping;
pub use labelled::Unlabelled;
pub use record::{Container, KeptParts, Missing, Pod, RequestsWithDefaults};
pub use resources::{Amounts, Word, is_dra_extended_resource};
pub use snapshot::PodSnapshot;
pub use store::{PodStore, Unassumable};

pub(crate) use qos::qos_class;
pub(crate) use requests::{ContainerResources, Held, PodResources};
pub(crate) use resources::{ResourceList, is_extended_resource, word};
