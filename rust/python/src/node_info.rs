//! The Python class `NodeInfo`: a view of one node and its pods.

use kubextend_core::node::Node;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyString};

use crate::nodes::PyNodes;
use crate::pod::PyPod;
use crate::pod_store::PyPodSnapshot;

/// A view of one node of a `Nodes`; each attribute is read from the `Nodes` when Python uses the
/// attribute.
#[pyclass(name = "NodeInfo", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeInfo {
    nodes: Py<PyNodes>,
    pods: Option<Py<PyPodSnapshot>>,
    at: usize,
}

impl PyNodeInfo {
    pub(crate) fn new(nodes: Py<PyNodes>, pods: Option<Py<PyPodSnapshot>>, at: usize) -> Self {
        Self { nodes, pods, at }
    }

    /// The node; None if the store has no node of this name.
    fn node(&self) -> Option<&Node> {
        self.nodes.get().nodes.node(self.at)
    }

    fn snapshot(&self) -> PyResult<&PyPodSnapshot> {
        let pods = self.pods.as_ref().map(Py::get);
        pods.ok_or_else(|| {
            PyRuntimeError::new_err("pods are not known here; ask for nodes.infos(pods)")
        })
    }
}

#[pymethods]
impl PyNodeInfo {
    #[getter]
    fn name(&self) -> &str {
        self.nodes.get().nodes.name(self.at)
    }

    #[getter]
    fn uid(&self) -> &str {
        self.node().map_or("", Node::uid)
    }

    #[getter]
    fn known(&self) -> bool {
        self.node().is_some()
    }

    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let labels = self
            .node()
            .into_iter()
            .flat_map(|node| node.labels().iter());
        labels.into_py_dict(py)
    }

    fn label<'py>(&self, py: Python<'py>, key: &str) -> Option<Bound<'py, PyString>> {
        let value = self.node()?.label(key)?;
        Some(PyString::new(py, value))
    }

    #[getter]
    fn taints(&self) -> Vec<(&str, &str, &str)> {
        let taints = self.node().into_iter().flat_map(Node::taints);
        taints.map(|t| (&*t.key, &*t.value, &*t.effect)).collect()
    }

    #[getter]
    fn unschedulable(&self) -> bool {
        self.node().is_some_and(Node::unschedulable)
    }

    fn allocatable(&self, resource: &str) -> i64 {
        self.node()
            .map_or(0, |node| node.allocatable_amount(resource))
    }

    fn requested(&self, resource: &str) -> PyResult<i64> {
        let pods = self.snapshot()?;
        Ok(pods.0.requested_on(self.name(), resource))
    }

    #[getter]
    fn pods(&self) -> PyResult<Vec<PyPod>> {
        Ok(self.snapshot()?.pods_on(self.name()))
    }

    fn __repr__(&self) -> String {
        format!("<NodeInfo {}>", self.name())
    }
}
