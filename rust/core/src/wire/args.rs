//! `ExtenderArgs`: parses filter and prioritize requests, and writes their responses.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cursor::{Cursor, RawString, Result};
use super::decode::{Decode, Slice, decode_field, field};
use super::details::Placed;
use super::error::{Problem, Step};
use super::node::WireNode;
use super::pod::{WirePod, asked_about};
use super::write::{self, Answered, FilterResult, Hosts};
use crate::node::{
    Body, Fresh, Node, NodeStore, NodeTable, Nodes, Parts, Rejection, RequestStore, Snapshot, Span,
};
use crate::pod::Pod;
use crate::pool::Strings;

/// A parsed filter or prioritize request.
#[derive(Debug)]
pub struct ExtenderArgs {
    body: Body,
    pod: Option<Arc<Pod>>,
    nodes: Option<Arc<Nodes>>,
    /// The range of each node in the request's body, which the response repeats: a whole object, or
    /// a name.
    spans: Vec<Span>,
    names_mode: bool,
}

impl ExtenderArgs {
    /// The pod of the request; None if it is null or absent.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.pod.as_ref()
    }

    /// The nodes of the request; None if `Nodes` and `NodeNames` are null or absent.
    pub fn nodes(&self) -> Option<&Arc<Nodes>> {
        self.nodes.as_ref()
    }

    /// Whether the request has names of nodes in place of whole nodes.
    pub fn names_mode(&self) -> bool {
        self.names_mode
    }

    /// Prepares an `ExtenderFilterResult`, the response to a filter request. A node without a
    /// rejection is kept and written as in the request; of several rejections of a node the first
    /// gives the reason.
    pub fn filter_result(&self, rejections: &[Rejection]) -> FilterResult<'_> {
        let nodes = match (&self.nodes, self.names_mode) {
            (None, _) => Answered::Neither,
            (Some(_), true) => Answered::Names(&self.spans),
            (Some(_), false) => Answered::Nodes(&self.spans),
        };
        FilterResult::new(self.body.bytes(), nodes, rejections, self.hosts())
    }

    /// Writes a `HostPriorityList` with one score for each node, in the request's order.
    pub fn prioritize_result(&self, scores: &[i64]) -> Vec<u8> {
        write::host_priorities(scores, self.hosts())
    }

    /// Returns the names of the nodes in the form in which the response writes them.
    fn hosts(&self) -> Hosts<'_> {
        match &self.nodes {
            None => Hosts::None,
            Some(_) if self.names_mode => Hosts::Raw(self.body.bytes(), &self.spans),
            Some(nodes) => Hosts::Named(nodes),
        }
    }
}

/// Parses a filter or prioritize request.
///
/// `store` recognises whole nodes by their bytes, and takes in new nodes. Names of nodes are looked
/// up in `watched`, or in `store` if `watched` is None.
///
/// # Errors
/// The body is not one JSON value of the right shape; the store keeps nothing of the body.
pub fn read_args(
    body: Body,
    store: Option<&RequestStore>,
    watched: Option<&NodeStore>,
) -> Result<ExtenderArgs> {
    let table = watched.map(Deref::deref).or(store.map(Deref::deref));
    let parts = store.map_or(Parts::default(), |store| store.parts());
    let parts = parts.or(table.map_or(Parts::default(), NodeTable::parts));
    let mut cursor = Cursor::new(body.bytes())?.with_parts(parts);
    let mut wire = WireArgs::new(store, table);
    let whole = wire.decode(&mut cursor).and_then(|()| cursor.finish());
    let pod = wire.pod.take();
    let pod = whole.and_then(|()| pod.map(|pod| asked_about(pod, &cursor)).transpose());
    let pod = match pod {
        Ok(pod) => pod.map(Arc::new),
        Err(error) => {
            wire.nodes.iter_mut().for_each(Items::give_up);
            return Err(error);
        }
    };
    let (nodes, spans, names_mode) = match (wire.nodes, wire.names) {
        // As in kube-scheduler: NodeNames decide only if there are no Nodes.
        (Some(items), _) => {
            let (nodes, spans) = items.into_nodes(&body, store);
            (Some(nodes), spans, false)
        }
        (None, Some(names)) => {
            let (nodes, spans) = names.into_nodes(&cursor, table)?;
            (Some(nodes), spans, true)
        }
        (None, None) => (None, Vec::new(), false),
    };
    Ok(ExtenderArgs {
        pod,
        nodes: nodes.map(Arc::new),
        spans,
        names_mode,
        body,
    })
}

