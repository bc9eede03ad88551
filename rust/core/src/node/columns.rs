//! `Columns`: the values that all nodes of a snapshot have for a key, side by side.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;

use super::record::Field;
use super::snapshot::{MOST_CHANGES, Rows, make_room};
use crate::pool::LONGEST;

/// The most keys whose values are kept; plugins use few.
const MOST_KEYS: usize = 16;

/// For each row the value of one key; a row without the key is empty.
pub(crate) type Column = crate::rows::Rows<str>;

/// The columns of one field that were asked for, shared by snapshots in which the field is equal.
///
/// A node's values are in memory that only the node leads to: for thousands of nodes, a processor
/// waits several times for each. A column is read in one go.
#[derive(Debug, Default)]
pub(crate) struct Columns(Mutex<Known>);

type Known = HashMap<Arc<str>, Arc<Column>, RandomState>;

impl Columns {
    /// Returns the column of a key.
    pub(crate) fn get(&self, field: Field, key: &str, rows: &Rows) -> Arc<Column> {
        if let Some(known) = self.lock().get(key) {
            return known.clone();
        }
        let mut column = Column::default();
        for (row, stored) in rows.iter() {
            if let Some(value) = field.of(&stored.node).and_then(|field| field.get(key)) {
                column.set(row, Some(value.clone()));
            }
        }
        let column = Arc::new(column);
        if key.len() > LONGEST {
            return column;
        }
        let mut known = self.lock();
        make_room(&mut known, MOST_KEYS);
        known.insert(key.into(), column.clone());
        column
    }

    /// Returns the columns for a snapshot in which the field of the `changed` rows differs; no
    /// columns if to change them takes long.
    pub(crate) fn updated(&self, field: Field, rows: &Rows, changed: &HashSet<u32>) -> Self {
        let mut columns = self.lock().clone();
        if changed.len() * columns.len() > MOST_CHANGES * rows.end() {
            return Self::default();
        }
        for (key, column) in &mut columns {
            for &row in changed {
                let node = rows.get(row).map(|stored| &*stored.node);
                let value = node.and_then(|node| field.of(node)?.get(key));
                // An equal text of the last node would stay in memory beside the text of this one.
                if column.get(row).map(Arc::as_ptr) != value.map(Arc::as_ptr) {
                    Arc::make_mut(column).set(row, value.cloned());
                }
            }
        }
        Self(Mutex::new(columns))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Whole entries are inserted, so a panic elsewhere leaves nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_few_keys_are_kept_and_no_more() {
        let (columns, rows) = (Columns::default(), Rows::default());
        let mut most = 0;
        for i in 0..10 * MOST_KEYS {
            columns.get(Field::Labels, &format!("key-{i}"), &rows);
            columns.get(Field::Labels, &format!("key-{i}"), &rows);
            most = most.max(columns.lock().len());
        }
        assert_eq!(most, MOST_KEYS);
    }

    #[test]
    fn a_column_stays_the_same_while_no_value_of_its_key_changes() {
        let (columns, mut rows) = (Columns::default(), Rows::default());
        rows.set(70, None);
        let column = columns.get(Field::Labels, "key", &rows);
        let updated = columns.updated(Field::Labels, &rows, &HashSet::from([0, 70]));
        assert!(Arc::ptr_eq(
            &column,
            &updated.get(Field::Labels, "key", &rows)
        ));
    }

    #[test]
    fn so_many_changes_that_the_writer_would_wait_leave_no_column() {
        let (columns, mut rows) = (Columns::default(), Rows::default());
        rows.set(0, None);
        for key in 0..MOST_KEYS {
            columns.get(Field::Labels, &format!("key-{key}"), &rows);
        }
        let kept = |changed: usize| {
            let changed = (0..changed as u32).collect();
            columns.updated(Field::Labels, &rows, &changed).lock().len()
        };
        let most = MOST_CHANGES * rows.end() / MOST_KEYS;
        assert_eq!((kept(most), kept(most + 1)), (MOST_KEYS, 0));
    }

    #[test]
    fn a_key_longer_than_any_of_a_real_node_is_not_kept() {
        let (columns, rows) = (Columns::default(), Rows::default());
        for length in [LONGEST, LONGEST + 1] {
            columns.get(Field::Annotations, &"k".repeat(length), &rows);
        }
        assert_eq!(columns.lock().len(), 1);
    }
}
