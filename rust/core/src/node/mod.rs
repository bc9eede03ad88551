//! Nodes: parsed once, kept, read through immutable snapshots.

mod columns;
mod details;
mod mask;
mod names;
mod recognition;
mod record;
mod rejection;
mod request_store;
mod selection;
mod snapshot;
mod source;
mod store;
mod table;

pub use details::{Condition, NodeDetails, Parts};
pub use mask::Mask;
pub use record::{Field, Labels, Node};
pub use rejection::Rejection;
pub use request_store::RequestStore;
pub use selection::Nodes;
pub use source::Body;
pub use store::NodeStore;
pub use table::{NodeStoreStats, NodeTable};

pub(crate) use names::Names;
pub(crate) use request_store::Fresh;
pub(crate) use snapshot::{Snapshot, make_room};
pub(crate) use source::Span;
