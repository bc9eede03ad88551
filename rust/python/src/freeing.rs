//! Frees large values without the GIL: Python calls the destructor of a class with the GIL, and to
//! free 150,000 pods would stop all other threads for tens of milliseconds.

use std::sync::Arc;

use pyo3::prelude::*;

/// The fewest pods or nodes that are freed without the GIL: fewer take less time than it takes to
/// get the GIL back.
pub(crate) const MANY: usize = 1000;

/// Frees a value without the GIL.
pub(crate) fn free(value: impl Send) {
    let mut value = Some(value);
    // Where there is no interpreter any more, the value is freed at the end of this function.
    Python::try_attach(|py| py.detach(|| drop(value.take())));
}

/// Frees the value of a reference without the GIL, if the value has many parts, as `parts` counts
/// them, and no other reference leads to it.
pub(crate) fn free_last<T>(shared: &mut Arc<T>, parts: impl Fn(&T) -> usize)
where
    T: Default + Send + Sync,
{
    if parts(shared) >= MANY && Arc::strong_count(shared) == 1 {
        free(std::mem::take(shared));
    }
}
