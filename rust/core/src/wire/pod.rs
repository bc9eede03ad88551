//! Reading a v1.Pod: the fields that plugins read, the rest passed over.

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, decode_struct};
use crate::labels::{
    NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, RequiredNodeAffinity, Toleration,
};
use crate::pod::Pod;

#[derive(Debug, Default)]
pub(crate) struct WirePod<'a> {
    metadata: PodMeta<'a>,
    spec: PodSpec<'a>,
}

#[derive(Debug, Default)]
struct PodMeta<'a> {
    name: Cow<'a, str>,
    namespace: Cow<'a, str>,
    uid: Cow<'a, str>,
    labels: Map<'a, Cow<'a, str>>,
    annotations: Map<'a, Cow<'a, str>>,
}

#[derive(Debug, Default)]
struct PodSpec<'a> {
    scheduler_name: Cow<'a, str>,
    node_name: Cow<'a, str>,
    priority: Option<i32>,
    node_selector: Map<'a, Cow<'a, str>>,
    tolerations: Slice<WireToleration<'a>>,
    affinity: Option<Affinity<'a>>,
}

#[derive(Debug, Default)]
struct WireToleration<'a> {
    key: Cow<'a, str>,
    operator: Cow<'a, str>,
    value: Cow<'a, str>,
    effect: Cow<'a, str>,
}

#[derive(Debug, Default)]
struct Affinity<'a> {
    node_affinity: Option<NodeAffinity<'a>>,
}

#[derive(Debug, Default)]
struct NodeAffinity<'a> {
    required: Option<NodeSelector<'a>>,
    preferred: Slice<Preferred<'a>>,
}

#[derive(Debug, Default)]
struct NodeSelector<'a> {
    terms: Slice<Term<'a>>,
}

#[derive(Debug, Default)]
struct Preferred<'a> {
    weight: i32,
    preference: Term<'a>,
}

#[derive(Debug, Default)]
struct Term<'a> {
    match_expressions: Slice<Requirement<'a>>,
    match_fields: Slice<Requirement<'a>>,
}

#[derive(Debug, Default)]
struct Requirement<'a> {
    key: Cow<'a, str>,
    operator: Cow<'a, str>,
    values: Slice<Cow<'a, str>>,
}

impl<'a> Decode<'a> for WirePod<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "metadata" => self.metadata,
            "spec" => self.spec,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for PodMeta<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "name" => self.name,
            "namespace" => self.namespace,
            "uid" => self.uid,
            "labels" => self.labels,
            "annotations" => self.annotations,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for PodSpec<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "schedulerName" => self.scheduler_name,
            "nodeName" => self.node_name,
            "priority" => self.priority,
            "nodeSelector" => self.node_selector,
            "tolerations" => self.tolerations,
            "affinity" => self.affinity,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for WireToleration<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "key" => self.key,
            "operator" => self.operator,
            "value" => self.value,
            "effect" => self.effect,
        })
        .map(drop)
    }
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

impl From<WirePod<'_>> for Pod {
    fn from(wire: WirePod<'_>) -> Self {
        let node_affinity = wire
            .spec
            .affinity
            .and_then(|affinity| affinity.node_affinity)
            .unwrap_or_default();
        Self {
            name: wire.metadata.name.into_owned(),
            namespace: wire.metadata.namespace.into_owned(),
            uid: wire.metadata.uid.into_owned(),
            labels: owned(wire.metadata.labels),
            annotations: owned(wire.metadata.annotations),
            scheduler_name: wire.spec.scheduler_name.into_owned(),
            node_name: wire.spec.node_name.into_owned(),
            priority: wire.spec.priority,
            tolerations: converted(wire.spec.tolerations),
            required: RequiredNodeAffinity {
                node_selector: owned(wire.spec.node_selector),
                terms: node_affinity.required.map(|node| converted(node.terms)),
            },
            preferred: converted(node_affinity.preferred),
        }
    }
}

fn owned(map: Map<'_, Cow<'_, str>>) -> Vec<(String, String)> {
    map.into_sorted()
        .into_iter()
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

fn converted<T, U: From<T>>(slice: Slice<T>) -> Vec<U> {
    slice.into_vec().into_iter().map(U::from).collect()
}

impl From<WireToleration<'_>> for Toleration {
    fn from(wire: WireToleration<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            operator: wire.operator.into_owned(),
            value: wire.value.into_owned(),
            effect: wire.effect.into_owned(),
        }
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
