//! The plugin `LabelMatch`: filters and scores nodes by the label selectors of a configuration.

use super::{Filter, Score, reject_unless};
use crate::labels::Selector;
use crate::node::{Nodes, Rejection};
use crate::pod::Pod;

/// A pod that `pod` matches needs a node that `node` matches.
#[derive(Debug, Clone)]
pub struct FilterRule {
    /// Which pods.
    pub pod: Selector,
    /// Which nodes they need.
    pub node: Selector,
    /// The reason with which other nodes are rejected.
    pub reason: String,
}

/// For a pod that `pod` matches, `score` is added to the score of a node that `node` matches.
#[derive(Debug, Clone)]
pub struct ScoreRule {
    /// Which pods.
    pub pod: Selector,
    /// Which nodes they prefer.
    pub node: Selector,
    /// The number to add; the maker of the rules keeps the sum over all rules within 0 to 100.
    pub score: i64,
}

/// The rules of the plugin; the first filter rule that a node fails gives the reason.
#[derive(Debug, Clone, Default)]
pub struct LabelMatch {
    filters: Vec<FilterRule>,
    scores: Vec<ScoreRule>,
}

impl LabelMatch {
    /// Makes the plugin of its rules, in the order in which they are applied.
    pub fn new(filters: Vec<FilterRule>, scores: Vec<ScoreRule>) -> Self {
        Self { filters, scores }
    }
}

impl Filter for LabelMatch {
    fn filter(&self, pod: &Pod, nodes: &Nodes) -> Vec<Rejection> {
        let applies = |rule: &&FilterRule| rule.pod.matches(&pod.label_lookup());
        self.filters
            .iter()
            .filter(applies)
            .filter_map(|rule| reject_unless(&rule.node, &rule.reason, nodes))
            .collect()
    }
}

impl Score for LabelMatch {
    fn score(&self, pod: &Pod, nodes: &Nodes) -> Vec<i64> {
        let mut scores = vec![0; nodes.len()];
        let applies = |rule: &&ScoreRule| rule.pod.matches(&pod.label_lookup());
        for rule in self.scores.iter().filter(applies) {
            for at in nodes.matches(&rule.node).indices() {
                scores[at] += rule.score;
            }
        }
        scores
    }
}
