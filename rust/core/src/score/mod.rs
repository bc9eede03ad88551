//! Scores of nodes: normalised within a plugin, weighed over plugins.
//!
//! Pure integer arithmetic over whole slices; 64-bit division is kept out of the loops.

mod divide;
mod normalize;
mod weigh;

pub use normalize::normalize;
pub use weigh::{weigh_additive, weigh_strict10};