/// The names of a request's nodes while the request is parsed.
struct Names {
    snapshot: Arc<Snapshot>,
    found: Slice<Name>,
    /// The row in which the next name is expected.
    next: u32,
}

/// A name in the body, and its row in the store, `UNKNOWN` or `ESCAPED`.
#[derive(Debug, Clone, Copy)]
struct Name {
    span: Span,
    row: u32,
}

/// Bytes that an unknown name takes besides its text: a pointer, two counts, the allocator's part.
const UNKNOWN_NAME: usize = 48;

/// The row number of a name that the store does not have.
const UNKNOWN: u32 = u32::MAX;

/// The row number of a name with escapes that are not decoded yet.
const ESCAPED: u32 = u32::MAX - 1;

impl Default for Name {
    fn default() -> Self {
        Self {
            span: Span::default(),
            row: UNKNOWN,
        }
    }
}

impl Names {
    fn of(table: Option<&NodeTable>) -> Self {
        Self {
            snapshot: table.map(NodeTable::snapshot).unwrap_or_default(),
            found: Slice::default(),
            next: 0,
        }
    }

    fn decode(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let (names, next) = (&self.snapshot.names, &mut self.next);
        self.found.decode_each(cursor, |name, cursor| {
            let start = cursor.pos() + 1;
            if cursor.pass_string(names.in_json(*next)) {
                *name = Name {
                    span: Span::between(start, cursor.pos() - 1),
                    row: *next,
                };
                *next += 1;
            } else if let Some(RawString { span, escaped }) = cursor.raw_string()? {
                let row = match names.row_of(span.of(cursor.bytes())) {
                    _ if escaped => {
                        cursor.charge(UNKNOWN_NAME)?;
                        ESCAPED
                    }
                    None => {
                        cursor.charge(UNKNOWN_NAME)?;
                        UNKNOWN
                    }
                    Some(row) => {
                        *next = row + 1;
                        row
                    }
                };
                *name = Name { span, row };
            }
            Ok(())
        })
    }

    fn into_nodes(
        self,
        cursor: &Cursor<'_>,
        table: Option<&NodeTable>,
    ) -> Result<(Nodes, Vec<Span>)> {
        let found = self.found.into_vec();
        let mut nodes = Nodes::over(self.snapshot, found.len());
        let mut spans = Vec::with_capacity(found.len());
        for Name { span, row } in found {
            if row < ESCAPED {
                nodes.push_row(row);
            } else {
                let escaped = row == ESCAPED;
                nodes.push_name(&cursor.text(RawString { span, escaped })?);
            }
            spans.push(span);
        }
        if let Some(table) = table {
            let known = nodes.known_count();
            table.count(known, nodes.len() - known);
        }
        Ok((nodes, spans))
    }
}

/// The fields of the request, decoded as Go's `encoding/json` decodes them.
struct WireArgs<'a, 's> {
    pod: Option<Placed<WirePod<'a>>>,
    nodes: Option<Items<'s>>,
    names: Option<Names>,
    store: Option<&'s RequestStore>,
    /// The table in which names are looked up.
    named: Option<&'s NodeTable>,
}

impl<'a, 's> WireArgs<'a, 's> {
    fn new(store: Option<&'s RequestStore>, named: Option<&'s NodeTable>) -> Self {
        Self {
            pod: None,
            nodes: None,
            names: None,
            store,
            named,
        }
    }

    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor
            .object(
                |cursor, key| match field(&key, &["Pod", "Nodes", "NodeNames"]) {
                    Some("Pod") => decode_field(cursor, "Pod", &mut self.pod),
                    Some("NodeNames") => self
                        .decode_names(cursor)
                        .map_err(|error| error.inside(Step::Field("NodeNames"))),
                    Some("Nodes") => self
                        .decode_nodes(cursor)
                        .map_err(|error| error.inside(Step::Field("Nodes"))),
                    _ => cursor.skip_value(),
                },
            )
            .map(drop)
    }

    fn decode_names(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if cursor.null()? {
            self.names = None;
            return Ok(());
        }
        self.names
            .get_or_insert_with(|| Names::of(self.named))
            .decode(cursor)
    }

    fn decode_nodes(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if cursor.null()? {
            self.nodes.iter_mut().for_each(Items::give_up);
            self.nodes = None;
            return Ok(());
        }
        let items = self.nodes.get_or_insert_with(|| Items::new(self.store));
        cursor
            .object(|cursor, key| match field(&key, &["items"]) {
                Some(name) => items
                    .decode(cursor)
                    .map_err(|error| error.inside(Step::Field(name))),
                None => cursor.skip_value(),
            })
            .map(drop)
    }
}

