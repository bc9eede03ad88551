//! The Python class `NodeInfo`: a view of one node and its pods.

use std::collections::BTreeMap;

use kubextend_core::node::{Labels, Node, NodeDetails};
use kubextend_core::pod::PodSnapshot;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyString};

use crate::error::undeclared;
use crate::nodes::{PyNodes, no_pods};
use crate::pod::PyPod;
use crate::pod_details::PyCondition;

/// A view of one node of a `Nodes`; each attribute is read from the `Nodes` when Python uses the
/// attribute.
#[pyclass(name = "NodeInfo", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeInfo {
    nodes: Py<PyNodes>,
    at: usize,
}

impl PyNodeInfo {
    pub(crate) fn new(nodes: Py<PyNodes>, at: usize) -> Self {
        Self { nodes, at }
    }

    /// The node; None if the store has no node of this name.
    fn node(&self) -> Option<&Node> {
        self.nodes.get().nodes.node(self.at)
    }

    /// Returns the details of the node; None if the store has no node of this name. `what` is the
    /// field that Python reads.
    fn details(&self, what: &str) -> PyResult<Option<&NodeDetails>> {
        let Some(node) = self.node() else {
            return Ok(None);
        };
        let details = node.details();
        let undeclared = || undeclared(&format!("{what} of nodes"), "needs_details");
        details.map(Some).ok_or_else(undeclared)
    }

    fn snapshot(&self) -> PyResult<&PodSnapshot> {
        let pods = self.nodes.get().seen();
        pods.map(|pods| &**pods).ok_or_else(no_pods)
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
        dict(py, self.node().map(Node::labels))
    }

    fn label<'py>(&self, py: Python<'py>, key: &str) -> Option<Bound<'py, PyString>> {
        let value = self.node()?.label(key)?;
        Some(PyString::new(py, value))
    }

    #[getter]
    fn annotations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let details = self.details("annotations")?;
        dict(py, details.map(|details| &details.annotations))
    }

    fn annotation<'py>(
        &self,
        py: Python<'py>,
        key: &str,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let details = self.details("annotation")?;
        let value = details.and_then(|details| details.annotations.get(key));
        Ok(value.map(|value| PyString::new(py, value)))
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

    #[getter]
    fn conditions(&self) -> PyResult<Vec<PyCondition>> {
        let details = self.details("conditions")?;
        Ok(details.map_or_else(Vec::new, |details| PyCondition::each(&details.conditions)))
    }

    #[getter]
    fn addresses(&self) -> PyResult<Vec<(&str, &str)>> {
        let details = self.details("addresses")?;
        let addresses = details.into_iter().flat_map(|details| &details.addresses);
        Ok(addresses.map(|(kind, text)| (&**kind, &**text)).collect())
    }

    #[getter]
    fn provider_id(&self) -> PyResult<&str> {
        let details = self.details("provider_id")?;
        Ok(details.map_or("", |details| &*details.provider_id))
    }

    #[getter]
    fn system_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let details = self.details("system_info")?;
        let fields = details.into_iter().flat_map(|details| &details.info);
        fields
            .map(|(field, text)| (&**field, &**text))
            .into_py_dict(py)
    }

    #[getter]
    fn images<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let details = self.details("images")?;
        let images = details.into_iter().flat_map(NodeDetails::images);
        images.into_py_dict(py)
    }

    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let raw = self.node().map_or(Some(&b""[..]), Node::raw);
        let raw = raw.ok_or_else(|| undeclared("raw of nodes", "needs_raw"))?;
        Ok(PyBytes::new(py, raw))
    }

    fn allocatable(&self, resource: &str) -> i64 {
        self.node()
            .map_or(0, |node| node.allocatable_amount(resource))
    }

    fn capacity(&self, resource: &str) -> PyResult<i64> {
        let details = self.details("capacity")?;
        Ok(details.map_or(0, |details| details.capacity_amount(resource)))
    }

    fn requested(&self, resource: &str) -> PyResult<i64> {
        let pods = self.snapshot()?;
        Ok(pods.requested_on(self.name(), resource))
    }

    #[getter]
    fn pods(&self) -> PyResult<Vec<PyPod>> {
        let pods = self.snapshot()?.pods_on(self.name());
        Ok(pods.into_iter().map(PyPod).collect())
    }

    #[getter]
    fn used_ports(&self) -> PyResult<Vec<(String, String, i32)>> {
        let mut used = Vec::new();
        for pod in self.pods()? {
            let ports = pod.host_ports()?.into_iter();
            used.extend(
                ports.map(|(ip, protocol, port)| (ip.to_owned(), protocol.to_owned(), port)),
            );
        }
        Ok(used)
    }

    #[getter]
    fn pvc_ref_counts(&self) -> PyResult<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for pod in self.pods()? {
            pod.details("pvc_ref_counts")?;
            for claim in pod.0.claim_names() {
                *counts
                    .entry(format!("{}/{claim}", pod.0.namespace))
                    .or_default() += 1;
            }
        }
        Ok(counts)
    }

    fn __repr__(&self) -> String {
        format!("<NodeInfo {}>", self.name())
    }
}

fn dict<'py>(py: Python<'py>, labels: Option<&Labels>) -> PyResult<Bound<'py, PyDict>> {
    labels.into_iter().flat_map(Labels::iter).into_py_dict(py)
}
