//! The Python class `PreemptionArgs`: a parsed preempt request.

use std::sync::Arc;

use kubextend_core::node::{Body, NodeTable};
use kubextend_core::wire::{self, PreemptionArgs};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::body::RequestBody;
use crate::error::Unreadable;
use crate::mask::PyMask;
use crate::nodes::PyNodes;
use crate::pod::PyPod;
use crate::pod_store::PyPodSnapshot;
use crate::store::{self, PyNodeStore, PyRequestStore};

#[pyclass(name = "PreemptionArgs", module = "kubextend.core", frozen)]
pub(crate) struct PyPreemptionArgs {
    args: PreemptionArgs,
    table: Option<Arc<NodeTable>>,
}

#[pyfunction]
#[pyo3(signature = (body, store = None, *, watched = None))]
pub(crate) fn read_preemption_args(
    py: Python<'_>,
    body: RequestBody,
    store: Option<&PyRequestStore>,
    watched: Option<&PyNodeStore>,
) -> Result<PyPreemptionArgs, Unreadable> {
    let table = store::named(store, watched);
    let body = Body::from(body);
    let args =
        py.detach(|| wire::read_preemption_args(body.bytes(), table.map(|table| &**table)))?;
    Ok(PyPreemptionArgs {
        args,
        table: table.cloned(),
    })
}

#[pymethods]
impl PyPreemptionArgs {
    #[getter]
    fn pod(&self) -> Option<PyPod> {
        self.args.pod().cloned().map(PyPod)
    }

    #[getter]
    fn nodes(&self) -> PyNodes {
        PyNodes::of(self.args.nodes().clone(), self.table.clone())
    }

    #[getter]
    fn victims(&self) -> Vec<(Vec<String>, i64)> {
        let victims = self.args.victims().iter();
        victims
            .map(|of_node| (of_node.uids.clone(), of_node.pdb_violations))
            .collect()
    }

    #[getter]
    fn elsewhere(&self) -> Vec<Vec<(String, String)>> {
        let victims = self.args.victims().iter();
        victims.map(|of_node| of_node.elsewhere.clone()).collect()
    }

    fn pods_left(&self, py: Python<'_>, pods: &PyPodSnapshot) -> PyPodSnapshot {
        PyPodSnapshot(Arc::new(py.detach(|| self.args.pods_left(&pods.0))))
    }

    fn result<'py>(&self, py: Python<'py>, kept: &PyMask) -> PyResult<Bound<'py, PyBytes>> {
        kept.expect_len(self.args.nodes().len())?;
        let answer = py.detach(|| self.args.result(&kept.0));
        Ok(PyBytes::new(py, &answer))
    }
}
