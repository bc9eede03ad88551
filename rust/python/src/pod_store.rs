//! The Python classes `PodStore` and `PodSnapshot`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kubextend_core::labels::Selector;
use kubextend_core::node::Parts;
use kubextend_core::pod::{Counted, Keeping, Pod, PodSnapshot, PodStore, Unassumable, Unlabelled};
use kubextend_core::wire;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Unreadable;
use crate::freeing::free_last;
use crate::int64;
use crate::mask::PyMask;
use crate::nodes::PyNodes;
use crate::pod::{PyPod, amounts};
use crate::selector;
use crate::watch::{self, PyPodEvent, PyPodRelist};

#[pyclass(name = "PodStore", module = "kubextend.core", frozen)]
pub(crate) struct PyPodStore(Arc<PodStore>);

#[pymethods]
impl PyPodStore {
    #[new]
    #[pyo3(signature = (*, annotations = None, max_pod_bytes = None, details = false, raw = false))]
    fn new(
        annotations: Option<Vec<String>>,
        max_pod_bytes: Option<usize>,
        details: bool,
        raw: bool,
    ) -> Self {
        Self(Arc::new(PodStore::keeping(Keeping {
            annotations: annotations.map(BTreeSet::from_iter),
            max_pod_bytes,
            parts: Parts { details, raw },
        })))
    }

    fn replace(&self, py: Python<'_>, list_bytes: &[u8]) -> Result<String, Unreadable> {
        watch::replace(py, &self.0, list_bytes)
    }

    fn relist(&self) -> PyPodRelist {
        PyPodRelist::begin(&self.0)
    }

    fn apply(&self, py: Python<'_>, event_bytes: &[u8]) -> Result<PyPodEvent, Unreadable> {
        let event = py.detach(|| wire::apply(&*self.0, event_bytes))?;
        Ok(PyPodEvent(event))
    }

    // A call that may wait for the store's writer releases the GIL.

    fn get(&self, py: Python<'_>, uid: &str) -> Option<PyPod> {
        py.detach(|| self.0.get(uid)).map(PyPod)
    }

    fn by_name(&self, py: Python<'_>, namespace: &str, name: &str) -> Option<PyPod> {
        py.detach(|| self.0.by_name(namespace, name)).map(PyPod)
    }

    fn pods(&self, py: Python<'_>) -> Vec<PyPod> {
        listed(&py.detach(|| self.0.pods()))
    }

    fn with_label(
        &self,
        py: Python<'_>,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> PyResult<Vec<PyPod>> {
        let found = py.detach(|| self.0.with_label(namespace, key, value));
        found.map(|pods| listed(&pods)).map_err(unlabelled)
    }

    fn assume(&self, py: Python<'_>, pod: &PyPod, node: &str) -> PyResult<()> {
        py.detach(|| self.0.assume(&pod.0, node))
            .map_err(|error: Unassumable| PyValueError::new_err(error.to_string()))
    }

    fn forget(&self, py: Python<'_>, uid: &str) -> bool {
        py.detach(|| self.0.forget(uid))
    }

    fn assumed(&self, py: Python<'_>) -> Vec<(PyPod, String)> {
        let assumed = py.detach(|| self.0.assumed());
        assumed
            .into_iter()
            .map(|pod| (PyPod(pod.clone()), pod.node_name.to_string()))
            .collect()
    }

    fn snapshot(&self, py: Python<'_>) -> PyPodSnapshot {
        PyPodSnapshot(py.detach(|| self.0.snapshot()))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.len())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<PodStore: {} pods>", self.__len__(py))
    }
}

#[pyclass(name = "PodSnapshot", module = "kubextend.core", frozen)]
pub(crate) struct PyPodSnapshot(pub(crate) Arc<PodSnapshot>);

impl Drop for PyPodSnapshot {
    fn drop(&mut self) {
        free_last(&mut self.0, PodSnapshot::len);
    }
}

#[pymethods]
impl PyPodSnapshot {
    fn pods_on(&self, node: &str) -> Vec<PyPod> {
        listed(&self.0.pods_on(node))
    }

    fn pod_on(&self, node: &str, uid: &str) -> Option<PyPod> {
        self.0.pod_on(node, uid).map(PyPod)
    }

    fn started_after(
        &self,
        py: Python<'_>,
        nodes: &PyNodes,
        time: &str,
    ) -> HashMap<usize, Vec<PyPod>> {
        let late = py.detach(|| self.0.started_after(&nodes.nodes, time));
        let late = late.into_iter();
        late.map(|(at, pods)| (at, listed(&pods))).collect()
    }

    fn nominated(&self, py: Python<'_>, pod: &PyPod, nodes: &PyNodes) -> Option<PyMask> {
        let mask = py.detach(|| self.0.nominated(&pod.0, &nodes.nodes));
        mask.map(PyMask)
    }

