//! The Python classes `NodeStore`, `RequestStore` and `NodeStoreStats`.

use std::sync::Arc;

use kubextend_core::node::{NodeStore, NodeStoreStats, NodeTable, Parts, RequestStore};
use kubextend_core::wire;
use pyo3::prelude::*;

use crate::error::Unreadable;
use crate::node_info::PyNodeInfo;
use crate::nodes::PyNodes;
use crate::pod_store::PyPodSnapshot;
use crate::watch::{self, PyRelist, PyWatchEvent};

#[pyclass(name = "NodeStore", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeStore(pub(crate) Arc<NodeStore>);

#[pyclass(name = "RequestStore", module = "kubextend.core", frozen)]
pub(crate) struct PyRequestStore(pub(crate) Arc<RequestStore>);

/// Returns the table in which names are looked up: that of the watched store, if there is one.
pub(crate) fn named<'a>(
    store: Option<&'a PyRequestStore>,
    watched: Option<&'a PyNodeStore>,
) -> Option<&'a Arc<NodeTable>> {
    let watched = watched.map(|watched| watched.0.table());
    watched.or(store.map(|store| store.0.table()))
}

/// Adds the methods of a class by which Python reads a store to the class's own methods.
macro_rules! readable_store {
    ($class:ty, $name:literal { $($more:item)* }) => {
        #[pymethods]
        impl $class {
            $($more)*

            // A call that may wait for the store's writer releases the GIL.

            fn nodes(&self, py: Python<'_>) -> PyNodes {
                let nodes = py.detach(|| self.0.nodes());
                PyNodes::of(nodes.into(), Some(self.0.table().clone()))
            }

            fn select(&self, py: Python<'_>, names: Vec<String>) -> PyNodes {
                let nodes = py.detach(|| self.0.select(names.iter().map(String::as_str)));
                PyNodes::of(nodes.into(), Some(self.0.table().clone()))
            }

            #[pyo3(signature = (name, pods = None))]
            fn get(
                &self,
                py: Python<'_>,
                name: &str,
                pods: Option<&PyPodSnapshot>,
            ) -> PyResult<Option<PyNodeInfo>> {
                let Some(nodes) = py.detach(|| self.0.named(name)) else {
                    return Ok(None);
                };
                let nodes = PyNodes::of(nodes.into(), Some(self.0.table().clone()));
                let nodes = match pods {
                    Some(pods) => nodes.with_pods(pods),
                    None => nodes,
                };
                Ok(Some(PyNodeInfo::new(Py::new(py, nodes)?, 0)))
            }

            fn stats(&self, py: Python<'_>) -> PyNodeStoreStats {
                PyNodeStoreStats(py.detach(|| self.0.stats()))
            }

            fn __len__(&self, py: Python<'_>) -> usize {
                py.detach(|| self.0.stats().nodes as usize)
            }

            fn __contains__(&self, py: Python<'_>, name: &str) -> bool {
                py.detach(|| self.0.contains(name))
            }

            fn __repr__(&self, py: Python<'_>) -> String {
                format!("<{}: {} nodes>", $name, self.__len__(py))
            }
        }
    };
}

readable_store!(PyNodeStore, "NodeStore" {
    #[new]
    #[pyo3(signature = (*, details = false, raw = false))]
    fn new(details: bool, raw: bool) -> Self {
        Self(Arc::new(NodeStore::with_parts(Parts { details, raw })))
    }

    fn replace(&self, py: Python<'_>, list_bytes: &[u8]) -> Result<String, Unreadable> {
        watch::replace(py, &self.0, list_bytes)
    }

    fn relist(&self) -> PyRelist {
        PyRelist::begin(&self.0)
    }

    fn apply(&self, py: Python<'_>, event_bytes: &[u8]) -> Result<PyWatchEvent, Unreadable> {
        let event = py.detach(|| wire::apply(&*self.0, event_bytes))?;
        Ok(PyWatchEvent(event))
    }
});

readable_store!(PyRequestStore, "RequestStore" {
    #[new]
    #[pyo3(signature = (max_bytes = 536_870_912, *, details = false, raw = false))]
    fn new(max_bytes: u64, details: bool, raw: bool) -> Self {
        let parts = Parts { details, raw };
        Self(Arc::new(RequestStore::with_parts(max_bytes, parts)))
    }
});

#[pyclass(name = "NodeStoreStats", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeStoreStats(NodeStoreStats);

#[pymethods]
impl PyNodeStoreStats {
    #[getter]
    fn nodes(&self) -> u64 {
        self.0.nodes
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn hits(&self) -> u64 {
        self.0.hits
    }

    #[getter]
    fn misses(&self) -> u64 {
        self.0.misses
    }
}
