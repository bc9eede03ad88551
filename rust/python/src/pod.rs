//! The Python class `Pod`.

use std::sync::Arc;

use kubextend_core::labels::{NodeSelectorRequirement, NodeSelectorTerm};
use kubextend_core::pod::{Amounts, Container, Pod, PodDetails};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

use crate::error::{TruncatedPodError, undeclared};
use crate::pod_details::{
    PyCondition, PyOwnerReference, PyPodAffinity, PyPodResourceClaim, PyTopologySpreadConstraint,
    PyVolume,
};
use crate::selector;

const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[pyclass(name = "Pod", module = "kubextend.core", frozen)]
pub(crate) struct PyPod(pub(crate) Arc<Pod>);

type Requirement = (String, String, Vec<String>);
type Term = (Vec<Requirement>, Vec<Requirement>);

impl PyPod {
    /// Returns the pod if the store keeps its tolerations, node selector, node affinity and
    /// annotations, else a `TruncatedPodError`: if these parts were read as empty, the pod could go
    /// onto any node.
    pub(crate) fn whole(&self) -> PyResult<&Pod> {
        let rare = "tolerations, node selector, node affinity and annotations";
        self.unless(self.0.missing.rare, rare)
    }

    /// Returns the pod if the store keeps all of its parts, else a `TruncatedPodError`.
    pub(crate) fn complete(&self) -> PyResult<&Pod> {
        self.unless(self.0.missing.any(), "largest parts")
    }

    /// Returns the pod, or a `TruncatedPodError` that names `parts` if they are `missing`.
    fn unless(&self, missing: bool, parts: &str) -> PyResult<&Pod> {
        if missing {
            return Err(self.without(parts));
        }
        Ok(&self.0)
    }

    /// Returns the `TruncatedPodError` to raise when Python reads parts that are not kept.
    pub(crate) fn without(&self, parts: &str) -> PyErr {
        TruncatedPodError::new_err(format!(
            "pod {}/{} is kept without its {parts}, which are too large; make them smaller",
            self.0.namespace, self.0.name
        ))
    }

    fn labelled(&self) -> PyResult<&Pod> {
        self.unless(self.0.missing.labels, "labels")
    }

    fn with_resources(&self) -> PyResult<&Pod> {
        self.unless(self.0.missing.resources, "requests and overhead")
    }

    /// Returns the details of the pod; `what` is the field that Python reads.
    pub(crate) fn details(&self, what: &str) -> PyResult<&PodDetails> {
        let pod = self.unless(self.0.missing.details, "details")?;
        pod.details()
            .ok_or_else(|| undeclared(&format!("{what} of pods"), "needs_details"))
    }

    fn with_containers(&self) -> PyResult<&Pod> {
        self.unless(self.0.missing.containers, "containers")
    }
}

#[pymethods]
impl PyPod {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn namespace(&self) -> &str {
        &self.0.namespace
    }

    #[getter]
    fn uid(&self) -> &str {
        &self.0.uid
    }

    #[getter]
    fn scheduler_name(&self) -> &str {
        match &*self.0.scheduler_name {
            "" => DEFAULT_SCHEDULER,
            name => name,
        }
    }

    #[getter]
    fn node_name(&self) -> &str {
        &self.0.node_name
    }

