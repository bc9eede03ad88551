//! Passes scores and amounts, one int64 for each node, between Python and Rust as buffers.

use std::ops::Deref;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyList, PyMemoryView};

/// Integers of a Python buffer or sequence that cannot change while they are read.
pub(crate) enum Int64s<'py> {
    /// The bytes of a memoryview that `view` made, read in place; the length is a multiple of 8.
    Shared(Bound<'py, PyBytes>),
    /// A copy of the integers of any other buffer or sequence.
    Copied(Vec<i64>),
}

impl Deref for Int64s<'_> {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match self {
            Self::Shared(bytes) => bytemuck::cast_slice(bytes.as_bytes()),
            Self::Copied(values) => values,
        }
    }
}

/// Reads integers from a buffer of int64 or from a sequence of ints; refuses bytes and tables.
pub(crate) fn from_python<'py>(scores: &Bound<'py, PyAny>) -> PyResult<Int64s<'py>> {
    if scores.is_instance_of::<PyBytes>() || scores.is_instance_of::<PyByteArray>() {
        let found = scores.get_type().name()?;
        let message = format!("integers or a buffer of int64 were expected, not {found}");
        return Err(PyTypeError::new_err(message));
    }
    let Ok(buffer) = PyBuffer::<i64>::get(scores) else {
        let is_bool = |each: Bound<'_, PyAny>| each.is_instance_of::<PyBool>();
        if scores
            .cast::<PyList>()
            .is_ok_and(|list| list.iter().any(is_bool))
        {
            return Err(PyTypeError::new_err("an int was expected, not a bool"));
        }
        return scores.extract().map(Int64s::Copied);
    };
    check_layout(&buffer)?;
    match viewed_bytes(scores, &buffer) {
        Some(bytes) => Ok(Int64s::Shared(bytes)),
        None => buffer.to_vec(scores.py()).map(Int64s::Copied),
    }
}

/// Refuses an array of rows and columns, and integers whose bytes come in the other order.
fn check_layout(buffer: &PyBuffer<i64>) -> PyResult<()> {
    let foreign: &[u8] = if cfg!(target_endian = "big") {
        b"<"
    } else {
        b">!"
    };
    let order = buffer.format().to_bytes().first();
    let found = if buffer.dimensions() != 1 {
        format!("an array with the shape {:?}", buffer.shape())
    } else if order.is_some_and(|order| foreign.contains(order)) {
        "an array of int64 in the byte order of another machine".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("{found} where one int64 for each node is expected");
    Err(PyValueError::new_err(message))
}

/// Returns the bytes object behind a memoryview, if the view shows all of its bytes in order.
fn viewed_bytes<'py>(
    scores: &Bound<'py, PyAny>,
    buffer: &PyBuffer<i64>,
) -> Option<Bound<'py, PyBytes>> {
    let view = scores.cast_exact::<PyMemoryView>().ok()?;
    let owner = view.getattr(intern!(view.py(), "obj")).ok()?;
    let bytes = owner.cast_into_exact::<PyBytes>().ok()?;
    let shown = bytes.as_bytes();
    let whole = buffer.buf_ptr().cast_const().cast() == shown.as_ptr()
        && buffer.len_bytes() == shown.len()
        && buffer.is_c_contiguous()
        && bytemuck::try_cast_slice::<u8, i64>(shown).is_ok();
    whole.then_some(bytes)
}

/// Returns a read-only memoryview of int64 (`format == "q"`), which numpy reads without a copy.
pub(crate) fn view<'py>(py: Python<'py>, values: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    view_with(py, values.len(), |places| places.copy_from_slice(values))
}

/// Returns a memoryview of `len` int64 that `write` fills in place; no Python code runs meanwhile.
pub(crate) fn view_with(
    py: Python<'_>,
    len: usize,
    write: impl FnOnce(&mut [i64]),
) -> PyResult<Bound<'_, PyAny>> {
    let bytes = PyBytes::new_with(py, len * size_of::<i64>(), |out| {
        let places = bytemuck::try_cast_slice_mut(out);
        write(places.expect("what bytes hold begins at a multiple of eight"));
        Ok(())
    })?;
    PyMemoryView::from(&bytes)?.call_method1(intern!(py, "cast"), (intern!(py, "q"),))
}
