//! Parses a v1.Node: decodes the fields that plugins read, and skips all others.

use std::borrow::Cow;

use super::decode::{Map, Slice, converted, object};
use super::quantity::WireQuantity;
use crate::labels::Taint;
use crate::node::{Labels, Node};
use crate::pool::Strings;

object! {
    pub(crate) struct WireNode<'a> {
        "metadata" => pub(crate) metadata: NodeMeta<'a>,
        "spec" => pub(crate) spec: NodeSpec<'a>,
        "status" => pub(crate) status: NodeStatus<'a>,
    }
}

object! {
    pub(crate) struct NodeMeta<'a> {
        "name" => pub(crate) name: Cow<'a, str>,
        "uid" => pub(crate) uid: Cow<'a, str>,
        "resourceVersion" => pub(crate) resource_version: Cow<'a, str>,
        "labels" => pub(crate) labels: Map<'a, Cow<'a, str>>,
    }
}

object! {
    pub(crate) struct NodeSpec<'a> {
        "unschedulable" => pub(crate) unschedulable: bool,
        "taints" => pub(crate) taints: Slice<WireTaint<'a>>,
    }
}

object! {
    pub(crate) struct WireTaint<'a> {
        "key" => pub(crate) key: Cow<'a, str>,
        "value" => pub(crate) value: Cow<'a, str>,
        "effect" => pub(crate) effect: Cow<'a, str>,
    }
}

object! {
    pub(crate) struct NodeStatus<'a> {
        "allocatable" => pub(crate) allocatable: Map<'a, WireQuantity>,
    }
}

impl WireNode<'_> {
    /// Converts to a `Node` whose strings are replaced by equal strings of the pool.
    pub(crate) fn into_node(self, strings: &mut Strings) -> Node {
        let labels = self.metadata.labels.into_sorted();
        let allocatable = self.status.allocatable.into_sorted();
        Node {
            name: self.metadata.name.as_ref().into(),
            uid: self.metadata.uid.as_ref().into(),
            labels: Labels(
                labels
                    .iter()
                    .map(|(key, value)| (strings.intern(key), strings.intern(value)))
                    .collect(),
            ),
            taints: converted(self.spec.taints).into(),
            unschedulable: self.spec.unschedulable,
            allocatable: allocatable
                .iter()
                .map(|(resource, quantity)| (strings.intern(resource), quantity.0))
                .collect(),
        }
    }
}

impl From<WireTaint<'_>> for Taint {
    fn from(wire: WireTaint<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            value: wire.value.into_owned(),
            effect: wire.effect.into_owned(),
        }
    }
}
