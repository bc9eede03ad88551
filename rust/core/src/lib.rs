//! The core of kubextend: parses kube-scheduler's requests to an extender, keeps nodes and pods,
//! filters nodes by label, scores nodes, and writes the responses.
//!
//! The crate uses no Python, no I/O and no clock; every function can be called from any thread.

#![forbid(unsafe_code)]

pub mod labels;
pub mod node;
#[cfg(test)]
mod oracle;
mod plain;
pub mod plugins;
pub mod pod;
mod pool;
mod published;
mod rows;
pub mod score;
mod shared_map;
pub mod wire;
