//! Parses a `resource.Quantity`, and lists of resources.

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map};
use super::error::{Problem, WireError};
use crate::labels::Quantity;
use crate::pod::{ResourceList, word};

#[derive(Debug, Default)]
pub(crate) struct WireQuantity(pub(crate) Quantity);

/// Reads the raw text of any value, as Go's `Quantity.UnmarshalJSON` does: a number without quotes
/// is valid, an escape inside a string is not.
impl<'a> Decode<'a> for WireQuantity {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.peek();
        let start = cursor.pos();
        cursor.skip_value()?;
        let raw = &cursor.bytes()[start..cursor.pos()];
        if raw == b"null" {
            self.0 = Quantity::default();
            return Ok(());
        }
        let inner = match raw {
            [b'"', inner @ .., b'"'] => inner,
            bare => bare,
        };
        let text = String::from_utf8_lossy(inner);
        self.0 = Quantity::parse(text.trim())
            .map_err(|error| WireError::new(start, Problem::NotAQuantity(error.to_string())))?;
        Ok(())
    }
}

impl From<Map<'_, WireQuantity>> for ResourceList {
    fn from(map: Map<'_, WireQuantity>) -> Self {
        let sorted = map.into_sorted().into_iter();
        sorted
            .map(|(resource, quantity)| (word(&resource), quantity.0))
            .collect()
    }
}
