//! The Python module `kubextend._native`: Python classes and functions around kubextend-core.

// Allowed in body.rs alone.
#![deny(unsafe_code)]
// pyo3 hands converted arguments over by value.
#![allow(clippy::needless_pass_by_value)]

mod args;
mod binding;
#[allow(unsafe_code)]
mod body;
mod error;
mod freeing;
mod int64;
mod mask;
mod node_info;
mod nodes;
mod plugin;
mod pod;
mod pod_details;
mod pod_store;
mod preemption;
mod quantity;
mod score;
mod selector;
mod store;
mod watch;

/// The native core of kubextend.
#[pyo3::pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::args::{PyExtenderArgs, read_args};
    #[pymodule_export]
    use crate::binding::{PyBindingArgs, read_binding_args};
    #[pymodule_export]
    use crate::body::{PyBodyBuffer, PyBodyPool};
    #[pymodule_export]
    use crate::error::{KubextendError, PyWireError, TruncatedPodError};
    #[pymodule_export]
    use crate::mask::PyMask;
    #[pymodule_export]
    use crate::node_info::PyNodeInfo;
    #[pymodule_export]
    use crate::nodes::PyNodes;
    #[pymodule_export]
    use crate::plugin::PyNativePlugin;
    #[pymodule_export]
    use crate::pod::{PyContainer, PyPod};
    #[pymodule_export]
    use crate::pod_details::{
        PyCondition, PyOwnerReference, PyPodAffinity, PyPodAffinityTerm, PyPodResourceClaim,
        PyTopologySpreadConstraint, PyVolume,
    };
    #[pymodule_export]
    use crate::pod_store::{PyPodSnapshot, PyPodStore};
    #[pymodule_export]
    use crate::preemption::{PyPreemptionArgs, read_preemption_args};
    #[pymodule_export]
    use crate::quantity::{amount, is_dra_extended_resource};
    #[pymodule_export]
    use crate::score::{checked_scores, highest, normalize, weigh};
    #[pymodule_export]
    use crate::selector::PySelector;
    #[pymodule_export]
    use crate::store::{PyNodeStore, PyNodeStoreStats, PyRequestStore};
    #[pymodule_export]
    use crate::watch::{PyListPage, PyPodEvent, PyPodRelist, PyRelist, PyWatchEvent};

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
