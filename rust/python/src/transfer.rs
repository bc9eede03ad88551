//! The Python classes `NodeSender` and `NodeReceiver`, which pass nodes between two processes.

use std::sync::{Arc, Mutex, PoisonError};

use kubextend_core::transfer::{NodeReceiver, NodeSender};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Foreign;
use crate::nodes::PyNodes;

#[pyclass(name = "NodeSender", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeSender(Mutex<NodeSender>);

#[pymethods]
impl PyNodeSender {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn pack<'py>(&self, py: Python<'py>, nodes: &PyNodes) -> Bound<'py, PyBytes> {
        let packed = py.detach(|| {
            let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sender.packed(&nodes.nodes)
        });
        PyBytes::new(py, &packed)
    }
}

#[pyclass(name = "NodeReceiver", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeReceiver(Mutex<NodeReceiver>);

#[pymethods]
impl PyNodeReceiver {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn unpack(&self, py: Python<'_>, packed: &[u8]) -> Result<PyNodes, Foreign> {
        let nodes = py.detach(|| {
            let mut receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.unpacked(packed)
        })?;
        Ok(PyNodes {
            nodes: Arc::new(nodes),
            store: None,
        })
    }
}
