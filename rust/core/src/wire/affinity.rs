//! Reading a pod's node affinity.

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Slice, converted, decode_struct};
use crate::labels::{NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm};

#[derive(Debug, Default)]
pub(crate) struct Affinity<'a> {
    pub(crate) node_affinity: Option<NodeAffinity<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeAffinity<'a> {
    pub(crate) required: Option<NodeSelector<'a>>,
    pub(crate) preferred: Slice<Preferred<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeSelector<'a> {
    pub(crate) terms: Slice<Term<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct Preferred<'a> {
    weight: i32,
    preference: Term<'a>,
}

#[derive(Debug, Default)]
pub(crate) struct Term<'a> {
    match_expressions: Slice<Requirement<'a>>,
    match_fields: Slice<Requirement<'a>>,
}

#[derive(Debug, Default)]
struct Requirement<'a> {
    key: Cow<'a, str>,
    operator: Cow<'a, str>,
    values: Slice<Cow<'a, str>>,
}

impl<'a> Decode<'a> for Affinity<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, { "nodeAffinity" => self.node_affinity }).map(drop)
    }
}

impl<'a> Decode<'a> for NodeAffinity<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "requiredDuringSchedulingIgnoredDuringExecution" => self.required,
            "preferredDuringSchedulingIgnoredDuringExecution" => self.preferred,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for NodeSelector<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, { "nodeSelectorTerms" => self.terms }).map(drop)
    }
}

impl<'a> Decode<'a> for Preferred<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "weight" => self.weight,
            "preference" => self.preference,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for Term<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "matchExpressions" => self.match_expressions,
            "matchFields" => self.match_fields,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for Requirement<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "key" => self.key,
            "operator" => self.operator,
            "values" => self.values,
        })
        .map(drop)
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
