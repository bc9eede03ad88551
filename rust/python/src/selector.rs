//! The Python class `Selector`: a parsed label selector.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use kubextend_core::labels::{Operator, Selector};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

#[pyclass(name = "Selector", module = "kubextend.core", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PySelector(pub(crate) Selector);

#[pymethods]
impl PySelector {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        parse(text).map(Self)
    }

    fn matches(&self, labels: &Bound<'_, PyMapping>) -> PyResult<bool> {
        let labels = labels.items()?.extract::<Vec<(String, String)>>()?;
        Ok(self.0.matches(&BTreeMap::from_iter(labels)))
    }

    #[getter]
    fn requirements(&self) -> Vec<(&str, &'static str, &[String])> {
        let requirements = self.0.requirements().iter();
        requirements
            .map(|each| (each.key(), operator_name(each.operator()), each.values()))
            .collect()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Selector({:?})", self.0.to_string())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the name that the operator has in the label selectors and affinities of the API.
fn operator_name(operator: Operator) -> &'static str {
    match operator {
        Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
        Operator::NotIn | Operator::NotEquals => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::GreaterThan => "Gt",
        Operator::LessThan => "Lt",
    }
}

pub(crate) fn parse(text: &str) -> PyResult<Selector> {
    Selector::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the label selector that Python passes, as a `Selector` or as text.
pub(crate) fn from_python(selector: &Bound<'_, PyAny>) -> PyResult<Selector> {
    match selector.cast::<PySelector>() {
        Ok(compiled) => Ok(compiled.get().0.clone()),
        Err(_) => parse(selector.extract()?),
    }
}
