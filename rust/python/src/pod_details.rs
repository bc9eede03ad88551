//! The Python classes of the details of pods and nodes, such as `PodAffinityTerm`.

use kubextend_core::labels::Selector;
use kubextend_core::node::Condition;
use kubextend_core::pod::{
    LabelSelector, OwnerReference, PodAffinity, PodAffinityTerm, ResourceClaim,
    TopologySpreadConstraint, Volume,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::selector::PySelector;

#[pyclass(name = "PodAffinity", module = "kubextend.core", frozen)]
pub(crate) struct PyPodAffinity {
    affinity: PodAffinity,
    namespace: String,
}

#[pymethods]
impl PyPodAffinity {
    #[getter]
    fn required(&self) -> PyResult<Vec<PyPodAffinityTerm>> {
        let terms = self.affinity.required.iter();
        terms.map(|term| self.term(term)).collect()
    }

    #[getter]
    fn preferred(&self) -> PyResult<Vec<(i32, PyPodAffinityTerm)>> {
        let terms = self.affinity.preferred.iter();
        terms
            .map(|(weight, term)| Ok((*weight, self.term(term)?)))
            .collect()
    }

    fn __repr__(&self) -> String {
        let affinity = &self.affinity;
        let (required, preferred) = (affinity.required.len(), affinity.preferred.len());
        format!("<PodAffinity: {required} required, {preferred} preferred terms>")
    }
}

impl PyPodAffinity {
    pub(crate) fn of(affinity: &PodAffinity, namespace: &str) -> Self {
        Self {
            affinity: affinity.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Source: kube-scheduler v0.37 framework/types.go `getNamespacesFromPodAffinityTerm`
    fn term(&self, term: &PodAffinityTerm) -> PyResult<PyPodAffinityTerm> {
        let own = term.namespaces.is_empty() && term.namespace_selector == LabelSelector::Nothing;
        Ok(PyPodAffinityTerm {
            topology_key: term.topology_key.to_string(),
            selector: selector(&term.selector)?,
            namespaces: if own {
                vec![self.namespace.clone()]
            } else {
                texts(&term.namespaces)
            },
            namespace_selector: selector(&term.namespace_selector)?,
            match_label_keys: texts(&term.match_label_keys),
            mismatch_label_keys: texts(&term.mismatch_label_keys),
        })
    }
}

#[pyclass(name = "PodAffinityTerm", module = "kubextend.core", frozen, get_all)]
pub(crate) struct PyPodAffinityTerm {
    topology_key: String,
    selector: Option<PySelector>,
    namespaces: Vec<String>,
    namespace_selector: Option<PySelector>,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

#[pyclass(
    name = "TopologySpreadConstraint",
    module = "kubextend.core",
    frozen,
    get_all
)]
pub(crate) struct PyTopologySpreadConstraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    selector: Option<PySelector>,
    min_domains: Option<i32>,
    node_affinity_policy: String,
    node_taints_policy: String,
    match_label_keys: Vec<String>,
}

impl PyTopologySpreadConstraint {
    pub(crate) fn of(constraint: &TopologySpreadConstraint) -> PyResult<Self> {
        Ok(Self {
            max_skew: constraint.max_skew,
            topology_key: constraint.topology_key.to_string(),
            when_unsatisfiable: constraint.when_unsatisfiable.to_string(),
            selector: selector(&constraint.selector)?,
            min_domains: constraint.min_domains,
            node_affinity_policy: or(&constraint.node_affinity_policy, "Honor"),
            node_taints_policy: or(&constraint.node_taints_policy, "Ignore"),
            match_label_keys: texts(&constraint.match_label_keys),
        })
    }
}

#[pyclass(name = "OwnerReference", module = "kubextend.core", frozen, get_all)]
pub(crate) struct PyOwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

impl PyOwnerReference {
    pub(crate) fn of(owner: &OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.to_string(),
            kind: owner.kind.to_string(),
            name: owner.name.to_string(),
            uid: owner.uid.to_string(),
            controller: owner.controller,
        }
    }
}

#[pyclass(name = "PodResourceClaim", module = "kubextend.core", frozen, get_all)]
pub(crate) struct PyPodResourceClaim {
    name: String,
    resource_claim_name: String,
    resource_claim_template_name: String,
}

impl PyPodResourceClaim {
    pub(crate) fn of(claim: &ResourceClaim) -> Self {
        Self {
            name: claim.name.to_string(),
            resource_claim_name: claim.claim_name.to_string(),
            resource_claim_template_name: claim.template_name.to_string(),
        }
    }
}

#[pyclass(name = "Volume", module = "kubextend.core", frozen, get_all)]
pub(crate) struct PyVolume {
    name: String,
    source: String,
    claim_name: String,
}

impl PyVolume {
    pub(crate) fn of(volume: &Volume) -> Self {
        Self {
            name: volume.name.to_string(),
            source: volume.source.to_string(),
            claim_name: volume.claim_name.to_string(),
        }
    }
}

#[pyclass(name = "Condition", module = "kubextend.core", frozen, get_all)]
pub(crate) struct PyCondition {
    r#type: String,
    status: String,
    reason: String,
    last_transition_time: String,
}

impl PyCondition {
    pub(crate) fn each(conditions: &[Condition]) -> Vec<Self> {
        let each = |condition: &Condition| Self {
            r#type: condition.kind.to_string(),
            status: condition.status.to_string(),
            reason: condition.reason.to_string(),
            last_transition_time: condition.last_transition_time.to_string(),
        };
        conditions.iter().map(each).collect()
    }
}

fn selector(selector: &LabelSelector) -> PyResult<Option<PySelector>> {
    match selector {
        LabelSelector::Nothing => Ok(None),
        LabelSelector::Of(selector) => Ok(Some(PySelector(Selector::clone(selector)))),
        LabelSelector::Invalid(why) => Err(PyValueError::new_err(why.to_string())),
    }
}

fn texts(texts: &[Box<str>]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn or(text: &str, absent: &str) -> String {
    (if text.is_empty() { absent } else { text }).to_owned()
}
