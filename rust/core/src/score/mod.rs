//! Normalises the scores of one plugin, and adds the weighted scores of several plugins.
//!
//! All arithmetic is on integers. Scores of plugins are usually small; small scores are computed
//! without division and several at a time, large scores as in Go or with 128 bits.

mod narrow;
mod normalize;
mod weigh;

pub use normalize::normalize;
pub use weigh::{weigh_additive, weigh_strict10};
