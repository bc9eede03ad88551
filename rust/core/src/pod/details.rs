//! `PodDetails`: the fields of a pod that a store keeps only where a plugin needs them.

use std::borrow::Cow;
use std::sync::Arc;

use super::record::Pod;
use crate::labels::Selector;
use crate::node::Condition;

/// The fields of a v1.Pod that only a store with `Parts::details` keeps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodDetails {
    /// The fields that pods of one template have in common.
    pub template: Arc<PodTemplate>,
    /// `spec.volumes`
    pub volumes: Box<[Volume]>,
    /// `status.conditions`
    pub conditions: Box<[Condition]>,
}

/// The details that pods of one template, such as a Deployment's, have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodTemplate {
    /// `spec.affinity.podAffinity`
    pub affinity: PodAffinity,
    /// `spec.affinity.podAntiAffinity`
    pub anti_affinity: PodAffinity,
    /// `spec.topologySpreadConstraints`
    pub spread_constraints: Box<[TopologySpreadConstraint]>,
    /// `metadata.ownerReferences`
    pub owner_references: Box<[OwnerReference]>,
    /// The host ports of the containers that run for as long as the pod.
    ///
    /// Source: kubernetes v1.37 pkg/scheduler/util/utils.go `GetHostPorts`
    pub host_ports: Box<[HostPort]>,
    /// The images of the init containers and the containers, in order.
    pub images: Box<[Box<str>]>,
    /// `spec.runtimeClassName`
    pub runtime_class_name: Box<str>,
    /// `spec.resourceClaims`
    pub resource_claims: Box<[ResourceClaim]>,
}

impl PodTemplate {
    /// The number of conditions on other pods and their namespaces; each term counts as one more.
    pub(crate) fn conditions(&self) -> usize {
        let affinities = [&self.affinity, &self.anti_affinity].into_iter();
        let terms = affinities.flat_map(PodAffinity::terms);
        let of_terms =
            terms.map(|term| 1 + term.selector.conditions() + term.namespace_selector.conditions());
        let spread = self.spread_constraints.iter();
        let of_spread = spread.map(|constraint| 1 + constraint.selector.conditions());
        of_terms.chain(of_spread).sum()
    }
}

/// `podAffinity` or `podAntiAffinity` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`
    pub required: Box<[PodAffinityTerm]>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`: each term with its weight.
    pub preferred: Box<[(i32, PodAffinityTerm)]>,
}

impl PodAffinity {
    /// Iterates over the required and the preferred terms.
    pub(super) fn terms(&self) -> impl Iterator<Item = &PodAffinityTerm> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        self.required.iter().chain(preferred)
    }
}

/// A term of a pod's affinity to other pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// `topologyKey`
    pub topology_key: Box<str>,
    /// `labelSelector`
    pub selector: LabelSelector,
    /// `namespaces`, as the API sent them.
    pub namespaces: Box<[Box<str>]>,
    /// `namespaceSelector`
    pub namespace_selector: LabelSelector,
    /// `matchLabelKeys`
    pub match_label_keys: Box<[Box<str>]>,
    /// `mismatchLabelKeys`
    pub mismatch_label_keys: Box<[Box<str>]>,
}

/// A `metav1.LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum LabelSelector {
    /// The field is null or absent: the selector matches nothing.
    #[default]
    Nothing,
    /// A selector, which matches everything if it is empty.
    Of(Selector),
    /// Kubernetes would refuse the selector with this message.
    Invalid(Box<str>),
}

impl LabelSelector {
    fn conditions(&self) -> usize {
        match self {
            Self::Of(selector) => selector.requirements().len(),
            Self::Nothing | Self::Invalid(_) => 0,
        }
    }
}

/// A constraint on how the pods of a set are spread over the values of a topology key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// `maxSkew`
    pub max_skew: i32,
    /// `topologyKey`
    pub topology_key: Box<str>,
    /// `whenUnsatisfiable`: `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Box<str>,
    /// `labelSelector`
    pub selector: LabelSelector,
    /// `minDomains`
    pub min_domains: Option<i32>,
    /// `nodeAffinityPolicy`; empty if absent.
    pub node_affinity_policy: Box<str>,
    /// `nodeTaintsPolicy`; empty if absent.
    pub node_taints_policy: Box<str>,
    /// `matchLabelKeys`
    pub match_label_keys: Box<[Box<str>]>,
}

/// An object that owns a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// `apiVersion`
    pub api_version: Box<str>,
    /// `kind`
    pub kind: Box<str>,
    /// `name`
    pub name: Box<str>,
    /// `uid`
    pub uid: Box<str>,
    /// `controller`: whether the owner manages the pod.
    pub controller: bool,
}

/// A port of the node that a container takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `hostIP`; `0.0.0.0` if absent.
    pub ip: Box<str>,
    /// `protocol`; `TCP` if absent.
    pub protocol: Box<str>,
    /// `hostPort`
    pub port: i32,
}

/// A claim of a pod for devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceClaim {
    /// `name`: the claim's name inside the pod.
    pub name: Box<str>,
    /// `resourceClaimName`; empty if absent.
    pub claim_name: Box<str>,
    /// `resourceClaimTemplateName`; empty if absent.
    pub template_name: Box<str>,
}

/// A volume of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// `name`
    pub name: Box<str>,
    /// The field that says where the volume comes from, such as `persistentVolumeClaim`; empty if
    /// there is none.
    pub source: Cow<'static, str>,
    /// `persistentVolumeClaim.claimName`; empty for other volumes.
    pub claim_name: Box<str>,
}

impl Pod {
    /// The names of the claims of the pod's volumes; the namespace of a claim is that of the pod.
    ///
    /// Source: kubernetes v1.37 pkg/scheduler/framework/types.go `PodPVCKeys`
    pub fn claim_names(&self) -> impl Iterator<Item = &str> {
        let volumes = self
            .details()
            .into_iter()
            .flat_map(|details| &details.volumes);
        let names = volumes.map(|volume| &*volume.claim_name);
        names.filter(|name| !name.is_empty())
    }
}
