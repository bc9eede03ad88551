//! The Python class `Mask`: one bit for each node of a request.

use kubextend_core::node::Mask;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

#[pyclass(name = "Mask", module = "kubextend.core", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyMask(pub(crate) Mask);

impl PyMask {
    fn paired(&self, other: &Self, combine: impl Fn(&Mask, &Mask) -> Mask) -> PyResult<Self> {
        other.expect_len(self.0.len())?;
        Ok(Self(combine(&self.0, &other.0)))
    }

    pub(crate) fn expect_len(&self, len: usize) -> PyResult<()> {
        if self.0.len() == len {
            return Ok(());
        }
        let message = format!("a mask of {} nodes where there are {len}", self.0.len());
        Err(PyValueError::new_err(message))
    }
}

#[pymethods]
impl PyMask {
    #[new]
    fn new(bits: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bits = bits
            .try_iter()?
            .map(|bit| bit?.is_truthy())
            .collect::<PyResult<Vec<bool>>>()?;
        Ok(Self(Mask::from_fn(bits.len(), |at| bits[at])))
    }

    fn count(&self) -> usize {
        self.0.count()
    }

    fn any(&self) -> bool {
        self.0.any()
    }

    fn all(&self) -> bool {
        self.0.count() == self.0.len()
    }

    #[pyo3(signature = (most = None))]
    fn indices(&self, most: Option<usize>) -> Vec<usize> {
        self.0.indices().take(most.unwrap_or(usize::MAX)).collect()
    }

    fn pack<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.packed())
    }

    #[staticmethod]
    fn unpack(packed: &[u8], length: usize) -> PyResult<Self> {
        let mask = Mask::unpacked(packed, length).map(Self);
        mask.ok_or_else(|| PyValueError::new_err(format!("no mask of {length} nodes")))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<bool> {
        position(index, self.0.len())
            .map(|at| self.0.get(at))
            .ok_or_else(|| PyIndexError::new_err("mask index out of range"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bits = (0..self.0.len()).map(|at| self.0.get(at));
        PyList::new(py, bits.collect::<Vec<_>>())?.call_method0("__iter__")
    }

    fn __and__(&self, other: &Self) -> PyResult<Self> {
        self.paired(other, |a, b| a & b)
    }

    fn __or__(&self, other: &Self) -> PyResult<Self> {
        self.paired(other, |a, b| a | b)
    }

    fn __xor__(&self, other: &Self) -> PyResult<Self> {
        self.paired(other, |a, b| a ^ b)
    }

    fn __invert__(&self) -> Self {
        Self(!&self.0)
    }

    fn __repr__(&self) -> String {
        format!("<Mask: {} of {}>", self.0.count(), self.0.len())
    }
}

/// Converts a Python index, which may be negative, to a position; None if it is outside of `len`.
pub(crate) fn position(index: isize, len: usize) -> Option<usize> {
    let at = if index < 0 {
        len.checked_add_signed(index)
    } else {
        usize::try_from(index).ok()
    };
    at.filter(|&at| at < len)
}
