//! The Python class `NativePlugin`: a plugin that runs in the core.

use std::collections::HashSet;
use std::sync::LazyLock;

use kubextend_core::plugins::{
    FilterRule, LabelMatch, NativePlugin, NodeResourcesBalancedAllocation, NodeResourcesFit,
    ScoreRule, Strategy,
};
use kubextend_core::pod::PodSnapshot;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::int64;
use crate::mask::PyMask;
use crate::nodes::{PyNodes, no_pods};
use crate::pod::PyPod;
use crate::pod_store::PyPodSnapshot;
use crate::selector::parse;

#[pyclass(name = "NativePlugin", module = "kubextend.core", frozen)]
pub(crate) struct PyNativePlugin(NativePlugin);

#[pymethods]
impl PyNativePlugin {
    #[staticmethod]
    fn named(name: &str) -> PyResult<Self> {
        NativePlugin::named(name).map(Self).ok_or_else(|| {
            let known = NativePlugin::NAMED.join(", ");
            PyValueError::new_err(format!("no native plugin {name:?}; there are {known}"))
        })
    }

    #[staticmethod]
    #[pyo3(signature = (filters = Vec::new(), scores = Vec::new()))]
    fn label_match(
        filters: Vec<(String, String, String)>,
        scores: Vec<(String, String, i64)>,
    ) -> PyResult<Self> {
        let filter = |(pod, node, reason): (String, String, String)| {
            Ok(FilterRule {
                pod: parse(&pod)?,
                node: parse(&node)?,
                reason,
            })
        };
        let score = |(pod, node, score): (String, String, i64)| {
            Ok(ScoreRule {
                pod: parse(&pod)?,
                node: parse(&node)?,
                score,
            })
        };
        let filters = filters.into_iter().map(filter).collect::<PyResult<_>>()?;
        let scores = scores.into_iter().map(score).collect::<PyResult<_>>()?;
        Ok(Self(NativePlugin::LabelMatch(LabelMatch::new(
            filters, scores,
        ))))
    }

    #[staticmethod]
    fn node_resources_fit(
        strategy: &str,
        resources: Vec<(String, i64)>,
        shape: Vec<(i64, i64)>,
        ignored: HashSet<String>,
        ignored_groups: HashSet<String>,
    ) -> PyResult<Self> {
        let strategy = match strategy {
            "LeastAllocated" => Strategy::LeastAllocated,
            "MostAllocated" => Strategy::MostAllocated,
            "RequestedToCapacityRatio" => Strategy::RequestedToCapacityRatio(shape),
            other => return Err(PyValueError::new_err(format!("no strategy {other:?}"))),
        };
        Ok(Self(NativePlugin::NodeResourcesFit(NodeResourcesFit {
            strategy,
            resources,
            ignored,
            ignored_groups,
        })))
    }

    #[staticmethod]
    fn node_resources_balanced_allocation(resources: Vec<(String, i64)>) -> Self {
        let plugin = NodeResourcesBalancedAllocation { resources };
        Self(NativePlugin::NodeResourcesBalancedAllocation(plugin))
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    #[getter]
    fn extension_points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let filter = self.0.as_filter().map(|_| "filter");
        let score = self.0.as_score().map(|_| "score");
        PyTuple::new(
            py,
            [filter, score].into_iter().flatten().collect::<Vec<_>>(),
        )
    }

    #[pyo3(signature = (pod, nodes, pods = None))]
    fn filter_nodes(
        &self,
        py: Python<'_>,
        pod: &PyPod,
        nodes: &PyNodes,
        pods: Option<&PyPodSnapshot>,
    ) -> PyResult<Vec<(PyMask, String, bool)>> {
        let filter = self.0.as_filter().ok_or_else(|| self.lacks("Filter"))?;
        let pod = pod.complete()?;
        let pods = self.shown(pods)?;
        let rejections = py.detach(|| filter.filter(pod, &nodes.nodes, pods));
        Ok(rejections
            .into_iter()
            .map(|r| (PyMask(r.nodes), r.reason.into_owned(), r.unresolvable))
            .collect())
    }

    #[pyo3(signature = (pod, nodes, pods = None))]
    fn score_nodes<'py>(
        &self,
        py: Python<'py>,
        pod: &PyPod,
        nodes: &PyNodes,
        pods: Option<&PyPodSnapshot>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let score = self.0.as_score().ok_or_else(|| self.lacks("Score"))?;
        let pod = pod.complete()?;
        let pods = self.shown(pods)?;
        let scores = py.detach(|| score.score(pod, &nodes.nodes, pods));
        int64::view(py, &scores)
    }

    fn __repr__(&self) -> String {
        format!("<NativePlugin {}>", self.0.name())
    }
}

static NO_PODS: LazyLock<PodSnapshot> = LazyLock::new(PodSnapshot::default);

impl PyNativePlugin {
    /// Returns the pods that the plugin sees.
    ///
    /// # Errors
    /// The plugin counts what pods have in use, and there are no pods: each node would seem empty.
    fn shown<'a>(&self, pods: Option<&'a PyPodSnapshot>) -> PyResult<&'a PodSnapshot> {
        match pods {
            Some(pods) => Ok(&pods.0),
            None if self.0.needs_pods() => Err(no_pods()),
            None => Ok(&NO_PODS),
        }
    }

    fn lacks(&self, point: &str) -> PyErr {
        // The scheduler's own sentence.
        let name = self.0.name();
        PyValueError::new_err(format!(
            "plugin {name:?} does not extend {point}Plugin plugin"
        ))
    }
}