    fn with_nominated(
        &self,
        py: Python<'_>,
        pod: &PyPod,
        nodes: &PyNodes,
        some: &PyMask,
    ) -> PyResult<Self> {
        some.expect_len(nodes.nodes.len())?;
        let filled = py.detach(|| self.0.with_nominated(&pod.0, &nodes.nodes, &some.0));
        Ok(Self(Arc::new(filled)))
    }

    fn with_places(&self, py: Python<'_>, places: Vec<(PyRef<'_, PyPod>, String)>) -> Self {
        let places: Vec<(Arc<Pod>, &str)> = places
            .iter()
            .map(|(pod, node)| (pod.0.clone(), &**node))
            .collect();
        Self(Arc::new(py.detach(|| self.0.with_places(&places))))
    }

    fn before(&self, py: Python<'_>, later: Vec<(String, Vec<String>)>) -> Self {
        let later: Vec<_> = later
            .iter()
            .map(|(node, uids)| (&**node, &**uids))
            .collect();
        Self(Arc::new(py.detach(|| self.0.before(&later))))
    }

    fn placed_with_label(&self, namespace: &str, key: &str, value: &str) -> PyResult<Vec<PyPod>> {
        let found = self.0.placed_with_label(namespace, key, value);
        found.map(|pods| listed(&pods)).map_err(unlabelled)
    }

    fn these(&self, py: Python<'_>, pods: Vec<PyRef<'_, PyPod>>) -> Vec<PyPod> {
        let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| pod.0.clone()).collect();
        listed(&py.detach(|| self.0.these(&pods)))
    }

    #[pyo3(signature = (nodes, selector = None, *, namespaces = None, terminating = true))]
    fn count<'py>(
        &self,
        py: Python<'py>,
        nodes: &PyNodes,
        selector: Option<&Bound<'py, PyAny>>,
        namespaces: Option<Vec<String>>,
        terminating: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let counted = counted(selector, namespaces, terminating)?;
        let counts = py.detach(|| self.0.count(&nodes.nodes, &counted));
        int64::view(py, &counts.map_err(unlabelled)?)
    }

    #[pyo3(signature = (
        topology_key,
        nodes,
        selector = None,
        *,
        namespaces = None,
        terminating = true,
        among = None,
    ))]
    // Python gives all but the first two by name.
    #[allow(clippy::too_many_arguments)]
    fn count_by<'py>(
        &self,
        py: Python<'py>,
        topology_key: &str,
        nodes: &PyNodes,
        selector: Option<&Bound<'py, PyAny>>,
        namespaces: Option<Vec<String>>,
        terminating: bool,
        among: Option<&PyNodes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let counted = counted(selector, namespaces, terminating)?;
        let among = among.unwrap_or(nodes);
        let counts = py.detach(|| {
            let (nodes, among) = (&nodes.nodes, &among.nodes);
            self.0.count_by(nodes, topology_key, &counted, among)
        });
        int64::view(py, &counts.map_err(unlabelled)?)
    }

    fn requested<'py>(
        &self,
        py: Python<'py>,
        nodes: &PyNodes,
        resource: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = py.detach(|| self.0.requested(&nodes.nodes, resource));
        int64::view(py, &values)
    }

    #[pyo3(signature = (namespace, only=None))]
    fn requested_in<'py>(
        &self,
        py: Python<'py>,
        namespace: &str,
        only: Option<BTreeSet<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let requested = py.detach(|| self.0.requested_in(namespace, only.as_ref()));
        let untold = |pod| PyPod(pod).without("requests");
        amounts(py, &requested.map_err(untold)?)
    }

    fn nominated_pods(&self) -> Vec<PyPod> {
        listed(&self.0.nominated_pods())
    }

    fn terminating<'py>(&self, py: Python<'py>, nodes: &PyNodes) -> PyResult<Bound<'py, PyAny>> {
        let counts = py.detach(|| self.0.terminating(&nodes.nodes));
        int64::view(py, &counts)
    }

    fn nominated_to<'py>(&self, py: Python<'py>, nodes: &PyNodes) -> PyResult<Bound<'py, PyAny>> {
        let counts = py.detach(|| self.0.nominated_to(&nodes.nodes));
        int64::view(py, &counts)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<PodSnapshot: {} pods>", self.0.len())
    }
}

fn counted(
    selector: Option<&Bound<'_, PyAny>>,
    namespaces: Option<Vec<String>>,
    terminating: bool,
) -> PyResult<Counted> {
    let selector = match selector {
        Some(selector) => selector::from_python(selector)?,
        None => Selector::default(),
    };
    let namespaces = namespaces.map(|mut namespaces| {
        namespaces.sort_unstable();
        namespaces
    });
    Ok(Counted {
        selector,
        namespaces,
        terminating,
    })
}

fn unlabelled(Unlabelled(pod): Unlabelled) -> PyErr {
    PyPod(pod).without("labels")
}

fn listed(pods: &[Arc<Pod>]) -> Vec<PyPod> {
    pods.iter().cloned().map(PyPod).collect()
}
