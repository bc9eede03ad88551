//! The core of kubextend: reads what kube-scheduler sends an extender, keeps nodes, filters them
//! by label, scores them, writes the answers.
//!
//! No Python, no I/O, no clock; every function of it can be called from any thread.

#![forbid(unsafe_code)]

pub mod labels;
pub mod node;
#[cfg(test)]
mod oracle;
mod packing;
mod plain;
pub mod plugins;
pub mod pod;
mod pool;
mod published;
mod rows;
pub mod score;
mod shared_map;
pub mod transfer;
pub mod wire;
