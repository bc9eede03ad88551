//! The plugin `LabelMatch`: filters and scores nodes by the label selectors of a configuration.

use super::{Filter, Score, reject_unless};
use crate::labels::Selector;
use crate::node::{Nodes, Rejection};
use crate::pod::{Pod, PodSnapshot};

/// A filter rule: a pod that the selector `pod` matches needs a node that the selector `node`
/// matches.
#[derive(Debug, Clone)]
pub struct FilterRule {
    /// Selects the pods that the rule is for.
    pub pod: Selector,
    /// Selects the nodes that a matching pod may run on.
    pub node: Selector,
    /// The reason with which the plugin rejects other nodes.
    pub reason: String,
}

/// A score rule: for a pod that the selector `pod` matches, the plugin adds `score` to the score of
/// a node that the selector `node` matches.
#[derive(Debug, Clone)]
pub struct ScoreRule {
    /// Selects the pods that the rule is for.
    pub pod: Selector,
    /// Selects the nodes that get the score.
    pub node: Selector,
    /// The number to add; a sum over all rules beyond 64 bits counts as the nearest that fits.
    pub score: i64,
}

/// The plugin `LabelMatch` with its rules; the first filter rule that a node fails gives the reason.
#[derive(Debug, Clone, Default)]
pub struct LabelMatch {
    filters: Vec<FilterRule>,
    scores: Vec<ScoreRule>,
}

impl LabelMatch {
    /// Makes the plugin from its rules, in the order in which the rules are applied.
    pub fn new(filters: Vec<FilterRule>, scores: Vec<ScoreRule>) -> Self {
        Self { filters, scores }
    }
}

impl Filter for LabelMatch {
    fn filter(&self, pod: &Pod, nodes: &Nodes, _: &PodSnapshot) -> Vec<Rejection> {
        let applies = |rule: &&FilterRule| rule.pod.matches(&pod.label_lookup());
        self.filters
            .iter()
            .filter(applies)
            .filter_map(|rule| reject_unless(&rule.node, &rule.reason, nodes))
            .collect()
    }
}

impl Score for LabelMatch {
    fn score(&self, pod: &Pod, nodes: &Nodes, _: &PodSnapshot) -> Vec<i64> {
        let mut sums = vec![0_i128; nodes.len()];
        let applies = |rule: &&ScoreRule| rule.pod.matches(&pod.label_lookup());
        for rule in self.scores.iter().filter(applies) {
            for at in nodes.matches(&rule.node).indices() {
                sums[at] += i128::from(rule.score);
            }
        }
        let limited = |sum: i128| sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        sums.into_iter().map(limited).collect()
    }
}
