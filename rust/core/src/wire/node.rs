//! Parses a v1.Node: decodes the fields that plugins read, and skips all others.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, converted, object};
use super::details::{Detail, Placed, Skipped, WireConditions, raw};
use super::quantity::WireQuantity;
use crate::labels::{Quantity, Taint};
use crate::node::{Labels, Node, NodeDetails};
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
        "annotations" => annotations: Detail<Map<'a, Cow<'a, str>>>,
        "managedFields" => managed_fields: Skipped,
    }
}

object! {
    pub(crate) struct NodeSpec<'a> {
        "unschedulable" => pub(crate) unschedulable: bool,
        "taints" => pub(crate) taints: Slice<WireTaint<'a>>,
        "providerID" => provider_id: Detail<Cow<'a, str>>,
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
        "capacity" => capacity: Detail<Map<'a, WireQuantity>>,
        "conditions" => conditions: WireConditions<'a>,
        "addresses" => addresses: Detail<Slice<WireAddress<'a>>>,
        "nodeInfo" => info: Detail<Map<'a, TextOnly<'a>>>,
        "images" => images: Detail<Slice<WireImage<'a>>>,
    }
}

object! {
    struct WireAddress<'a> {
        "type" => kind: Cow<'a, str>,
        "address" => address: Cow<'a, str>,
    }
}

object! {
    struct WireImage<'a> {
        "names" => names: Slice<Cow<'a, str>>,
        "sizeBytes" => size_bytes: i64,
    }
}

/// A value that is decoded if it is a string, and skipped otherwise.
#[derive(Debug, Default)]
struct TextOnly<'a>(Option<Cow<'a, str>>);

impl<'a> Decode<'a> for TextOnly<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if cursor.peek() == Some(b'"') {
            return self.0.decode(cursor);
        }
        cursor.skip_value()
    }
}

impl Placed<WireNode<'_>> {
    /// Converts to a `Node` whose strings are replaced by equal strings of the pool, with the
    /// optional parts that the cursor decodes.
    pub(crate) fn into_node(self, strings: &mut Strings, cursor: &Cursor<'_>) -> Node {
        let WireNode {
            mut metadata,
            mut spec,
            mut status,
        } = self.object;
        let raw = raw(cursor, self.span, &metadata.managed_fields);
        let details = cursor.parts().details.then(|| NodeDetails {
            annotations: pooled_labels(metadata.annotations.take(), strings),
            conditions: converted(status.conditions.take()).into(),
            addresses: converted(status.addresses.take()).into(),
            provider_id: spec.provider_id.take().into(),
            info: info(status.info.take()),
            capacity: pooled_amounts(status.capacity.take(), strings),
            images: images(status.images.take(), strings),
        });
        Node {
            name: metadata.name.as_ref().into(),
            uid: metadata.uid.as_ref().into(),
            labels: pooled_labels(metadata.labels, strings),
            taints: converted(spec.taints).into(),
            unschedulable: spec.unschedulable,
            allocatable: pooled_amounts(status.allocatable, strings),
            details: details.map(Box::new),
            raw: raw.map(Arc::from),
        }
    }
}

fn pooled_labels(map: Map<'_, Cow<'_, str>>, strings: &mut Strings) -> Labels {
    let sorted = map.into_sorted();
    let pooled = sorted.iter();
    let pooled = pooled.map(|(key, value)| (strings.intern(key), strings.intern(value)));
    Labels(pooled.collect())
}

fn pooled_amounts(
    map: Map<'_, WireQuantity>,
    strings: &mut Strings,
) -> Box<[(Arc<str>, Quantity)]> {
    let sorted = map.into_sorted();
    let pooled = sorted.iter();
    pooled
        .map(|(resource, quantity)| (strings.intern(resource), quantity.0))
        .collect()
}

fn info(map: Map<'_, TextOnly<'_>>) -> Box<[(Box<str>, Box<str>)]> {
    let fields = map.into_sorted().into_iter();
    fields
        .filter_map(|(field, text)| Some((field.into(), text.0?.into())))
        .collect()
}

/// Returns the size of each image by each of its names, sorted; of equal names the first counts.
fn images(wire: Slice<WireImage<'_>>, strings: &mut Strings) -> Box<[(Arc<str>, i64)]> {
    let mut images = Vec::new();
    for image in wire.into_vec() {
        let names = image.names.into_vec().into_iter();
        images.extend(names.map(|name| (strings.intern(&name), image.size_bytes)));
    }
    images.sort_by(|a: &(Arc<str>, i64), b| a.0.cmp(&b.0));
    images.dedup_by(|later, kept| later.0 == kept.0);
    images.into()
}

impl From<WireAddress<'_>> for (Box<str>, Box<str>) {
    fn from(wire: WireAddress<'_>) -> Self {
        (wire.kind.into(), wire.address.into())
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
