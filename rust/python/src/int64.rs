//! Numbers, one for each node, in and out of Python without an object for each.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

/// Integers from a buffer of int64 or from a sequence; bytes are neither.
pub(crate) fn from_python(scores: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if scores.is_instance_of::<PyBytes>() || scores.is_instance_of::<PyByteArray>() {
        let found = scores.get_type().name()?;
        let message = format!("integers or a buffer of int64 were expected, not {found}");
        return Err(PyTypeError::new_err(message));
    }
    match PyBuffer::<i64>::get(scores) {
        Ok(buffer) => buffer.to_vec(scores.py()),
        Err(_) => scores.extract(),
    }
}

/// A read-only memoryview of int64 (`format == "q"`), which numpy reads without a copy.
pub(crate) fn view<'py>(py: Python<'py>, values: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new_with(py, size_of_val(values), |out| {
        for (place, value) in out.chunks_exact_mut(size_of::<i64>()).zip(values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })?;
    PyMemoryView::from(&bytes)?.call_method1("cast", ("q",))
}
