//! `Nodes`: the nodes of one request, in the request's order.

use std::sync::Arc;

use super::mask::Mask;
use super::names::Names;
use super::record::{Field, Node};
use super::snapshot::{Snapshot, Topology, node_matches};
use crate::labels::{
    LabelError, PreferredTerm, PreferredTerms, RequiredAffinity, RequiredNodeAffinity, Selector,
    Toleration, Tolerations,
};

/// Where the node at one position of a request is: in a row of the snapshot, in the request itself,
/// or unknown to both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

const KIND: u32 = 3 << 30;
const OWN: u32 = 1 << 30;
const UNKNOWN: u32 = 2 << 30;

#[derive(Debug, Clone, Copy)]
enum Place {
    Row(u32),
    Own(usize),
    Unknown(usize),
}

impl Slot {
    pub(crate) fn row(row: u32) -> Self {
        Self(row)
    }

    fn place(self) -> Place {
        match self.0 & KIND {
            OWN => Place::Own((self.0 & !KIND) as usize),
            UNKNOWN => Place::Unknown((self.0 & !KIND) as usize),
            _ => Place::Row(self.0),
        }
    }
}

/// The least memory that a processor reads at once.
const CACHE_LINE_BYTES: usize = 64;

/// The nodes of one request as they were when the request was read; position `i` is the request's
/// `i`-th node.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    snapshot: Arc<Snapshot>,
    slots: Vec<Slot>,
    own: Vec<Arc<Node>>,
    unknown: Vec<Arc<str>>,
}

impl Nodes {
    pub(crate) fn over(snapshot: Arc<Snapshot>, capacity: usize) -> Self {
        Self {
            snapshot,
            slots: Vec::with_capacity(capacity),
            own: Vec::new(),
            unknown: Vec::new(),
        }
    }

    pub(crate) fn push_row(&mut self, row: u32) {
        self.slots.push(Slot::row(row));
    }

    pub(crate) fn push_own(&mut self, node: Arc<Node>) {
        self.slots.push(Slot(OWN | self.own.len() as u32));
        self.own.push(node);
    }

    /// Appends the node with this name; if the snapshot has no such node, appends an unknown node,
    /// which has only a name.
    pub(crate) fn push_name(&mut self, name: &str) {
        let last = match self.slots.last().map(|slot| slot.place()) {
            Some(Place::Row(row)) => Some(row),
            _ => None,
        };
        if let Some(row) = self.snapshot.names.find(name.as_bytes(), last) {
            self.push_row(row);
        } else {
            self.push_unknown(name.into());
        }
    }

    /// Appends an unknown node, which has only a name, without looking the name up.
    pub(crate) fn push_unknown(&mut self, name: Arc<str>) {
        self.slots.push(Slot(UNKNOWN | self.unknown.len() as u32));
        self.unknown.push(name);
    }

    /// Returns the nodes with these names in another snapshot; nodes that the request itself
    /// brought are unchanged.
    pub(crate) fn looked_up_in(&self, snapshot: Arc<Snapshot>) -> Self {
        let mut latest = Self::over(snapshot, self.len());
        for (at, slot) in self.slots.iter().enumerate() {
            match slot.place() {
                Place::Own(own) => latest.push_own(self.own[own].clone()),
                _ => latest.push_name(self.name(at)),
            }
        }
        latest
    }

    /// The bytes that the request's nodes take beside the store: positions, and the names of the
    /// nodes that the store does not know, which are as long as the request's sender made them.
    pub fn held_bytes(&self) -> usize {
        // The text's two counts of references, and what the allocator adds.
        const BESIDE_A_TEXT: usize = 32;
        let texts = self.unknown.iter().map(|name| name.len() + BESIDE_A_TEXT);
        let lists = size_of::<Slot>() * self.slots.capacity()
            + size_of::<Arc<str>>() * self.unknown.capacity();
        lists + texts.sum::<usize>()
    }

