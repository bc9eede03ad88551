//! The Python class `Nodes`: the nodes of one request.

use std::collections::HashMap;
use std::sync::Arc;

use kubextend_core::node::{Mask, Node, NodeTable, Nodes};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::mask::{PyMask, position};
use crate::node_info::PyNodeInfo;
use crate::pod::PyPod;
use crate::pod_store::PyPodSnapshot;
use crate::{int64, selector};

#[pyclass(name = "Nodes", module = "kubextend.core", frozen)]
pub(crate) struct PyNodes {
    pub(crate) nodes: Arc<Nodes>,
    /// The table in which the names were looked up.
    pub(crate) table: Option<Arc<NodeTable>>,
}

#[pymethods]
impl PyNodes {
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.nodes.len()).map(|at| self.nodes.name(at)))
    }

    #[getter]
    fn known(&self) -> PyMask {
        PyMask(self.nodes.known())
    }

    #[getter]
    fn unschedulable(&self) -> PyMask {
        PyMask(self.nodes.mask_of(Node::unschedulable))
    }

    #[getter]
    fn taints(&self) -> Vec<Vec<(&str, &str, &str)>> {
        self.nodes.map_or(Vec::new(), |node| {
            let taints = node.taints().iter();
            taints.map(|t| (&*t.key, &*t.value, &*t.effect)).collect()
        })
    }

    fn everything(&self) -> PyMask {
        PyMask(Mask::filled(self.nodes.len(), true))
    }

    fn nothing(&self) -> PyMask {
        PyMask(Mask::filled(self.nodes.len(), false))
    }

    fn matches(&self, py: Python<'_>, selector: &Bound<'_, PyAny>) -> PyResult<PyMask> {
        let selector = selector::from_python(selector)?;
        Ok(PyMask(py.detach(|| self.nodes.matches(&selector))))
    }

    fn tolerated_by(&self, py: Python<'_>, pod: &PyPod) -> PyResult<PyMask> {
        let pod = pod.whole()?;
        Ok(PyMask(
            py.detach(|| self.nodes.tolerated_by(&pod.tolerations)),
        ))
    }

    fn affine_to(&self, py: Python<'_>, pod: &PyPod) -> PyResult<PyMask> {
        let pod = pod.whole()?;
        Ok(PyMask(py.detach(|| self.nodes.affine_to(&pod.required))))
    }

    fn preferred_by<'py>(&self, py: Python<'py>, pod: &PyPod) -> PyResult<Bound<'py, PyAny>> {
        let pod = pod.whole()?;
        let scores = py
            .detach(|| self.nodes.preferred_by(&pod.preferred))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        int64::view(py, &scores)
    }

    fn labels<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyList>> {
        let mut known: HashMap<*const u8, Bound<'py, PyString>> = HashMap::new();
        let values: Vec<Option<Bound<'py, PyString>>> = (0..self.nodes.len())
            .map(|at| {
                let value = self.nodes.node(at)?.label(key)?;
                let text = known.entry(value.as_ptr());
                Some(text.or_insert_with(|| PyString::new(py, value)).clone())
            })
            .collect();
        PyList::new(py, values)
    }

    fn allocatable<'py>(&self, py: Python<'py>, resource: &str) -> PyResult<Bound<'py, PyAny>> {
        let values = py.detach(|| {
            self.nodes
                .map_or(0, |node| node.allocatable_amount(resource))
        });
        int64::view(py, &values)
    }

    fn latest(&self, py: Python<'_>) -> Self {
        let nodes = match &self.table {
            Some(table) => Arc::new(py.detach(|| table.latest(&self.nodes))),
            None => self.nodes.clone(),
        };
        Self {
            nodes,
            table: self.table.clone(),
        }
    }

    fn only(&self, some: &PyMask) -> PyResult<Self> {
        some.expect_len(self.nodes.len())?;
        Ok(Self {
            nodes: Arc::new(self.nodes.only(&some.0)),
            table: self.table.clone(),
        })
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.nodes.position(name)
    }

    #[pyo3(signature = (pods = None))]
    fn infos<'py>(
        slf: &Bound<'py, Self>,
        pods: Option<Py<PyPodSnapshot>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let nodes = slf.as_unbound();
        let info = |at| {
            let pods = pods.as_ref().map(|pods| pods.clone_ref(py));
            Bound::new(py, PyNodeInfo::new(nodes.clone_ref(py), pods, at))
        };
        let infos = (0..slf.get().nodes.len()).map(info);
        PyList::new(py, infos.collect::<PyResult<Vec<_>>>()?)
    }

    fn __getitem__(slf: &Bound<'_, Self>, index: isize) -> PyResult<PyNodeInfo> {
        let at = position(index, slf.get().nodes.len())
            .ok_or_else(|| PyIndexError::new_err("node index out of range"))?;
        Ok(PyNodeInfo::new(slf.clone().unbind(), None, at))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::infos(slf, None)?.call_method0("__iter__")
    }

    fn __len__(&self) -> usize {
        self.nodes.len()
    }

    fn __repr__(&self) -> String {
        format!("<Nodes: {}>", self.nodes.len())
    }
}
