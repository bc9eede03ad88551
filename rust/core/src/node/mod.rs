//! Nodes: parsed once, kept, read through immutable snapshots.

mod mask;
mod names;
mod recognition;
mod record;
mod rejection;
mod selection;
mod snapshot;
mod source;
mod store;

pub use mask::Mask;
pub use record::{Labels, Node};
pub use rejection::Rejection;
pub use selection::Nodes;
pub use source::Body;
pub use store::{NodeStore, NodeStoreStats};

pub(crate) use snapshot::Snapshot;
pub(crate) use source::Span;
pub(crate) use store::Fresh;
