//! The Python class `Nodes`: the nodes of one request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use kubextend_core::node::{Field, Mask, Node, NodeDetails, NodeTable, Nodes};
use kubextend_core::pod::PodSnapshot;
use kubextend_core::wire;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::body;
use crate::error::undeclared;
use crate::freeing::free_last;
use crate::mask::{PyMask, position};
use crate::node_info::PyNodeInfo;
use crate::pod::PyPod;
use crate::pod_store::PyPodSnapshot;
use crate::{int64, selector};

/// The most references to a text that only one node has: those of the pool, the node, the column of
/// the key and the list of texts. A text with more may be the text of several nodes.
const REFERENCES_OF_ONE_NODE: usize = 4;

#[pyclass(name = "Nodes", module = "kubextend.core", frozen)]
pub(crate) struct PyNodes {
    pub(crate) nodes: Arc<Nodes>,
    /// The table in which the names were looked up.
    table: Option<Arc<NodeTable>>,
    pods: Option<Seen>,
}

/// The pods that the nodes' views show, and whether Python has asked for them.
struct Seen {
    snapshot: Arc<PodSnapshot>,
    read: Arc<AtomicBool>,
}

impl Drop for PyNodes {
    fn drop(&mut self) {
        free_last(&mut self.nodes, Nodes::len);
        if let Some(pods) = &mut self.pods {
            free_last(&mut pods.snapshot, PodSnapshot::len);
        }
    }
}

impl PyNodes {
    pub(crate) fn of(nodes: Arc<Nodes>, table: Option<Arc<NodeTable>>) -> Self {
        let pods = None;
        Self { nodes, table, pods }
    }

    /// Returns other nodes with the table and the pods of these nodes.
    fn with(&self, nodes: Arc<Nodes>) -> Self {
        let seen = |pods: &Seen| Seen {
            snapshot: pods.snapshot.clone(),
            read: pods.read.clone(),
        };
        Self {
            nodes,
            table: self.table.clone(),
            pods: self.pods.as_ref().map(seen),
        }
    }

    /// Returns the pods that the nodes' views show; None if the pods are not known.
    pub(crate) fn seen(&self) -> Option<&Arc<PodSnapshot>> {
        let pods = self.pods.as_ref()?;
        pods.read.store(true, Ordering::Relaxed);
        Some(&pods.snapshot)
    }

    /// Checks that the store keeps the details of the nodes; `what` is what Python reads.
    fn check_details(&self, what: &str) -> PyResult<()> {
        // A store keeps the details of all nodes or of none.
        let known = (0..self.nodes.len()).find_map(|at| self.nodes.node(at));
        match known {
            Some(node) if node.details().is_none() => {
                Err(undeclared(&format!("{what} of nodes"), "needs_details"))
            }
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl PyNodes {
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.nodes.len()).map(|at| self.nodes.name(at)))
    }

    fn names_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut size = 0;
        wire::write_names(&self.nodes, |bytes| size += bytes.len());
        body::bytes(py, size, |sink| {
            wire::write_names(&self.nodes, |bytes| sink.put(bytes));
        })
    }

    #[getter]
    fn held_bytes(&self) -> usize {
        self.nodes.held_bytes()
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
        self.texts(py, Field::Labels, key)
    }

    fn annotations<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyList>> {
        self.check_details("annotations")?;
        self.texts(py, Field::Annotations, key)
    }

    fn topology<'py>(
        &self,
        py: Python<'py>,
        key: &str,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let (codes, values) = py.detach(|| self.nodes.topology(key));
        let values = PyList::new(py, values.iter().map(|value| &**value))?;
        Ok((int64::view(py, &codes)?, values))
    }

    fn images<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.check_details("images")?;
        let size = |node: &Node| node.details()?.image_size(name);
        let sizes = py.detach(|| self.nodes.map_or(-1, |node| size(node).unwrap_or(-1)));
        int64::view(py, &sizes)
    }

    fn capacity<'py>(&self, py: Python<'py>, resource: &str) -> PyResult<Bound<'py, PyAny>> {
        self.check_details("capacity")?;
        let amount = |details: &NodeDetails| details.capacity_amount(resource);
        let amounts = py.detach(|| {
            self.nodes
                .map_or(0, |node| node.details().map_or(0, amount))
        });
        int64::view(py, &amounts)
    }

    pub(crate) fn with_pods(&self, pods: &PyPodSnapshot) -> Self {
        let seen = Seen {
            snapshot: pods.0.clone(),
            read: Arc::default(),
        };
        let mut nodes = self.with(self.nodes.clone());
        nodes.pods = Some(seen);
        nodes
    }

    #[getter]
    fn pods(&self) -> PyResult<PyPodSnapshot> {
        self.seen().cloned().map(PyPodSnapshot).ok_or_else(no_pods)
    }

    #[getter]
    fn pods_read(&self) -> bool {
        let pods = self.pods.as_ref();
        pods.is_some_and(|pods| pods.read.load(Ordering::Relaxed))
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
        self.with(nodes)
    }

    fn kept(&self) -> Self {
        let kept = self.table.as_ref().map(|table| table.kept(&self.nodes));
        let nodes = kept.unwrap_or_else(|| self.nodes.clone());
        Self::of(nodes, self.table.clone())
    }

    fn only(&self, some: &PyMask) -> PyResult<Self> {
        some.expect_len(self.nodes.len())?;
        Ok(self.with(self.nodes.only(&some.0).into()))
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.nodes.position(name)
    }

    #[pyo3(signature = (pods = None))]
    fn infos<'py>(
        slf: &Bound<'py, Self>,
        pods: Option<&PyPodSnapshot>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let nodes = match pods {
            Some(pods) => &Py::new(py, slf.get().with_pods(pods))?,
            None => slf.as_unbound(),
        };
        let info = |at| Bound::new(py, PyNodeInfo::new(nodes.clone_ref(py), at));
        let infos = (0..slf.get().nodes.len()).map(info);
        PyList::new(py, infos.collect::<PyResult<Vec<_>>>()?)
    }

    fn __getitem__(slf: &Bound<'_, Self>, index: isize) -> PyResult<PyNodeInfo> {
        let at = position(index, slf.get().nodes.len())
            .ok_or_else(|| PyIndexError::new_err("node index out of range"))?;
        Ok(PyNodeInfo::new(slf.clone().unbind(), at))
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

impl PyNodes {
    /// Returns a list of the value that each node has for a key in a field.
    fn texts<'py>(&self, py: Python<'py>, field: Field, key: &str) -> PyResult<Bound<'py, PyList>> {
        let texts = py.detach(|| self.nodes.texts(field, key));
        let mut known: HashMap<*const str, Bound<'py, PyString>, RandomState> = HashMap::default();
        let mut object = |text: &Arc<str>| {
            let new = || PyString::new(py, text);
            // To remember the objects of distinct values would take a third of the time.
            if Arc::strong_count(text) <= REFERENCES_OF_ONE_NODE {
                return new();
            }
            let object = known.entry(Arc::as_ptr(text)).or_insert_with(new);
            object.clone()
        };
        let objects = texts.iter().map(|text| text.as_ref().map(&mut object));
        PyList::new(py, objects)
    }
}

/// Returns the error to raise when Python reads the pods of nodes that were made without pods.
pub(crate) fn no_pods() -> PyErr {
    PyRuntimeError::new_err(
        "pods are not known here: set needs_pods = True on the plugin's class, or use with_pods",
    )
}
