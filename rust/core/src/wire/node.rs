//! Reading a v1.Node: the fields that plugins read, the rest passed over.

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, decode_struct};
use super::quantity::WireQuantity;

#[derive(Debug, Default)]
pub(crate) struct WireNode<'a> {
    pub(crate) metadata: NodeMeta<'a>,
    pub(crate) spec: NodeSpec<'a>,
    pub(crate) status: NodeStatus<'a>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeMeta<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) uid: Cow<'a, str>,
    pub(crate) resource_version: Cow<'a, str>,
    pub(crate) labels: Map<'a, Cow<'a, str>>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeSpec<'a> {
    pub(crate) unschedulable: bool,
    pub(crate) taints: Slice<WireTaint<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct WireTaint<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Cow<'a, str>,
    pub(crate) effect: Cow<'a, str>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeStatus<'a> {
    pub(crate) allocatable: Map<'a, WireQuantity>,
}

impl<'a> Decode<'a> for WireNode<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "metadata" => self.metadata,
            "spec" => self.spec,
            "status" => self.status,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for NodeMeta<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "name" => self.name,
            "uid" => self.uid,
            "resourceVersion" => self.resource_version,
            "labels" => self.labels,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for NodeSpec<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "unschedulable" => self.unschedulable,
            "taints" => self.taints,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for WireTaint<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "key" => self.key,
            "value" => self.value,
            "effect" => self.effect,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for NodeStatus<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, { "allocatable" => self.allocatable }).map(drop)
    }
}