/// The whole nodes of a request while the request is parsed.
struct Items<'s> {
    store: Option<&'s RequestStore>,
    snapshot: Arc<Snapshot>,
    found: Vec<Item>,
    strings: Strings,
    /// How many strings the last node added to a pool.
    pooled: usize,
}

/// Bytes that a new string of a pool takes besides its text: two counts, its entry in the pool, the
/// allocator's part.
const POOLED: usize = 64;

#[derive(Debug)]
struct Item {
    span: Span,
    node: ItemNode,
}

#[derive(Debug)]
enum ItemNode {
    Known(u32),
    Fresh(Arc<Node>),
}

impl<'s> Items<'s> {
    fn new(store: Option<&'s RequestStore>) -> Self {
        Self {
            snapshot: store.map(|store| store.snapshot()).unwrap_or_default(),
            store,
            found: Vec::new(),
            strings: Strings::default(),
            pooled: 0,
        }
    }

    fn decode(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let before = self.found.len();
        let list = cursor.list(|cursor, _| {
            if before > 0 {
                return cursor.fail(Problem::GivenTwice);
            }
            let item = self.item(cursor)?;
            self.found.push(item);
            // Only now, so that `give_up` finds the strings if the budget is spent.
            cursor.charge(POOLED * std::mem::take(&mut self.pooled))
        })?;
        if !list || self.found.len() == before {
            self.give_up();
        }
        Ok(())
    }

    /// Drops the nodes that were parsed so far, and removes their strings from the pool. To drop
    /// the nodes costs no more than to parse them.
    fn give_up(&mut self) {
        let fresh = self.found.drain(..).filter_map(|item| match item.node {
            ItemNode::Known(_) => None,
            ItemNode::Fresh(node) => Arc::into_inner(node),
        });
        let fresh: Vec<Node> = fresh.collect();
        if let (Some(store), false) = (self.store, fresh.is_empty()) {
            store.with_strings(|strings| {
                let texts = fresh.into_iter().flat_map(Node::into_strings);
                texts.for_each(|text| strings.give_up(text));
                strings.shrink();
            });
        }
    }

    fn item(&mut self, cursor: &mut Cursor<'_>) -> Result<Item> {
        let start = cursor.pos();
        let node = if let Some((row, len)) = self.recognise(cursor.rest()) {
            cursor.charge(2 * size_of::<Item>())?;
            cursor.pass_known(len)?;
            ItemNode::Known(row)
        } else {
            cursor.charge(2 * size_of::<(Item, Node, Fresh)>())?;
            let before = cursor.temporary();
            let mut wire = Placed::<WireNode>::default();
            wire.decode(cursor)?;
            cursor.check_passed_utf8()?;
            let node = self.parsed(wire, cursor);
            // Of many nodes in a body, one at a time exists as it was decoded.
            cursor.give_back(before);
            ItemNode::Fresh(Arc::new(node))
        };
        Ok(Item {
            span: Span::between(start, cursor.pos()),
            node,
        })
    }

    /// Returns the row of the stored node whose bytes come next in the body, and the number of
    /// these bytes.
    fn recognise(&self, rest: &[u8]) -> Option<(u32, usize)> {
        let last = self.found.last().and_then(|item| match item.node {
            ItemNode::Known(row) => Some(row),
            ItemNode::Fresh(_) => None,
        });
        self.snapshot.recognise(rest, last)
    }

    fn parsed(&mut self, wire: Placed<WireNode<'_>>, cursor: &Cursor<'_>) -> Node {
        let into_node = |strings: &mut Strings| {
            let before = strings.len();
            let node = wire.into_node(strings, cursor);
            (node, strings.len().saturating_sub(before))
        };
        let (node, pooled) = match self.store {
            Some(store) => store.with_strings(into_node),
            None => into_node(&mut self.strings),
        };
        self.pooled = pooled;
        node
    }

