//! Scores of nodes: normalised within a plugin, weighed over plugins.
//!
//! Pure integer arithmetic over whole slices. Plugins' scores are small: small ones are worked on
//! without division and two at a time, any others as Go or as 128 bits have it.

mod narrow;
mod normalize;
mod weigh;

pub use normalize::normalize;
pub use weigh::{weigh_additive, weigh_strict10};
