//! The Python class `BindingArgs`: a parsed bind request.

use kubextend_core::node::Body;
use kubextend_core::wire::{self, BindingArgs};
use pyo3::prelude::*;

use crate::body::RequestBody;
use crate::error::Unreadable;

#[pyclass(name = "BindingArgs", module = "kubextend.core", frozen)]
pub(crate) struct PyBindingArgs(BindingArgs);

#[pyfunction]
pub(crate) fn read_binding_args(
    py: Python<'_>,
    body: RequestBody,
) -> Result<PyBindingArgs, Unreadable> {
    let body = Body::from(body);
    let args = py.detach(|| wire::read_binding_args(body.bytes()))?;
    Ok(PyBindingArgs(args))
}

#[pymethods]
impl PyBindingArgs {
    #[getter]
    fn pod_name(&self) -> &str {
        &self.0.pod_name
    }

    #[getter]
    fn pod_namespace(&self) -> &str {
        &self.0.pod_namespace
    }

    #[getter]
    fn pod_uid(&self) -> &str {
        &self.0.pod_uid
    }

    #[getter]
    fn node(&self) -> &str {
        &self.0.node
    }
}
