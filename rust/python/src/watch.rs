//! The Python classes `Relist`, `PodRelist`, `ListPage`, `WatchEvent` and `PodEvent`, by which list
//! and watch fill a store.

use std::sync::{Arc, Mutex, PoisonError};

use kubextend_core::node::{Node, NodeStore};
use kubextend_core::pod::{Pod, PodStore};
use kubextend_core::wire::{self, ListPage, Relist, WatchEvent, Watched};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::Unreadable;
use crate::freeing::free;
use crate::pod::PyPod;

/// Replaces the content of a store by one list, and returns the list's resourceVersion.
pub(crate) fn replace<S>(
    py: Python<'_>,
    store: &Arc<S>,
    list_bytes: &[u8],
) -> Result<String, Unreadable>
where
    S: Watched<Object: Send + Sync> + Send + Sync,
{
    py.detach(|| wire::replace(store, list_bytes))
        .map_err(Unreadable::from)
}

/// A list that is read page by page; None once it is committed.
struct Pending<S>(Mutex<Option<Relist<S>>>)
where
    S: Watched<Object: Send + Sync> + Send + Sync;

impl<S> Drop for Pending<S>
where
    S: Watched<Object: Send + Sync> + Send + Sync,
{
    fn drop(&mut self) {
        let relist = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(relist) = relist.take() {
            free(relist);
        }
    }
}

impl<S> Pending<S>
where
    S: Watched<Object: Send + Sync> + Send + Sync,
{
    fn begin(store: &Arc<S>) -> Self {
        Self(Mutex::new(Some(Relist::begin(store.clone()))))
    }

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
    PyRuntimeError::new_err("this list is committed; begin another with the store's relist()")
}

#[pyclass(name = "Relist", module = "kubextend.core", frozen)]
pub(crate) struct PyRelist(Pending<NodeStore>);

impl PyRelist {
    pub(crate) fn begin(store: &Arc<NodeStore>) -> Self {
        Self(Pending::begin(store))
    }
}

#[pymethods]
impl PyRelist {
    fn page(&self, py: Python<'_>, list_bytes: &[u8]) -> PyResult<PyListPage> {
        self.0.page(py, list_bytes)
    }

    fn commit(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.commit(py)
    }
}

#[pyclass(name = "PodRelist", module = "kubextend.core", frozen)]
pub(crate) struct PyPodRelist(Pending<PodStore>);

impl PyPodRelist {
    pub(crate) fn begin(store: &Arc<PodStore>) -> Self {
        Self(Pending::begin(store))
    }
}

#[pymethods]
impl PyPodRelist {
    fn page(&self, py: Python<'_>, list_bytes: &[u8]) -> PyResult<PyListPage> {
        self.0.page(py, list_bytes)
    }

    fn commit(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.commit(py)
    }
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

macro_rules! event_getters {
    ($class:ty { $($more:item)* }) => {
        #[pymethods]
        impl $class {
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

            $($more)*
        }
    };
}

#[pyclass(name = "WatchEvent", module = "kubextend.core", frozen)]
pub(crate) struct PyWatchEvent(pub(crate) WatchEvent<Node>);

event_getters!(PyWatchEvent {});

#[pyclass(name = "PodEvent", module = "kubextend.core", frozen)]
pub(crate) struct PyPodEvent(pub(crate) WatchEvent<Pod>);

event_getters!(PyPodEvent {
    #[getter]
    fn namespace(&self) -> &str {
        self.0.object.as_ref().map_or("", |pod| &pod.namespace)
    }

    #[getter]
    fn uid(&self) -> &str {
        self.0.object.as_ref().map_or("", |pod| &pod.uid)
    }

    #[getter]
    fn pod(&self) -> Option<PyPod> {
        self.0.object.clone().map(PyPod)
    }
});
