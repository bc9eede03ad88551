//! The Python functions `normalize`, `checked_scores`, `weigh` and `highest`.

use kubextend_core::score;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::int64::{self, Int64s};

#[pyfunction]
#[pyo3(signature = (scores, maximum = 100, reverse = false))]
pub(crate) fn normalize<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    maximum: i64,
    reverse: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let values = int64::from_python(scores)?;
    let values: &[i64] = &values;
    let normalize = |scaled: &mut [i64]| score::normalize(values, maximum, reverse, scaled);
    if scores.is_instance_of::<PyList>() {
        let mut scaled = vec![0; values.len()];
        normalize(&mut scaled);
        return Ok(PyList::new(py, scaled)?.into_any());
    }
    int64::view_with(py, values.len(), normalize)
}

#[pyfunction]
#[pyo3(signature = (parts, scale = "additive"))]
pub(crate) fn weigh<'py>(
    py: Python<'py>,
    parts: Vec<(Bound<'py, PyAny>, i64)>,
    scale: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let weigh = match scale {
        "additive" => score::weigh_additive,
        "strict10" => score::weigh_strict10,
        other => {
            let message = format!("scale must be 'additive' or 'strict10', not {other:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let parts = parts
        .iter()
        .map(|(scores, weight)| Ok((int64::from_python(scores)?, *weight)))
        .collect::<PyResult<Vec<_>>>()?;
    let Some(len) = parts.first().map(|(scores, _)| scores.len()) else {
        return Err(PyValueError::new_err("no scores to weigh"));
    };
    if parts.iter().any(|(scores, _)| scores.len() != len) {
        return Err(PyValueError::new_err("parts of unequal length"));
    }
    let slices: Vec<(&[i64], i64)> = parts.iter().map(|(s, weight)| (&**s, *weight)).collect();
    int64::view_with(py, len, |weighed| weigh(&slices, weighed))
}

#[pyfunction]
#[pyo3(signature = (scores, minimum = 0, maximum = 100))]
pub(crate) fn checked_scores<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    minimum: i64,
    maximum: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let values = int64::from_python(scores)?;
    if let Some(score) = values
        .iter()
        .find(|score| !(minimum..=maximum).contains(score))
    {
        let message = format!("score {score} is outside [{minimum}, {maximum}]");
        return Err(PyValueError::new_err(message));
    }
    match values {
        Int64s::Shared(_) => Ok(scores.clone()),
        Int64s::Copied(values) => int64::view(py, &values),
    }
}

#[pyfunction]
pub(crate) fn highest(scores: &Bound<'_, PyAny>, most: usize) -> PyResult<Vec<usize>> {
    Ok(score::highest(&int64::from_python(scores)?, most))
}
