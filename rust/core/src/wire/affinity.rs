//! Parses the affinity of a pod.

use std::borrow::Cow;

use super::decode::{Slice, converted, object};
use super::details::Detail;
use super::pod_details::WirePodAffinity;
use crate::labels::{NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm};

object! {
    pub(crate) struct Affinity<'a> {
        "nodeAffinity" => pub(crate) node: Option<NodeAffinity<'a>>,
        "podAffinity" => pub(crate) pod: Detail<Option<WirePodAffinity<'a>>>,
        "podAntiAffinity" => pub(crate) pod_anti: Detail<Option<WirePodAffinity<'a>>>,
    }
}

object! {
    pub(crate) struct NodeAffinity<'a> {
        "requiredDuringSchedulingIgnoredDuringExecution" => pub(crate) required: Option<NodeSelector<'a>>,
        "preferredDuringSchedulingIgnoredDuringExecution" => pub(crate) preferred: Slice<Preferred<'a>>,
    }
}

object! {
    pub(crate) struct NodeSelector<'a> {
        "nodeSelectorTerms" => pub(crate) terms: Slice<Term<'a>>,
    }
}

object! {
    pub(crate) struct Preferred<'a> {
        "weight" => weight: i32,
        "preference" => preference: Term<'a>,
    }
}

object! {
    pub(crate) struct Term<'a> {
        "matchExpressions" => match_expressions: Slice<Requirement<'a>>,
        "matchFields" => match_fields: Slice<Requirement<'a>>,
    }
}

object! {
    struct Requirement<'a> {
        "key" => key: Cow<'a, str>,
        "operator" => operator: Cow<'a, str>,
        "values" => values: Slice<Cow<'a, str>>,
    }
}

impl From<Preferred<'_>> for PreferredTerm {
    fn from(wire: Preferred<'_>) -> Self {
        Self {
            weight: wire.weight,
            preference: wire.preference.into(),
        }
    }
}

impl From<Term<'_>> for NodeSelectorTerm {
    fn from(wire: Term<'_>) -> Self {
        Self {
            match_expressions: converted(wire.match_expressions),
            match_fields: converted(wire.match_fields),
        }
    }
}

impl From<Requirement<'_>> for NodeSelectorRequirement {
    fn from(wire: Requirement<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            operator: wire.operator.into_owned(),
            values: converted(wire.values),
        }
    }
}