    #[getter]
    fn priority(&self) -> Option<i32> {
        self.0.priority
    }

    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.labelled()?.labels)
    }

    #[getter]
    fn annotations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.whole()?.annotations)
    }

    #[getter]
    fn node_selector<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.whole()?.required.node_selector)
    }

    #[getter]
    fn tolerations(&self) -> PyResult<Vec<(&str, &str, &str, &str)>> {
        let tolerations = self.whole()?.tolerations.iter();
        Ok(tolerations
            .map(|t| (&*t.key, &*t.operator, &*t.value, &*t.effect))
            .collect())
    }

    #[getter]
    fn required_terms(&self) -> PyResult<Option<Vec<Term>>> {
        let terms = self.whole()?.required.terms.as_ref();
        Ok(terms.map(|terms| terms.iter().map(term).collect()))
    }

    #[getter]
    fn preferred_terms(&self) -> PyResult<Vec<(i32, Term)>> {
        let terms = self.whole()?.preferred.iter();
        Ok(terms
            .map(|weighted| (weighted.weight, term(&weighted.preference)))
            .collect())
    }

    #[getter]
    fn pod_affinity(&self) -> PyResult<PyPodAffinity> {
        let affinity = &self.details("pod_affinity")?.template.affinity;
        Ok(PyPodAffinity::of(affinity, &self.0.namespace))
    }

    #[getter]
    fn pod_anti_affinity(&self) -> PyResult<PyPodAffinity> {
        let affinity = &self.details("pod_anti_affinity")?.template.anti_affinity;
        Ok(PyPodAffinity::of(affinity, &self.0.namespace))
    }

    #[getter]
    fn topology_spread_constraints(&self) -> PyResult<Vec<PyTopologySpreadConstraint>> {
        let details = self.details("topology_spread_constraints")?;
        let constraints = details.template.spread_constraints.iter();
        constraints.map(PyTopologySpreadConstraint::of).collect()
    }

    #[getter]
    fn volumes(&self) -> PyResult<Vec<PyVolume>> {
        let volumes = self.details("volumes")?.volumes.iter();
        Ok(volumes.map(PyVolume::of).collect())
    }

    #[getter]
    fn claim_names(&self) -> PyResult<Vec<&str>> {
        self.details("claim_names")?;
        Ok(self.0.claim_names().collect())
    }

    #[getter]
    fn owner_references(&self) -> PyResult<Vec<PyOwnerReference>> {
        let details = self.details("owner_references")?;
        let owners = details.template.owner_references.iter();
        Ok(owners.map(PyOwnerReference::of).collect())
    }

    #[getter]
    fn controller(&self) -> PyResult<Option<PyOwnerReference>> {
        let details = self.details("controller")?;
        let mut owners = details.template.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        Ok(controller.map(PyOwnerReference::of))
    }

    #[getter]
    pub(crate) fn host_ports(&self) -> PyResult<Vec<(&str, &str, i32)>> {
        let ports = self.details("host_ports")?.template.host_ports.iter();
        Ok(ports
            .map(|port| (&*port.ip, &*port.protocol, port.port))
            .collect())
    }

    #[getter]
    fn images(&self) -> PyResult<Vec<&str>> {
        let images = self.details("images")?.template.images.iter();
        Ok(images.map(|image| &**image).collect())
    }

    #[getter]
    fn runtime_class_name(&self) -> PyResult<&str> {
        let details = self.details("runtime_class_name")?;
        Ok(&details.template.runtime_class_name)
    }

    #[getter]
    fn resource_claims(&self) -> PyResult<Vec<PyPodResourceClaim>> {
        let details = self.details("resource_claims")?;
        let claims = details.template.resource_claims.iter();
        Ok(claims.map(PyPodResourceClaim::of).collect())
    }

    #[getter]
    fn conditions(&self) -> PyResult<Vec<PyCondition>> {
        Ok(PyCondition::each(&self.details("conditions")?.conditions))
    }

    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let raw = self.unless(self.0.missing.raw, "JSON")?.raw();
        let raw = raw.ok_or_else(|| undeclared("raw of pods", "needs_raw"))?;
        Ok(PyBytes::new(py, raw))
    }

    #[getter]
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        amounts(py, &self.with_resources()?.requests)
    }

    fn request(&self, resource: &str) -> PyResult<i64> {
        if let Some(kept) = self.0.requests.get(resource) {
            return Ok(kept);
        }
        self.with_resources().map(|_| 0)
    }

    #[getter]
    fn overhead<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        amounts(py, &self.with_resources()?.overhead)
    }

    #[getter]
    fn containers(&self) -> PyResult<Vec<PyContainer>> {
        Ok(PyContainer::each(&self.with_containers()?.containers))
    }

    #[getter]
    fn init_containers(&self) -> PyResult<Vec<PyContainer>> {
        Ok(PyContainer::each(&self.with_containers()?.init_containers))
    }

    #[getter]
    fn scheduling_gates(&self) -> Vec<&str> {
        self.0.scheduling_gates.iter().map(|gate| &**gate).collect()
    }

    #[getter]
    fn scheduling_group(&self) -> &str {
        &self.0.scheduling_group
    }

    #[getter]
    fn phase(&self) -> &str {
        &self.0.phase
    }

    #[getter]
    fn qos_class(&self) -> &str {
        &self.0.qos_class
    }

    #[getter]
    fn scheduled_reason(&self) -> &str {
        &self.0.scheduled_reason
    }

    #[getter]
    fn nominated_node_name(&self) -> &str {
        &self.0.nominated_node_name
    }

    #[getter]
    fn generation(&self) -> i64 {
        self.0.generation
    }

    #[getter]
    fn creation_timestamp(&self) -> &str {
        &self.0.creation_timestamp
    }

    #[getter]
    fn deletion_timestamp(&self) -> Option<&str> {
        self.0.deletion_timestamp.as_deref()
    }

    #[getter]
    fn start_time(&self) -> Option<&str> {
        self.0.start_time.as_deref()
    }

    #[getter]
    fn truncated(&self) -> bool {
        self.0.missing.any()
    }

    fn matches(&self, selector: &Bound<'_, PyAny>) -> PyResult<bool> {
        let selector = selector::from_python(selector)?;
        Ok(selector.matches(&self.labelled()?.label_lookup()))
    }

    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    fn __repr__(&self) -> String {
        format!("<Pod {}/{}>", self.0.namespace, self.0.name)
    }
}

#[pyclass(name = "Container", module = "kubextend.core", frozen)]
pub(crate) struct PyContainer(Container);

impl PyContainer {
    fn each(containers: &[Container]) -> Vec<Self> {
        containers.iter().cloned().map(Self).collect()
    }
}

#[pymethods]
impl PyContainer {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        amounts(py, &self.0.requests)
    }

    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        amounts(py, &self.0.limits)
    }

    #[getter]
    fn sidecar(&self) -> bool {
        self.0.sidecar
    }

    fn __repr__(&self) -> String {
        format!("<Container {}>", self.0.name)
    }
}

pub(crate) fn amounts<'py>(py: Python<'py>, amounts: &Amounts) -> PyResult<Bound<'py, PyDict>> {
    amounts
        .iter()
        .map(|(resource, amount)| (&**resource, amount))
        .into_py_dict(py)
}

fn dict<'py>(py: Python<'py>, sorted: &[(String, String)]) -> PyResult<Bound<'py, PyDict>> {
    sorted
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .into_py_dict(py)
}

fn term(term: &NodeSelectorTerm) -> Term {
    (
        requirements(&term.match_expressions),
        requirements(&term.match_fields),
    )
}

fn requirements(of_term: &[NodeSelectorRequirement]) -> Vec<Requirement> {
    let tuple = |r: &NodeSelectorRequirement| (r.key.clone(), r.operator.clone(), r.values.clone());
    of_term.iter().map(tuple).collect()
}
