//! `NodeStore`, and what fills a watched one.

use std::sync::{Arc, Mutex, PoisonError};

use kubextend_core::node::{NodeStore, NodeStoreStats};
use kubextend_core::wire::{self, ListPage, Relist, WatchEvent};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::Unreadable;
use crate::nodes::PyNodes;

#[pyclass(name = "NodeStore", module = "kubextend.core", frozen)]
pub(crate) struct PyNodeStore(pub(crate) Arc<NodeStore>);

#[pymethods]
impl PyNodeStore {
    #[new]
    #[pyo3(signature = (max_bytes = 536_870_912))]
    fn new(max_bytes: u64) -> Self {
        Self(Arc::new(NodeStore::new(max_bytes)))
    }

    fn replace(&self, py: Python<'_>, list_bytes: &[u8]) -> Result<String, Unreadable> {
        let mut relist = Relist::begin(self.0.clone());
        py.detach(|| {
            let page = relist.page(list_bytes)?;
            relist.commit();
            Ok(page.resource_version)
        })
    }

    fn relist(&self) -> PyRelist {
        PyRelist(Mutex::new(Some(Relist::begin(self.0.clone()))))
    }

    fn apply(&self, py: Python<'_>, event_bytes: &[u8]) -> Result<PyWatchEvent, Unreadable> {
        let event = py.detach(|| wire::apply(&self.0, event_bytes))?;
        Ok(PyWatchEvent(event))
    }

    // Whatever may wait for the writer waits without the interpreter.

    fn nodes(&self, py: Python<'_>) -> PyNodes {
        PyNodes {
            nodes: Arc::new(py.detach(|| self.0.nodes())),
            store: Some(self.0.clone()),
        }
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
        format!("<NodeStore: {} nodes>", self.__len__(py))
    }
}

#[pyclass(name = "Relist", module = "kubextend.core", frozen)]
pub(crate) struct PyRelist(Mutex<Option<Relist>>);

#[pymethods]
impl PyRelist {
    fn page(&self, py: Python<'_>, list_bytes: &[u8]) -> PyResult<PyListPage> {
        let page = py.detach(|| {
            let mut relist = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            relist.as_mut().map(|relist| relist.page(list_bytes))
        });
        let page = page.ok_or_else(committed)?.map_err(Unreadable::from)?;
        Ok(PyListPage(page))
    }

    fn commit(&self, py: Python<'_>) -> PyResult<bool> {
        let changed = py.detach(|| {
            let relist = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            relist.map(Relist::commit)
        });
        changed.ok_or_else(committed)
    }
}

fn committed() -> PyErr {
    PyRuntimeError::new_err("this list is committed; begin another with NodeStore.relist()")
}

#[pyclass(name = "ListPage", module = "kubextend.core", frozen)]
pub(crate) struct PyListPage(ListPage);

#[pymethods]
impl PyListPage {
    #[getter]
    fn resource_version(&self) -> &str {
        &self.0.resource_version
    }

    #[getter]
    fn continue_token(&self) -> &str {
        &self.0.continue_token
    }

    #[getter]
    fn items(&self) -> usize {
        self.0.items
    }
}

#[pyclass(name = "WatchEvent", module = "kubextend.core", frozen)]
pub(crate) struct PyWatchEvent(WatchEvent);

#[pymethods]
impl PyWatchEvent {
    #[getter]
    fn r#type(&self) -> &str {
        &self.0.kind
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn resource_version(&self) -> &str {
        &self.0.resource_version
    }

    #[getter]
    fn changed(&self) -> bool {
        self.0.changed
    }

    #[getter]
    fn code(&self) -> i32 {
        self.0.code
    }

    #[getter]
    fn message(&self) -> &str {
        &self.0.message
    }
}

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
