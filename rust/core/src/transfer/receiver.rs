//! `NodeReceiver`: deserialises the nodes that another process serialised.

use std::sync::Arc;

use super::sender::{Message, Position};
use crate::node::{Node, NodeStore, Nodes};
use crate::packing::{Received, Unreceivable};

/// Deserialises the messages of one [`super::NodeSender`], and keeps the nodes of earlier messages.
#[derive(Debug)]
pub struct NodeReceiver {
    store: NodeStore,
    /// By the sender's number of a node: the node's row in the store, and its name.
    rows: Vec<Option<(u32, Arc<str>)>>,
}

impl Default for NodeReceiver {
    fn default() -> Self {
        Self {
            // What a watched store holds has no limit here: the sender forgets.
            store: NodeStore::new(0),
            rows: Vec::new(),
        }
    }
}

impl NodeReceiver {
    /// Deserialises the sender's next message to the nodes that the sender serialised.
    ///
    /// # Errors
    /// The bytes are not the sender's next message; later messages cannot be deserialised either.
    pub fn unpacked(&mut self, bytes: &[u8]) -> Result<Nodes, Unreceivable> {
        let message: Message = Received::whole(bytes)?;
        for row in message.forgotten {
            self.forget(row)?;
        }
        for (row, node) in message.kept {
            self.keep(row, node)?;
        }
        self.nodes(message.positions)
    }

    fn keep(&mut self, row: u32, node: Arc<Node>) -> Result<(), Unreceivable> {
        let row = row as usize;
        if row > self.rows.len() {
            return Err(Unreceivable);
        }
        if row == self.rows.len() {
            self.rows.push(None);
        }
        let node = Arc::unwrap_or_clone(node);
        let node = self.store.with_strings(|strings| node.interned(strings));
        let name = node.shared_name().clone();
        self.rows[row] = Some((self.store.placed(Arc::new(node)), name));
        Ok(())
    }

    fn forget(&mut self, row: u32) -> Result<(), Unreceivable> {
        let place = self.rows.get_mut(row as usize);
        let (_, name) = place.and_then(Option::take).ok_or(Unreceivable)?;
        self.store.deleted(&name);
        Ok(())
    }

    fn nodes(&self, positions: Vec<Position>) -> Result<Nodes, Unreceivable> {
        let mut nodes = Nodes::over(self.store.snapshot(), positions.len());
        for position in positions {
            match position {
                Position::Kept(row) => {
                    let place = self.rows.get(row as usize).and_then(Option::as_ref);
                    nodes.push_row(place.ok_or(Unreceivable)?.0);
                }
                Position::Own(node) => nodes.push_own(node),
                Position::Unknown(name) => nodes.push_unknown(name),
            }
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Transfer;

    /// A message that names one node, and keeps it under number 0.
    fn told(receiver: &mut NodeReceiver, name: &str, forgotten: &[u32]) -> (String, u64) {
        let node = Arc::new(Node::called(name));
        let message = Message {
            forgotten: forgotten.to_vec(),
            kept: vec![(0, node)],
            positions: vec![Position::Kept(0)],
        };
        let mut packed = Vec::new();
        message.put(&mut packed);
        let nodes = receiver.unpacked(&packed).expect("a message");
        (nodes.name(0).to_owned(), receiver.store.stats().nodes)
    }

    #[test]
    fn what_is_forgotten_is_gone_and_its_number_may_be_taken_in_the_same_message() {
        let mut receiver = NodeReceiver::default();
        for (name, forgotten) in [("a", &[][..]), ("b", &[0]), ("a", &[0]), ("a", &[])] {
            let kept = told(&mut receiver, name, forgotten);
            assert_eq!(kept, (name.to_owned(), 1));
        }
    }
}
