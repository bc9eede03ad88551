//! The plugin `NodeResourcesFit`: nodes must have room for a pod, and are scored by their use.
//!
//! Source: kubernetes v1.37 `plugins/noderesources`: `fit.go`, `least_allocated.go`,
//! `most_allocated.go`, `requested_to_capacity_ratio.go`

use std::collections::{BTreeMap, HashSet};

use ahash::RandomState;

use super::resource_use::{Counted, ResourceUse, is_scalar};
use super::{Filter, Score};
use crate::node::{Mask, Nodes, Rejection};
use crate::pod::{Pod, PodSnapshot, is_dra_extended_resource, is_extended_resource};

const MAX_NODE_SCORE: i128 = 100;
/// How many resources a reason names; a node may lack thousands.
const MOST_NAMED: usize = 10;

/// How the plugin scores nodes.
#[derive(Debug, Clone)]
pub enum Strategy {
    /// Prefers nodes with much room.
    LeastAllocated,
    /// Prefers nodes with little room.
    MostAllocated,
    /// Scores by a broken line through points of `(percentage in use, score 0 to 100)`.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The plugin `NodeResourcesFit` with its arguments.
#[derive(Debug, Clone)]
pub struct NodeResourcesFit {
    /// How the plugin scores nodes.
    pub strategy: Strategy,
    /// The scored resources with their weights.
    pub resources: Vec<(String, i64)>,
    /// Extended resources that the filter leaves out.
    pub ignored: HashSet<String>,
    /// Groups of extended resources that the filter leaves out: what comes before the `/`.
    pub ignored_groups: HashSet<String>,
}

impl NodeResourcesFit {
    fn is_ignored(&self, resource: &str) -> bool {
        let group = resource.split('/').next().unwrap_or_default();
        is_extended_resource(resource)
            && (self.ignored.contains(resource) || self.ignored_groups.contains(group))
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, pod: &Pod, nodes: &Nodes, pods: &PodSnapshot) -> Vec<Rejection> {
        let asked = pod.requests.iter();
        let mut wanted: Vec<(&str, i64)> = asked
            .map(|(resource, amount)| (&**resource, amount))
            .filter(|&(resource, amount)| amount > 0 && !self.is_ignored(resource))
            .collect();
        // kube-scheduler asks dynamic resource allocation about nodes that have none of a resource.
        // A tenant's pod may ask for thousands of resources that no node has.
        let extended = |&(resource, _): &(&str, i64)| is_dra_extended_resource(resource);
        if wanted.iter().any(extended) {
            let known = extended_on(nodes);
            wanted.retain(|each| !extended(each) || known.contains(each.0));
        }
        wanted.sort_by_key(|&(resource, _)| is_scalar(resource));
        wanted.insert(0, ("pods", 1));
        let mut lacks: Vec<Vec<&str>> = vec![Vec::new(); nodes.len()];
        for (resource, wanted) in wanted {
            if lacks.iter().all(|lacks| lacks.len() >= MOST_NAMED) {
                break;
            }
            let allocatable = nodes.map_or(0, |node| node.allocatable_amount(resource));
            let used = pods.requested(nodes, resource);
            let by_dra = is_dra_extended_resource(resource);
            for (at, lacks) in lacks.iter_mut().enumerate() {
                let free = allocatable[at].saturating_sub(used[at]);
                let is_here = allocatable[at] != 0 || !by_dra;
                if is_here && wanted > free && lacks.len() < MOST_NAMED {
                    lacks.push(resource);
                }
            }
        }
        by_reason(lacks)
    }
}

/// Returns the resources that nodes name in their status and that are not Kubernetes' own.
fn extended_on(nodes: &Nodes) -> HashSet<&str, RandomState> {
    let each = (0..nodes.len()).filter_map(|at| nodes.node(at));
    let named = each.flat_map(|node| node.allocatable.iter().map(|(resource, _)| &**resource));
    named
        .filter(|resource| is_dra_extended_resource(resource))
        .collect()
}

/// Returns one rejection for each set of resources that nodes lack.
fn by_reason(lacks: Vec<Vec<&str>>) -> Vec<Rejection> {
    let len = lacks.len();
    let mut nodes_of: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
    for (at, lacks) in lacks.into_iter().enumerate() {
        if !lacks.is_empty() {
            nodes_of.entry(lacks).or_default().push(at);
        }
    }
    let mask = |rejected: Vec<usize>| {
        let mut mask = Mask::filled(len, false);
        for at in rejected {
            mask.set(at, true);
        }
        mask
    };
    let rejection = |(lacks, rejected): (Vec<&str>, Vec<usize>)| Rejection {
        nodes: mask(rejected),
        reason: lacks
            .into_iter()
            .map(reason)
            .collect::<Vec<_>>()
            .join(", ")
            .into(),
        unresolvable: false,
    };
    nodes_of.into_iter().map(rejection).collect()
}

fn reason(resource: &str) -> String {
    match resource {
        "pods" => "Too many pods".to_owned(),
        _ => format!("Insufficient {resource}"),
    }
}

impl Score for NodeResourcesFit {
    fn score(&self, pod: &Pod, nodes: &Nodes, pods: &PodSnapshot) -> Vec<i64> {
        let counted = Counted::WithDefaults;
        let used = ResourceUse::of_each(&self.resources, counted, pod, nodes, pods);
        let on_node = |at: usize| {
            let parts = used
                .iter()
                .filter_map(|each| each.on(at).map(|on| (self.strategy.of(on), each.weight)));
            self.strategy.mean(parts)
        };
        (0..nodes.len()).map(on_node).collect()
    }
}

impl Strategy {
    /// Returns the score of one resource, from what is in use and what is allocatable.
    fn of(&self, (used, allocatable): (i64, i64)) -> i128 {
        let (used, allocatable) = (i128::from(used), i128::from(allocatable));
        match self {
            Self::LeastAllocated if used > allocatable => 0,
            Self::LeastAllocated => (allocatable - used) * MAX_NODE_SCORE / allocatable,
            Self::MostAllocated => used.min(allocatable) * MAX_NODE_SCORE / allocatable,
            Self::RequestedToCapacityRatio(shape) => {
                on_line(shape, used.min(allocatable) * 100 / allocatable)
            }
        }
    }

    /// Returns the weighted mean of the resources' scores; `RequestedToCapacityRatio` leaves out
    /// resources with the score 0, and rounds halves up.
    fn mean(&self, parts: impl Iterator<Item = (i128, i64)>) -> i64 {
        let by_ratio = matches!(self, Self::RequestedToCapacityRatio(_));
        let (mut sum, mut weights) = (0, 0);
        for (score, weight) in parts.filter(|&(score, _)| score > 0 || !by_ratio) {
            sum += score * i128::from(weight);
            weights += i128::from(weight);
        }
        let mean = match (weights, by_ratio) {
            (0, _) => 0,
            (_, true) => (2 * sum + weights) / (2 * weights),
            (_, false) => sum / weights,
        };
        mean as i64
    }
}

/// Returns the value at `x` of the broken line through the points, which are sorted by `x`.
///
/// Source: kubernetes v1.33 `plugins/helper/shape_score.go`
fn on_line(points: &[(i64, i64)], x: i128) -> i128 {
    let mut before = None;
    for &(at, score) in points {
        let (at, score) = (i128::from(at), i128::from(score));
        if x <= at {
            let Some((from, start)) = before else {
                return score;
            };
            return start + (score - start) * (x - from) / (at - from);
        }
        before = Some((at, score));
    }
    before.map_or(0, |(_, score)| score)
}
