//! Parses the JSON of extender requests, lists and watch events, and writes the JSON of responses.
//!
//! All JSON of the core is here. No tree of JSON values is built.

mod affinity;
pub(crate) mod args;
mod binding;
mod container;
pub(crate) mod cursor;
pub(crate) mod decode;
mod details;
mod error;
pub(crate) mod node;
pub(crate) mod pod;
mod pod_details;
mod preemption;
mod quantity;
mod time;
mod watch;
mod write;

pub use args::{ExtenderArgs, read_args};
pub use binding::{BindingArgs, read_binding_args};
pub use cursor::MAX_DEPTH;
pub use error::{Found, Problem, Step, WireError};
pub use preemption::{PreemptionArgs, Victims, read_preemption_args};
pub use watch::{ListPage, Relist, WatchEvent, Watched, apply, replace};
pub use write::{FilterResult, write_names};
