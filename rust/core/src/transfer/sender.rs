//! `NodeSender`: serialises nodes for another process.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use crate::node::{Node, Nodes};
use crate::packing::{Received, Transfer, packed};

/// After so many messages, the sender forgets nodes that no recent message had.
const SWEEP_EVERY: u32 = 256;

/// A node that none of the last so many messages had is forgotten by sender and receiver.
const FORGOTTEN_AFTER: u32 = 4096;

packed! {
    /// A message: the nodes to forget, then the nodes to keep, then the position of each node.
    #[derive(Debug)]
    pub(super) struct Message {
        pub(super) forgotten: Vec<u32>,
        pub(super) kept: Vec<(u32, Arc<Node>)>,
        pub(super) positions: Vec<Position>,
    }
}

/// The node at one position of a message's list.
#[derive(Debug)]
pub(super) enum Position {
    /// A node that sender and receiver keep under this number.
    Kept(u32),
    /// A node that is in this message, and is not kept.
    Own(Arc<Node>),
    Unknown(Arc<str>),
}

impl Transfer for Position {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Kept(row) => {
                out.push(0);
                row.put(out);
            }
            Self::Own(node) => {
                out.push(1);
                node.put(out);
            }
            Self::Unknown(name) => {
                out.push(2);
                name.put(out);
            }
        }
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        match from.array()? {
            [0] => Transfer::take(from).map(Self::Kept),
            [1] => Transfer::take(from).map(Self::Own),
            [2] => Transfer::take(from).map(Self::Unknown),
            _ => None,
        }
    }
}

/// Serialises nodes for a [`super::NodeReceiver`]; each node once, and again when it has changed.
///
/// The receiver must get all messages, in order.
#[derive(Debug, Default)]
pub struct NodeSender {
    rows: Vec<Option<Row>>,
    by_name: HashMap<Arc<str>, u32, RandomState>,
    free: Vec<u32>,
    messages: u32,
}

#[derive(Debug)]
struct Row {
    node: Arc<Node>,
    /// The number of the last message that had the node.
    named: u32,
}

impl NodeSender {
    /// Serialises the next message: these nodes, in order, with the data of the nodes that the
    /// receiver does not have yet.
    pub fn packed(&mut self, nodes: &Nodes) -> Vec<u8> {
        self.messages += 1;
        let mut message = Message {
            forgotten: self.sweep(),
            kept: Vec::new(),
            positions: Vec::with_capacity(nodes.len()),
        };
        let mut next = 0;
        for at in 0..nodes.len() {
            let position = match nodes.shared_node(at) {
                Some(node) => self.position(node, &mut next, &mut message.kept),
                None => Position::Unknown(nodes.name(at).into()),
            };
            message.positions.push(position);
        }
        let mut out = Vec::new();
        message.put(&mut out);
        out
    }

    /// Where the receiver finds the node; `next` is the row to try first, as lists come in the same
    /// order again and again.
    fn position(
        &mut self,
        node: &Arc<Node>,
        next: &mut u32,
        kept: &mut Vec<(u32, Arc<Node>)>,
    ) -> Position {
        let row = match self.rows.get_mut(*next as usize) {
            Some(Some(row)) if Arc::ptr_eq(&row.node, node) => {
                row.named = self.messages;
                Some(*next)
            }
            _ => self.kept_row(node, kept),
        };
        let Some(row) = row else {
            return Position::Own(node.clone());
        };
        *next = row + 1;
        Position::Kept(row)
    }

    /// The row that holds the node from now on; None where its name stands for another already.
    fn kept_row(&mut self, node: &Arc<Node>, kept: &mut Vec<(u32, Arc<Node>)>) -> Option<u32> {
        let Some(&row) = self.by_name.get(node.name()) else {
            return (!node.name().is_empty()).then(|| self.add(node, kept));
        };
        let known = self.rows[row as usize].as_mut()?;
        if !Arc::ptr_eq(&known.node, node) && known.node != *node {
            if known.named == self.messages {
                return None;
            }
            kept.push((row, node.clone()));
        }
        *known = Row {
            node: node.clone(),
            named: self.messages,
        };
        Some(row)
    }

    fn add(&mut self, node: &Arc<Node>, kept: &mut Vec<(u32, Arc<Node>)>) -> u32 {
        let row = self.free.pop().unwrap_or(self.rows.len() as u32);
        if row as usize == self.rows.len() {
            self.rows.push(None);
        }
        self.rows[row as usize] = Some(Row {
            node: node.clone(),
            named: self.messages,
        });
        self.by_name.insert(node.shared_name().clone(), row);
        kept.push((row, node.clone()));
        row
    }

    /// Forgets the nodes that none of the last `FORGOTTEN_AFTER` messages had, and returns their
    /// rows.
    fn sweep(&mut self) -> Vec<u32> {
        if !self.messages.is_multiple_of(SWEEP_EVERY) {
            return Vec::new();
        }
        let mut forgotten = Vec::new();
        for (at, place) in self.rows.iter_mut().enumerate() {
            let old = place.take_if(|row| self.messages - row.named > FORGOTTEN_AFTER);
            if let Some(old) = old {
                self.by_name.remove(old.node.name());
                forgotten.push(at as u32);
            }
        }
        self.free.extend(&forgotten);
        forgotten
    }
}
