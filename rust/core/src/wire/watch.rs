//! What the Kubernetes API sends a watcher: pages of a list, and events.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, decode_field, decode_struct, field};
use super::error::{Problem, Step, WireError};
use super::node::WireNode;
use crate::node::{Node, NodeStore, Relisted};

/// A list in the making: invisible until it is committed.
#[derive(Debug)]
pub struct Relist {
    store: Arc<NodeStore>,
    listed: Relisted,
}

/// What one page of a list said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.continue`; empty on the last page.
    pub continue_token: String,
    /// How many nodes it held.
    pub items: usize,
}

impl Relist {
    /// Begins a list for `store`.
    pub fn begin(store: Arc<NodeStore>) -> Self {
        Self {
            store,
            listed: Relisted::default(),
        }
    }

    /// Takes one page of a `NodeList`.
    ///
    /// # Errors
    /// It is not a list of named nodes; nothing of the page is kept.
    pub fn page(&mut self, bytes: &[u8]) -> Result<ListPage> {
        let mut cursor = Cursor::new(bytes);
        let mut meta = ListMeta::default();
        let mut nodes = Vec::new();
        let object = cursor.object(|cursor, key| match field(&key, &["metadata", "items"]) {
            Some("items") => cursor
                .list(|cursor, _| {
                    nodes.push(self.node(cursor)?);
                    Ok(())
                })
                .map(drop)
                .map_err(|error| error.inside(Step::Field("items"))),
            Some(name) => decode_field(cursor, name, &mut meta),
            None => cursor.skip_value(),
        })?;
        cursor.finish()?;
        if !object {
            return Err(unusable(0, "a list of nodes was expected, found null"));
        }
        let page = ListPage {
            resource_version: meta.resource_version.into_owned(),
            continue_token: meta.continue_token.into_owned(),
            items: nodes.len(),
        };
        self.listed.0.append(&mut nodes);
        Ok(page)
    }

    fn node(&self, cursor: &mut Cursor<'_>) -> Result<Node> {
        let start = cursor.pos();
        let mut wire = WireNode::default();
        wire.decode(cursor)?;
        named(start, &self.store, wire)
    }

    /// Replaces the whole content of the store at once: what was not listed is gone.
    ///
    /// True if anything that plugins read changed.
    pub fn commit(self) -> bool {
        self.store.replace(self.listed)
    }
}

/// What one watch event was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchEvent {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    pub kind: String,
    /// The node's name; empty for BOOKMARK and ERROR.
    pub name: String,
    /// `metadata.resourceVersion` of the event's object.
    pub resource_version: String,
    /// Whether anything that plugins read changed.
    pub changed: bool,
    /// The code of an ERROR's Status, else 0.
    pub code: i32,
    /// The message of an ERROR's Status.
    pub message: String,
}

/// Takes one watch event into the store.
///
/// # Errors
/// It is not an event of a node; the store keeps what it had.
pub fn apply(store: &NodeStore, bytes: &[u8]) -> Result<WatchEvent> {
    let mut cursor = Cursor::new(bytes);
    let mut kind = Cow::Borrowed("");
    let mut object = (0, 0);
    cursor.object(|cursor, key| match field(&key, &["type", "object"]) {
        Some("type") => decode_field(cursor, "type", &mut kind),
        Some("object") => {
            let start = cursor.pos();
            cursor.skip_value()?;
            object = (start, cursor.pos());
            Ok(())
        }
        _ => cursor.skip_value(),
    })?;
    cursor.finish()?;
    let (start, end) = object;
    let mut inner = Cursor::new(&bytes[..end]);
    inner.pass_known(start)?;
    if start == end {
        return Err(unusable(end, "a watch event without an object"));
    }
    let event = match &*kind {
        "ADDED" | "MODIFIED" | "DELETED" => node_event(store, &kind, &mut inner)?,
        "BOOKMARK" => bookmark(&mut inner)?,
        "ERROR" => failure(&mut inner)?,
        _ => return Err(unusable(0, "a watch event of an unknown type")),
    };
    Ok(WatchEvent {
        kind: kind.into_owned(),
        ..event
    })
}

fn node_event(store: &NodeStore, kind: &str, cursor: &mut Cursor<'_>) -> Result<WatchEvent> {
    let start = cursor.pos();
    let mut wire = WireNode::default();
    wire.decode(cursor)?;
    let resource_version = wire.metadata.resource_version.to_string();
    let node = named(start, store, wire)?;
    let name = node.name().to_owned();
    let changed = if kind == "DELETED" {
        store.deleted(&name)
    } else {
        store.applied(node)
    };
    Ok(WatchEvent {
        name,
        resource_version,
        changed,
        ..WatchEvent::default()
    })
}

fn bookmark(cursor: &mut Cursor<'_>) -> Result<WatchEvent> {
    let mut wire = WireNode::default();
    wire.decode(cursor)?;
    Ok(WatchEvent {
        resource_version: wire.metadata.resource_version.into_owned(),
        ..WatchEvent::default()
    })
}

fn failure(cursor: &mut Cursor<'_>) -> Result<WatchEvent> {
    let mut status = Status::default();
    status.decode(cursor)?;
    Ok(WatchEvent {
        code: status.code,
        message: status.message.into_owned(),
        ..WatchEvent::default()
    })
}

fn named(start: usize, store: &NodeStore, wire: WireNode<'_>) -> Result<Node> {
    if wire.metadata.name.is_empty() {
        return Err(unusable(start, "a node without metadata.name"));
    }
    Ok(store.with_strings(|strings| Node::from_wire(wire, strings)))
}

fn unusable(offset: usize, why: &'static str) -> WireError {
    WireError::new(offset, Problem::Unusable(why))
}

#[derive(Default)]
struct ListMeta<'a> {
    resource_version: Cow<'a, str>,
    continue_token: Cow<'a, str>,
}

impl<'a> Decode<'a> for ListMeta<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "resourceVersion" => self.resource_version,
            "continue" => self.continue_token,
        })
        .map(drop)
    }
}

#[derive(Default)]
struct Status<'a> {
    code: i32,
    message: Cow<'a, str>,
}

impl<'a> Decode<'a> for Status<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "code" => self.code,
            "message" => self.message,
        })
        .map(drop)
    }
}
