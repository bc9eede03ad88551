//! Python functions about resources and their quantities.

use kubextend_core::labels::Quantity;
use kubextend_core::pod;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn amount(resource: &str, quantity: &str) -> PyResult<i64> {
    // Go's JSON reader strips white space, too.
    let parsed = Quantity::parse(quantity.trim());
    let parsed = parsed.map_err(|error| PyValueError::new_err(format!("{quantity:?}: {error}")))?;
    Ok(parsed.amount_of(resource))
}

#[pyfunction]
pub(crate) fn is_dra_extended_resource(name: &str) -> bool {
    pod::is_dra_extended_resource(name)
}
