//! The native plugins, which run without Python: each has a file, and a line in `native_plugins!`.
//!
//! An enum with one variant for each plugin dispatches the calls.

mod resource_use;

use crate::labels::Selector;
use crate::node::{Nodes, Rejection};
use crate::pod::{Pod, PodSnapshot};

/// A plugin at the extension point Filter, for all nodes in one call.
pub trait Filter: Send + Sync {
    /// Returns the nodes on which the pod must not run, with reasons; empty if every node passes.
    /// `pods` has the pods on the nodes.
    fn filter(&self, pod: &Pod, nodes: &Nodes, pods: &PodSnapshot) -> Vec<Rejection>;
}

/// A plugin at the extension point Score, for all nodes in one call.
pub trait Score: Send + Sync {
    /// Returns one score, 0 to 100, for each node, in order. `pods` has the pods on the nodes.
    fn score(&self, pod: &Pod, nodes: &Nodes, pods: &PodSnapshot) -> Vec<i64>;
}

/// Declares the module of each plugin, exports what is public there, and makes the enum.
///
/// A line is `module::Plugin { .. } by make;`. The braces have `Pods` if the plugin counts what the
/// pods on each node have in use, and its extension points. A plugin with arguments has no `by`.
macro_rules! native_plugins {
    ($($(#[$doc:meta])* $module:ident::$plugin:ident { $($point:ident)+ } $(by $make:expr)?;)+) => {
        $(mod $module; pub use $module::*;)+

        /// A native plugin: one variant for each plugin of the core.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum NativePlugin {
            $($(#[$doc])* $plugin($plugin),)+
        }

        impl NativePlugin {
            /// The names of the native plugins that take no arguments.
            pub const NAMED: &[&str] = &[$($(named!($plugin, $make),)?)+];

            /// Returns the native plugin with this name; None if no plugin without arguments has
            /// the name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($(stringify!($plugin) => Some(Self::$plugin($make)),)?)+
                    _ => None,
                }
            }

            /// The plugin's name in a configuration.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$plugin(_) => stringify!($plugin),)+
                }
            }

            /// Whether the plugin counts what the pods on each node have in use.
            pub fn needs_pods(&self) -> bool {
                match self {
                    $(Self::$plugin(_) => [$(stringify!($point)),+].contains(&"Pods"),)+
                }
            }

            /// The plugin as a Filter plugin; None if it does not filter.
            pub fn as_filter(&self) -> Option<&dyn Filter> {
                match self {
                    $(Self::$plugin(plugin) => point!(Filter, plugin, $($point)+),)+
                }
            }

            /// The plugin as a Score plugin; None if it does not score.
            pub fn as_score(&self) -> Option<&dyn Score> {
                match self {
                    $(Self::$plugin(plugin) => point!(Score, plugin, $($point)+),)+
                }
            }
        }
    };
}

macro_rules! named {
    ($plugin:ident, $make:expr) => {
        stringify!($plugin)
    };
}

/// Expands to the plugin as a trait object, if the plugin's line lists the extension point.
macro_rules! point {
    (Filter, $plugin:ident, Filter $($rest:ident)*) => { Some($plugin) };
    (Score, $plugin:ident, Score $($rest:ident)*) => { Some($plugin) };
    ($wanted:ident, $plugin:ident, $other:ident $($rest:ident)*) => {
        point!($wanted, $plugin, $($rest)*)
    };
    ($wanted:ident, $plugin:ident,) => {{
        let _ = $plugin;
        None
    }};
}

native_plugins! {
    /// Pods with the label key `high-comm` go to nodes with RDMA.
    high_comm_pod_filter::HighCommPodFilter { Filter } by HighCommPodFilter::default();
    /// Only pods labelled `high-comm=true` run, and only on nodes with RDMA.
    rdma_aware::RdmaAware { Filter } by RdmaAware::default();
    /// Filters and scores by the label selectors of a configuration.
    label_match::LabelMatch { Filter Score };
    /// Nodes must have room for a pod, and are scored by their use.
    node_resources_fit::NodeResourcesFit { Pods Filter Score };
    /// Prefers nodes whose resources are in equal use.
    node_resources_balanced_allocation::NodeResourcesBalancedAllocation { Pods Score };
}

/// Returns a selector that is written in the core's source, and so known to be valid.
fn built_in(text: &str) -> Selector {
    Selector::parse(text).expect("a selector written in this crate")
}

/// Rejects the nodes that `selector` does not match, as unresolvable: no eviction would help.
fn reject_unless(selector: &Selector, reason: &str, nodes: &Nodes) -> Option<Rejection> {
    let rejected = !&nodes.matches(selector);
    rejected.any().then(|| Rejection {
        nodes: rejected,
        reason: reason.to_owned().into(),
        unresolvable: true,
    })
}
