//! The names of a store's nodes: finds the row of a name and the name of a row.

use ahash::RandomState;

use super::snapshot::Rows;
use crate::plain::plain_prefix;

/// The names of the nodes in all rows of a snapshot, with an index by name; never changes.
///
/// All names lie in one piece of memory, in the order of rows: a request names thousands of nodes,
/// and to follow a pointer for each name costs more than to compare the name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The name of each row, and behind each name [`PLAIN`] or [`NOT_PLAIN`].
    text: String,
    /// Where in `text` the name of each row begins, and as the last element where the last name
    /// ends.
    starts: Vec<usize>,
    /// A hash table with open addressing: part of each name's hash beside the name's row; its
    /// length is a power of two.
    places: Vec<Option<Place>>,
    hasher: RandomState,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u32,
    row: u32,
}

/// Ends a name that stands in JSON as it is: with this quote behind it.
const PLAIN: char = '"';

/// Ends a name that JSON writes with escapes.
const NOT_PLAIN: char = '\0';

/// Bytes that no valid body holds.
const IN_NO_BODY: &[u8] = &[0xff];

impl Names {
    pub(crate) fn of(rows: &Rows) -> Self {
        let mut names = Self::default();
        let count = rows.iter().count();
        names.places = vec![None; (2 * count).next_power_of_two()];
        for (row, stored) in rows.iter() {
            names.starts.resize(row as usize + 1, names.text.len());
            names.push(row, stored.node.name());
        }
        names.starts.push(names.text.len());
        names
    }

    fn push(&mut self, row: u32, name: &str) {
        self.text.push_str(name);
        let plain = plain_prefix(name.as_bytes()) == name.len();
        self.text.push(if plain { PLAIN } else { NOT_PLAIN });
        let hash = self.hasher.hash_one(name.as_bytes());
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        while self.places[at].is_some() {
            at = (at + 1) & mask;
        }
        self.places[at] = Some(Place {
            hash: high_half(hash),
            row,
        });
        self.len += 1;
    }

    /// How many rows have a name.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns one more than the highest row with a name.
    pub(crate) fn end(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns a row's name as in JSON behind the opening quote, with the closing quote. If there
    /// is no such row, or JSON needs escapes for the name, returns bytes that no body holds.
    pub(crate) fn in_json(&self, row: u32) -> &[u8] {
        self.plain(row).unwrap_or(IN_NO_BODY)
    }

    /// Returns a row's name as in JSON behind the opening quote, with the closing quote; None if
    /// there is no such row, or JSON needs escapes for the name.
    pub(crate) fn plain(&self, row: u32) -> Option<&[u8]> {
        let ended = self.ended(row);
        ended.ends_with(PLAIN).then_some(ended.as_bytes())
    }

    /// Returns the row of a name. Tries the row behind `after`, the row found last, first, because
    /// requests list nodes in one order.
    pub(crate) fn find(&self, name: &[u8], after: Option<u32>) -> Option<u32> {
        let next = after.map_or(0, |row| row + 1);
        if self.is_called(next, name) {
            return Some(next);
        }
        self.row_of(name)
    }

    /// Returns the row of a name; None if no node has the name.
    pub(crate) fn row_of(&self, name: &[u8]) -> Option<u32> {
        let mask = self.places.len().checked_sub(1)?;
        let hash = self.hasher.hash_one(name);
        let mut at = hash as usize & mask;
        while let Some(place) = self.places[at] {
            if place.hash == high_half(hash) && self.is_called(place.row, name) {
                return Some(place.row);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Returns the name of a row; None if there is no such row.
    pub(crate) fn name(&self, row: u32) -> Option<&str> {
        let ended = self.ended(row);
        ended.get(..ended.len().checked_sub(1)?)
    }

    fn is_called(&self, row: u32, name: &[u8]) -> bool {
        self.name(row)
            .is_some_and(|called| called.as_bytes() == name)
    }

    /// Returns a row's name and the end behind the name; empty if the row is free.
    fn ended(&self, row: u32) -> &str {
        let row = row as usize;
        match self.starts.get(row..row + 2) {
            Some(&[start, end]) => &self.text[start..end],
            _ => "",
        }
    }
}

/// Returns the bits of a hash that do not choose the place in the hash table.
fn high_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use proptest::prelude::*;

    use super::super::record::Node;
    use super::super::snapshot::Stored;
    use super::*;

    fn rows(names: &[(u32, String)]) -> Rows {
        let mut rows = Rows::default();
        for (row, name) in names {
            let stored = Stored {
                node: Arc::new(Node::called(name)),
                source: None,
                seen: AtomicU32::new(0),
            };
            rows.set(*row, Some(Arc::new(stored)));
        }
        rows
    }

    proptest! {
        #[test]
        fn names_are_found_as_in_a_map(
            known in proptest::collection::hash_map("[a-c\"\\\\\u{7}é]{1,4}", 0..200u32, 0..80),
            asked in proptest::collection::vec(("[a-c\"\\\\\u{7}é]{0,4}", 0..210u32), 0..80),
        ) {
            let mut by_row: HashMap<u32, String> = HashMap::new();
            for (name, row) in &known {
                by_row.insert(*row, name.clone());
            }
            let placed: Vec<(u32, String)> = by_row.clone().into_iter().collect();
            let names = Names::of(&rows(&placed));
            prop_assert_eq!(names.len(), placed.len());
            let row_of: HashMap<&String, u32> = placed.iter().map(|(row, name)| (name, *row)).collect();
            for (name, row) in asked.iter().chain(&known.into_iter().collect::<Vec<_>>()) {
                let expected = row_of.get(name).copied();
                prop_assert_eq!(names.row_of(name.as_bytes()), expected);
                prop_assert_eq!(names.find(name.as_bytes(), None), expected);
                prop_assert_eq!(names.find(name.as_bytes(), Some(*row)), expected);
                let written = by_row.get(row).map(|name| serde_json::to_string(name).unwrap_or_default());
                let plain = by_row.get(row).is_some_and(|name| written.as_deref() == Some(&format!("\"{name}\"")));
                let expected = match &written {
                    Some(written) if plain => &written.as_bytes()[1..],
                    _ => b"\xff",
                };
                prop_assert_eq!(names.in_json(*row), expected);
                prop_assert_eq!(names.name(*row), by_row.get(row).map(String::as_str));
            }
        }
    }
}
