//! Filter and score nodes by their labels, as a configuration says.

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
    /// What a rejected node is told.
    pub reason: String,
}

/// For a pod that `pod` matches, a node that `node` matches gets `score` more.
#[derive(Debug, Clone)]
pub struct ScoreRule {
    /// Which pods.
    pub pod: Selector,
    /// Which nodes they prefer.
    pub node: Selector,
    /// How much; the sum over all rules stays within 0..=100.
    pub score: i64,
}

/// Any number of rules; a node is rejected by the first filter that it fails.
#[derive(Debug, Clone, Default)]
pub struct LabelMatch {
    filters: Vec<FilterRule>,
    scores: Vec<ScoreRule>,
}

impl LabelMatch {
    /// Rules in the order in which they are asked.
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
