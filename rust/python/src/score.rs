//! `normalize` and `weigh`

use kubextend_core::score;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::int64;

#[pyfunction]
#[pyo3(signature = (scores, maximum = 100, reverse = false))]
pub(crate) fn normalize<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    maximum: i64,
    reverse: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut values = int64::from_python(scores)?;
    py.detach(|| score::normalize(&mut values, maximum, reverse));
    if scores.is_instance_of::<PyList>() {
        return Ok(PyList::new(py, values)?.into_any());
    }
    int64::view(py, &values)
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
    int64::view(py, &py.detach(|| weigh(&slices)))
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
    int64::view(py, &values)
}
