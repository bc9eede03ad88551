//! Computes the approximate memory of the parts of a pod, in bytes.

use std::mem::size_of;

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