    /// Stores the new nodes, once the whole body has proved valid; returns all nodes of the
    /// request, and the range of each.
    fn into_nodes(self, body: &Body, store: Option<&RequestStore>) -> (Nodes, Vec<Span>) {
        let generation = store.map_or(0, RequestStore::next_generation);
        let mut nodes = Nodes::over(self.snapshot.clone(), self.found.len());
        let mut spans = Vec::with_capacity(self.found.len());
        let (mut fresh, mut unnamed) = (Vec::new(), 0);
        let mut recognised = 0;
        for Item { span, node } in self.found {
            spans.push(span);
            match node {
                ItemNode::Known(row) => {
                    recognised += 1;
                    if let Some(stored) = self.snapshot.stored(row) {
                        stored.seen.store(generation, Ordering::Relaxed);
                    }
                    nodes.push_row(row);
                }
                ItemNode::Fresh(node) => {
                    if node.name().is_empty() {
                        unnamed += node.pooled();
                    } else {
                        let node = node.clone();
                        fresh.push(Fresh { node, span });
                    }
                    nodes.push_own(node);
                }
            }
        }
        if let Some(store) = store {
            store.lost(unnamed);
            store.count(recognised, nodes.len() - recognised);
            store.merge(body, &fresh, generation);
        }
        (nodes, spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_refused_nodes_are_forgotten_and_those_of_stored_ones_are_not() {
        let store = RequestStore::new(1 << 20);
        let node = |label: &str| {
            let labels = format!(r#"{{"{label}":"{label}","v":"v"}}"#);
            format!(
                r#"{{"metadata":{{"name":"n","labels":{labels}}},"status":{{"allocatable":{{"{label}":"1"}}}}}}"#
            )
        };
        let read = |body: String| read_args(Body::new(body), Some(&store), None).map(drop);
        let of = |label: &str| format!(r#""Nodes":{{"items":[{0},{0}]}}"#, node(label));
        assert_eq!(read(format!("{{{}}}", of("kept"))), Ok(()));
        assert!(read(format!("{{{}}}!", of("refused"))).is_err());
        assert!(read(format!("{{{}}}!", of("kept"))).is_err());
        assert_eq!(read(format!(r#"{{{},"Nodes":null}}"#, of("null"))), Ok(()));
        let emptied = format!(r#"{{{},"Nodes":{{"items":[]}}}}"#, of("emptied"));
        assert_eq!(read(emptied), Ok(()));
        let held = ["kept", "refused", "null", "emptied", "v"]
            .map(|label| store.with_strings(|strings| strings.holds(label)));
        assert_eq!(held, [true, false, false, false, true]);
    }

    #[test]
    fn a_refused_body_leaves_no_memory_for_its_strings() {
        const MANY: usize = 40_000;
        let labels: Vec<_> = (0..MANY).map(|i| format!(r#""{i:060}":"""#)).collect();
        let node = format!(
            r#"{{"metadata":{{"name":"n","labels":{{{}}}}}}}"#,
            labels.join(",")
        );
        let room_after = |rest: &str| {
            let store = RequestStore::new(1 << 30);
            let body = format!(r#"{{"Nodes":{{"items":[{node}]}}}}{rest}"#);
            let is_read = read_args(Body::new(body), Some(&store), None).is_ok();
            (is_read, store.with_strings(|strings| strings.room()))
        };
        let (is_read, room) = room_after("");
        assert!(is_read && room >= MANY, "{room}");
        let (is_read, room) = room_after("!");
        assert!(!is_read && room < MANY / 2, "{room}");
    }

    #[test]
    fn the_strings_of_nodes_that_no_store_keeps_any_more_are_forgotten_soon() {
        let labels = |of: &str| {
            let labels = (0..5000).map(|i| format!(r#""{of}{i:04}":"""#));
            labels.collect::<Vec<_>>().join(",")
        };
        let node = |name: &str, labels: &str| {
            let labels = format!(r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}}}}"#);
            format!(r#"{{"Nodes":{{"items":[{labels}]}}}}"#)
        };
        let most = labels("a").len() as u64 + 1000;
        for (name, many) in [("n", "a"), ("", "a"), ("n", "larger-than-the-store-")] {
            let store = RequestStore::new(most);
            let read = |name: &str, labels: &str| {
                let body = node(name, labels);
                read_args(Body::new(body), Some(&store), None).map(drop)
            };
            assert_eq!(read(name, &labels(many)), Ok(()));
            // This node replaces the first, and another brings a label that the pool has.
            assert_eq!(read("n", r#""x":"x""#), Ok(()));
            assert_eq!(read("o", r#""x":"x""#), Ok(()));
            let held = store.with_strings(|strings| strings.holds(&format!("{many}0000")));
            assert!(!held, "{name}: {many}");
        }
    }
}
