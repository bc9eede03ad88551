//! The Python function `amount`, which parses quantities.

use kubextend_core::labels::Quantity;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn amount(resource: &str, quantity: &str) -> PyResult<i64> {
    // Go's JSON reader strips white space, too.
    let parsed = Quantity::parse(quantity.trim());
    let parsed = parsed.map_err(|error| PyValueError::new_err(format!("{quantity:?}: {error}")))?;
    Ok(parsed.amount_of(resource))
}
