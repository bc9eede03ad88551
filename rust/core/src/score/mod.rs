//! Normalises the scores of one plugin, adds the weighted scores of several plugins, and finds the
//! highest.
//!
//! All arithmetic is on integers. Scores of plugins are usually small; small scores are computed
//! without division and several at a time, large scores as in Go or with 128 bits.

mod highest;
mod narrow;
mod normalize;
mod weigh;

pub use highest::highest;
pub use normalize::normalize;
pub use weigh::{weigh_additive, weigh_strict10};