    /// Whether both are the same nodes of the same snapshot, in the same order, and no others.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let all_in_rows = self.known_count() == self.len() && self.own.is_empty();
        all_in_rows && Arc::ptr_eq(&self.snapshot, &other.snapshot) && self.slots == other.slots
    }

    /// Returns the names of the rows of the nodes' snapshot.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.snapshot.names
    }

    /// Returns the row of a position in the nodes' snapshot; None if the snapshot does not have the
    /// node.
    pub(crate) fn row(&self, at: usize) -> Option<u32> {
        match self.slots[at].place() {
            Place::Row(row) => Some(row),
            _ => None,
        }
    }

    /// Returns the nodes in `some` alone, in the same order and as they are here.
    #[must_use]
    pub fn only(&self, some: &Mask) -> Self {
        let mut left = Self::over(self.snapshot.clone(), some.count());
        for at in some.indices() {
            match self.slots[at].place() {
                Place::Row(row) => left.push_row(row),
                Place::Own(own) => left.push_own(self.own[own].clone()),
                Place::Unknown(unknown) => left.push_unknown(self.unknown[unknown].clone()),
            }
        }
        left
    }

    /// How many nodes the request has.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the request named no node.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The node at a position of the request; None if the store has no node of this name.
    pub fn node(&self, at: usize) -> Option<&Node> {
        self.shared_node(at).map(|node| &**node)
    }

    pub(crate) fn shared_node(&self, at: usize) -> Option<&Arc<Node>> {
        match self.slots[at].place() {
            Place::Row(row) => self.snapshot.stored(row).map(|stored| &stored.node),
            Place::Own(own) => Some(&self.own[own]),
            Place::Unknown(_) => None,
        }
    }

    /// The name of the node at a position of the request.
    pub fn name(&self, at: usize) -> &str {
        match self.slots[at].place() {
            // To read each node's own copy costs a cache miss for each node.
            Place::Row(row) => self.snapshot.names.name(row).unwrap_or_default(),
            Place::Own(own) => self.own[own].name(),
            Place::Unknown(unknown) => &self.unknown[unknown],
        }
    }

    /// The name of the node at a position as it stands in JSON, with the quote that ends it; None if
    /// JSON needs escapes for the name, or if the node is in no row of the snapshot.
    pub(crate) fn plain_name(&self, at: usize) -> Option<&[u8]> {
        self.snapshot.names.plain(self.row(at)?)
    }

    /// The position of the node with a name; None if the request has no such node.
    pub fn position(&self, name: &str) -> Option<usize> {
        (0..self.len()).find(|&at| self.name(at) == name)
    }

    /// How many of the request's nodes the node store knows by name.
    pub fn known_count(&self) -> usize {
        self.slots.len() - self.unknown.len()
    }

    /// Returns the mask of the nodes for which `test` is true; nodes unknown to the store are left
    /// out.
    pub fn mask_of(&self, test: impl Fn(&Node) -> bool) -> Mask {
        Mask::from_fn(self.len(), |at| self.node(at).is_some_and(&test))
    }

    /// Returns the mask of the nodes that the node store knows.
    pub fn known(&self) -> Mask {
        if self.unknown.is_empty() {
            return Mask::filled(self.len(), true);
        }
        Mask::from_fn(self.len(), |at| {
            !matches!(self.slots[at].place(), Place::Unknown(_))
        })
    }

    /// Returns the mask of the known nodes whose labels satisfy a selector.
    pub fn matches(&self, selector: &Selector) -> Mask {
        let rows = self.snapshot.matching_rows(selector);
        Mask::from_fn(self.len(), |at| match self.slots[at].place() {
            Place::Row(row) => rows.get(row as usize),
            Place::Own(own) => node_matches(&self.own[own], selector),
            Place::Unknown(_) => false,
        })
    }

    /// Returns the distinct values of a label, and for each node the position of its value among
    /// them, -1 for a node without the label. The order of the values is any.
    pub fn topology(&self, key: &str) -> (Vec<i64>, Vec<Arc<str>>) {
        let (codes, values) = self.domains(key);
        let codes = codes.into_iter();
        let codes = codes.map(|code| code.map_or(-1, i64::from));
        (codes.collect(), values)
    }

    /// Returns for each node the position of its value of a label in the list of values, which has
    /// each value once; None for a node without the label.
    pub(crate) fn domains(&self, key: &str) -> (Vec<Option<u32>>, Vec<Arc<str>>) {
        if !self.own.is_empty() {
            let topology = Topology::of(key, (0..self.len()).map(|at| self.node(at)));
            return (topology.of_row, topology.values);
        }
        let topology = self.snapshot.topology(key);
        // Not each value of the cluster need be a value of these nodes.
        let mut values = Vec::new();
        let mut renamed = vec![None; topology.values.len()];
        let mut code = |slot: &Slot| {
            let Place::Row(row) = slot.place() else {
                return None;
            };
            let known = topology.of_row.get(row as usize).copied()??;
            let new = renamed[known as usize].get_or_insert_with(|| {
                values.push(topology.values[known as usize].clone());
                values.len() as u32 - 1
            });
            Some(*new)
        };
        let codes = self.slots.iter().map(&mut code).collect();
        (codes, values)
    }

    /// Returns the mask of the nodes whose `NoSchedule` and `NoExecute` taints are all tolerated.
    pub fn tolerated_by(&self, tolerations: &[Toleration]) -> Mask {
        let tolerations = Tolerations::of(tolerations);
        self.mask_of(|node| tolerations.first_untolerated(node.taints()).is_none())
    }

    /// Returns the mask of the nodes that satisfy a pod's `nodeSelector` and required node
    /// affinity.
    pub fn affine_to(&self, required: &RequiredNodeAffinity) -> Mask {
        let required = RequiredAffinity::compile(required);
        self.mask_of(|node| required.matches(node.name(), node.labels()))
    }

    /// Returns, for each node in order, the sum of the weights of the preferred terms that match
    /// it.
    ///
    /// # Errors
    /// A term that cannot be parsed, as in kube-scheduler's `PreScore`.
    pub fn preferred_by(&self, terms: &[PreferredTerm]) -> Result<Vec<i64>, LabelError> {
        let preferred = PreferredTerms::compile(terms)?;
        Ok(self.map_or(0, |node| preferred.score(node.name(), node.labels())))
    }

    /// Returns for each node the value of a key in a field; None where the key is not. Equal values
    /// of at most 317 bytes usually are one `Arc`.
    pub fn texts(&self, field: Field, key: &str) -> Vec<Option<Arc<str>>> {
        let column = self.snapshot.column(field, key);
        let text = |slot: &Slot| match slot.place() {
            Place::Row(row) => column.get(row),
            Place::Own(own) => field.of(&self.own[own])?.get(key),
            Place::Unknown(_) => None,
        };
        let texts: Vec<_> = self.slots.iter().map(text).collect();
        // The texts are in no cache. A processor waits for many parts of memory at once if it needs
        // none of them to find another and changes none; to clone an `Arc` changes its count, and to
        // make an object of a text takes too long for the next text to be fetched meanwhile.
        let lines = |text: &Arc<str>| {
            let lines = text.bytes().step_by(CACHE_LINE_BYTES);
            lines.map(u64::from).sum::<u64>()
        };
        std::hint::black_box(texts.iter().flatten().copied().map(lines).sum::<u64>());
        texts.into_iter().map(Option::<&_>::cloned).collect()
    }

    /// Returns one value for each node: `value` of the node, or `absent` for a node that the store
    /// does not know.
    pub fn map_or<'a, T: Clone>(&'a self, absent: T, value: impl Fn(&'a Node) -> T) -> Vec<T> {
        (0..self.len())
            .map(|at| self.node(at).map_or_else(|| absent.clone(), &value))
            .collect()
    }
}
