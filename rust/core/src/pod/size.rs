//! Computes the approximate memory of the parts of a pod, in bytes.

use std::mem::size_of;

use super::details::{LabelSelector, PodAffinity, PodAffinityTerm, PodDetails, PodTemplate};
use super::record::Container;
use super::resources::Word;
use crate::labels::{
    NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, RequiredNodeAffinity, Toleration,
};

/// Bytes that an allocation takes besides its content.
const ALLOCATION: usize = 16;

/// Returns the bytes of memory of labels or annotations.
pub(super) fn pairs(pairs: &[(String, String)]) -> usize {
    let pairs = pairs.iter();
    pairs.map(|(key, value)| text(key) + text(value)).sum()
}

pub(super) fn tolerations(tolerations: &[Toleration]) -> usize {
    let texts =
        |of: &Toleration| text(&of.key) + text(&of.operator) + text(&of.value) + text(&of.effect);
    tolerations.iter().map(texts).sum()
}

pub(super) fn required(of: &RequiredNodeAffinity) -> usize {
    pairs(&of.node_selector) + of.terms.iter().flatten().map(term).sum::<usize>()
}

pub(super) fn preferred(terms: &[PreferredTerm]) -> usize {
    terms.iter().map(|of| term(&of.preference)).sum()
}

pub(super) fn containers(containers: &[Container]) -> usize {
    let lists = |of: &Container| amounts(&of.requests.0) + amounts(&of.limits.0);
    let size = |of: &Container| size_of::<Container>() + ALLOCATION + of.name.len() + lists(of);
    containers.iter().map(size).sum()
}

/// Returns the bytes of memory of a list of resources.
pub(super) fn amounts(amounts: &[(Word, i64)]) -> usize {
    size_of_val(amounts)
        + amounts
            .iter()
            .map(|(resource, _)| word(resource))
            .sum::<usize>()
}

/// Returns the bytes of memory of a scheduling gate, or of any text that has an allocation of its
/// own.
pub(super) fn gate(gate: &str) -> usize {
    size_of::<Box<str>>() + ALLOCATION + gate.len()
}

/// Returns the bytes of memory that a word takes besides the `Word` value.
pub(super) fn word(word: &Word) -> usize {
    match word {
        Word::Usual(_) => 0,
        Word::Other(text) => ALLOCATION + text.len(),
    }
}

/// Returns the bytes of memory of the details of a pod.
pub(super) fn details(of: &PodDetails) -> usize {
    let volumes = of.volumes.iter();
    let volumes =
        volumes.map(|volume| gate(&volume.name) + gate(&volume.source) + gate(&volume.claim_name));
    let conditions = of.conditions.iter().map(|condition| {
        let times = gate(&condition.last_transition_time);
        times + gate(&condition.kind) + gate(&condition.status) + gate(&condition.reason)
    });
    size_of::<PodDetails>()
        + template(&of.template)
        + volumes.sum::<usize>()
        + conditions.sum::<usize>()
}

/// Returns the bytes of memory of those details that pods of one template have in common.
pub(super) fn template(of: &PodTemplate) -> usize {
    let spread = of.spread_constraints.iter().map(|spread| {
        size_of_val(spread)
            + gate(&spread.topology_key)
            + label_selector(&spread.selector)
            + texts(&spread.match_label_keys)
            + gate(&spread.when_unsatisfiable)
            + gate(&spread.node_affinity_policy)
            + gate(&spread.node_taints_policy)
    });
    let owners = of.owner_references.iter().map(|owner| {
        let names = gate(&owner.name) + gate(&owner.uid);
        size_of_val(owner) + names + gate(&owner.kind) + gate(&owner.api_version)
    });
    let ports = of.host_ports.iter();
    let ports = ports.map(|port| size_of_val(port) + gate(&port.ip) + gate(&port.protocol));
    let claims = of.resource_claims.iter();
    let claims = claims
        .map(|claim| gate(&claim.name) + gate(&claim.claim_name) + gate(&claim.template_name));
    size_of::<PodTemplate>()
        + affinity(&of.affinity)
        + affinity(&of.anti_affinity)
        + spread.sum::<usize>()
        + owners.sum::<usize>()
        + ports.sum::<usize>()
        + claims.sum::<usize>()
        + texts(&of.images)
        + of.runtime_class_name.len()
}

fn affinity(of: &PodAffinity) -> usize {
    of.terms().map(affinity_term).sum()
}

fn affinity_term(of: &PodAffinityTerm) -> usize {
    let keys = texts(&of.match_label_keys) + texts(&of.mismatch_label_keys);
    let selectors = label_selector(&of.selector) + label_selector(&of.namespace_selector);
    size_of::<PodAffinityTerm>() + gate(&of.topology_key) + texts(&of.namespaces) + keys + selectors
}

fn label_selector(of: &LabelSelector) -> usize {
    match of {
        LabelSelector::Nothing => 0,
        LabelSelector::Invalid(why) => why.len(),
        LabelSelector::Of(of) => of.bytes(),
    }
}

fn texts(of: &[Box<str>]) -> usize {
    of.iter().map(|text| gate(text)).sum()
}

fn term(of: &NodeSelectorTerm) -> usize {
    let requirements = of.match_expressions.iter().chain(&of.match_fields);
    size_of::<NodeSelectorTerm>() + requirements.map(requirement).sum::<usize>()
}

fn requirement(of: &NodeSelectorRequirement) -> usize {
    let texts = of.values.iter().chain([&of.key, &of.operator]);
    texts.map(|of| text(of)).sum()
}

fn text(text: &str) -> usize {
    size_of::<String>() + ALLOCATION + text.len()
}
