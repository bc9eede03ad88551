//! The Python class `ExtenderArgs`, and `read_args`, which parses a filter or prioritize request.

use std::sync::Arc;

use kubextend_core::node::{NodeTable, Rejection};
use kubextend_core::wire::{self, ExtenderArgs};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::body::{self, PyBodyPool, RequestBody};
use crate::error::Unreadable;
use crate::freeing::{MANY, free};
use crate::int64;
use crate::mask::PyMask;
use crate::nodes::PyNodes;
use crate::pod::PyPod;
use crate::store::{self, PyNodeStore, PyRequestStore};

#[pyclass(name = "ExtenderArgs", module = "kubextend.core", frozen)]
pub(crate) struct PyExtenderArgs {
    /// None only while it is dropped.
    args: Option<ExtenderArgs>,
    table: Option<Arc<NodeTable>>,
}

#[pyfunction]
#[pyo3(signature = (body, store = None, *, watched = None))]
pub(crate) fn read_args(
    py: Python<'_>,
    body: RequestBody,
    store: Option<&PyRequestStore>,
    watched: Option<&PyNodeStore>,
) -> Result<PyExtenderArgs, Unreadable> {
    let table = store::named(store, watched).cloned();
    let store = store.map(|store| &*store.0);
    let watched = watched.map(|watched| &*watched.0);
    let args = py.detach(|| wire::read_args(body.into(), store, watched))?;
    let args = Some(args);
    Ok(PyExtenderArgs { args, table })
}

impl Drop for PyExtenderArgs {
    fn drop(&mut self) {
        if self.nodes_len() >= MANY {
            free(self.args.take());
        }
    }
}

impl PyExtenderArgs {
    fn args(&self) -> &ExtenderArgs {
        self.args.as_ref().expect("there until it is dropped")
    }

    fn nodes_len(&self) -> usize {
        self.args().nodes().map_or(0, |nodes| nodes.len())
    }

    fn rejection(&self, nodes: &PyMask, reason: &str, unresolvable: bool) -> PyResult<Rejection> {
        nodes.expect_len(self.nodes_len())?;
        Ok(Rejection {
            nodes: nodes.0.clone(),
            reason: reason.to_owned().into(),
            unresolvable,
        })
    }

    fn written<'py>(
        &self,
        py: Python<'py>,
        rejections: &[Rejection],
        pool: Option<&PyBodyPool>,
        told: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (answer, size) = py.detach(|| {
            let answer = self.args().filter_result(rejections);
            let answer = if told { answer } else { answer.kept_only() };
            let size = answer.size();
            (answer, size)
        });
        body::answer(py, pool, size, |sink| {
            answer.write_to(|bytes| sink.put(bytes));
        })
    }
}

#[pymethods]
impl PyExtenderArgs {
    #[getter]
    fn pod(&self) -> Option<PyPod> {
        self.args().pod().cloned().map(PyPod)
    }

    #[getter]
    fn nodes(&self) -> Option<PyNodes> {
        // Only names are looked up again; the nodes of a full request are its own.
        let table = self.table.clone().filter(|_| self.args().names_mode());
        let nodes = self.args().nodes().cloned();
        nodes.map(|nodes| PyNodes::of(nodes, table))
    }

    #[getter]
    fn names_mode(&self) -> bool {
        self.args().names_mode()
    }

    #[pyo3(signature = (kept, reason, unresolvable = true))]
    fn filter_result<'py>(
        &self,
        py: Python<'py>,
        kept: &PyMask,
        reason: &str,
        unresolvable: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rejected = PyMask(!&kept.0);
        let rejection = self.rejection(&rejected, reason, unresolvable)?;
        self.written(py, &[rejection], None, true)
    }

    #[pyo3(signature = (rejections, pool = None, *, told = true))]
    fn filter_answer<'py>(
        &self,
        py: Python<'py>,
        rejections: Vec<(PyRef<'py, PyMask>, String, bool)>,
        pool: Option<&PyBodyPool>,
        told: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        if rejections.len() >= usize::from(u16::MAX) {
            return Err(PyValueError::new_err("more than 65,534 rejections"));
        }
        let rejections = rejections
            .iter()
            .map(|(nodes, reason, unresolvable)| self.rejection(nodes, reason, *unresolvable))
            .collect::<PyResult<Vec<_>>>()?;
        self.written(py, &rejections, pool, told)
    }

    fn prioritize_result<'py>(
        &self,
        py: Python<'py>,
        scores: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let scores = int64::from_python(scores)?;
        let scores: &[i64] = &scores;
        if scores.len() != self.nodes_len() {
            let message = format!("{} scores for {} nodes", scores.len(), self.nodes_len());
            return Err(PyValueError::new_err(message));
        }
        let answer = py.detach(|| self.args().prioritize_result(scores));
        Ok(PyBytes::new(py, &answer))
    }
}
