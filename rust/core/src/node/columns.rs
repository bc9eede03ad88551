//! `Columns`: the values that all nodes of a snapshot have for a key, side by side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;

use super::record::Field;
use super::snapshot::Rows;

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
        let mut known = self.lock();
        if known.len() >= MOST_KEYS {
            known.clear();
        }
        known.insert(key.into(), column.clone());
        column
    }

    /// Returns the columns for a snapshot in which the field of the `changed` rows differs.
    pub(crate) fn updated(&self, field: Field, rows: &Rows, changed: &[u32]) -> Self {
        let mut columns = self.lock().clone();
        for (key, column) in &mut columns {
            for &row in changed {
                let node = rows.get(row).map(|stored| &*stored.node);
                let value = node.and_then(|node| field.of(node)?.get(key));
                if column.get(row) != value {
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
        let (columns, rows) = (Columns::default(), Rows::default());
        let column = columns.get(Field::Labels, "key", &rows);
        let updated = columns.updated(Field::Labels, &rows, &[0, 70]);
        assert!(Arc::ptr_eq(
            &column,
            &updated.get(Field::Labels, "key", &rows)
        ));
    }
}
