//! Converts the core's errors to Python exceptions.

use kubextend_core::wire::WireError;
use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(
    kubextend.errors,
    KubextendError,
    PyException,
    "The root of every error that kubextend raises on purpose."
);

create_exception!(
    kubextend.errors,
    TruncatedPodError,
    KubextendError,
    "A part of a pod was asked for that was too large to keep."
);

/// Returns the error to raise when Python reads a part that no plugin has declared to need.
pub(crate) fn undeclared(what: &str, need: &str) -> PyErr {
    KubextendError::new_err(format!(
        "set {need} = True on the plugin's class: it reads {what}, which kubextend keeps only then"
    ))
}

pub(crate) use wire::WireError as PyWireError;

mod wire {
    use super::KubextendError;
    use pyo3::create_exception;

    create_exception!(
        kubextend.errors,
        WireError,
        KubextendError,
        "A body that cannot be read: at which byte, in which field, and what was expected."
    );
}

/// A [`WireError`] of the core, to be converted to the Python exception `WireError`.
pub(crate) struct Unreadable(WireError);

impl From<WireError> for Unreadable {
    fn from(error: WireError) -> Self {
        Self(error)
    }
}

impl From<Unreadable> for PyErr {
    fn from(error: Unreadable) -> Self {
        PyWireError::new_err(error.0.to_string())
    }
}
