//! What the native plugins reject and how they score.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{full_body, names_body, node_json, node_list, read, read_watched};
use kubextend_core::labels::Selector;
use kubextend_core::node::{NodeStore, Nodes, Rejection, RequestStore};
use kubextend_core::plugins::{FilterRule, LabelMatch, NativePlugin, ScoreRule};
use kubextend_core::pod::{Pod, PodSnapshot};
use kubextend_core::wire::Relist;

const RDMA_KEY: &str = "node.kubernetes.io/rdma-enabled";

fn nodes() -> [String; 6] {
    [
        node_json("enabled", &[(RDMA_KEY, "true")], 0),
        node_json("disabled", &[(RDMA_KEY, "false")], 0),
        node_json("cased", &[(RDMA_KEY, "True")], 0),
        node_json("short", &[("rdma", "true")], 0),
        node_json("both", &[("rdma", "true"), (RDMA_KEY, "true")], 0),
        node_json("plain", &[], 0),
    ]
}

/// Some nodes by every way in that there is.
fn by_every_way(check: impl Fn(&Nodes)) {
    let store = RequestStore::new(1 << 20);
    for _ in 0..2 {
        let args = read(&full_body(&nodes()), Some(&store)).unwrap();
        check(args.nodes().unwrap());
    }
    let watched = std::sync::Arc::new(NodeStore::new());
    let mut relist = Relist::begin(watched.clone());
    relist.page(&node_list(&nodes())).unwrap();
    relist.commit();
    let asked = ["enabled", "disabled", "cased", "short", "both", "plain"];
    let args = read_watched(&names_body(&asked), &watched).unwrap();
    check(args.nodes().unwrap());
}

fn pod(labels: &[(&str, &str)]) -> Pod {
    Pod {
        labels: labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        ..Pod::default()
    }
}

fn rejected(rejections: &[Rejection], nodes: &Nodes) -> Vec<(String, String)> {
    assert!(rejections.iter().all(|rejection| rejection.unresolvable));
    (0..nodes.len())
        .filter_map(|at| {
            let first = rejections
                .iter()
                .find(|rejection| rejection.nodes.get(at))?;
            Some((nodes.name(at).to_owned(), first.reason.to_string()))
        })
        .collect()
}

fn each<'n>(names: &[&'n str], reason: &'n str) -> Vec<(String, String)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), reason.to_owned()))
        .collect()
}

const NO_RDMA: &str = "Node does not support RDMA";

#[test]
fn high_comm_pod_filter_asks_for_the_key_of_the_pod_and_the_value_of_the_node() {
    let plugin = NativePlugin::named("HighCommPodFilter").unwrap();
    let lacking = each(&["disabled", "cased", "short", "plain"], NO_RDMA);
    for (labels, expected) in [
        (&[][..], vec![]),
        (&[("app", "web")], vec![]),
        (&[("High-Comm", "true")], vec![]),
        (&[("high-comm", "true")], lacking.clone()),
        (&[("high-comm", "false")], lacking.clone()),
        (&[("high-comm", "")], lacking.clone()),
        (&[("app", "web"), ("high-comm", "true")], lacking.clone()),
    ] {
        by_every_way(|nodes| {
            let found =
                plugin
                    .as_filter()
                    .unwrap()
                    .filter(&pod(labels), nodes, &PodSnapshot::default());
            assert_eq!(rejected(&found, nodes), expected, "{labels:?}");
        });
    }
}

#[test]
fn rdma_aware_takes_only_pods_that_say_so_and_only_to_nodes_that_say_so() {
    let plugin = NativePlugin::named("RdmaAware").unwrap();
    let all = ["enabled", "disabled", "cased", "short", "both", "plain"];
    let no_label = each(&all, "Pod does not have high-comm=true label");
    let lacking = each(&["enabled", "disabled", "cased", "plain"], NO_RDMA);
    for (labels, expected) in [
        (&[][..], &no_label),
        (&[("high-comm", "false")], &no_label),
        (&[("high-comm", "True")], &no_label),
        (&[("high-comm", "")], &no_label),
        (&[("high-comm", "true")], &lacking),
        (&[("a", "b"), ("high-comm", "true"), ("z", "")], &lacking),
    ] {
        by_every_way(|nodes| {
            let found =
                plugin
                    .as_filter()
                    .unwrap()
                    .filter(&pod(labels), nodes, &PodSnapshot::default());
            assert_eq!(&rejected(&found, nodes), expected, "{labels:?}");
        });
    }
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap()
}

fn label_match(filters: &[(&str, &str, &str)], scores: &[(&str, &str, i64)]) -> NativePlugin {
    let filter = |(pod, node, reason): &(&str, &str, &str)| FilterRule {
        pod: selector(pod),
        node: selector(node),
        reason: (*reason).to_owned(),
    };
    let score = |(pod, node, score): &(&str, &str, i64)| ScoreRule {
        pod: selector(pod),
        node: selector(node),
        score: *score,
    };
    NativePlugin::LabelMatch(LabelMatch::new(
        filters.iter().map(filter).collect(),
        scores.iter().map(score).collect(),
    ))
}

#[test]
fn label_match_rejects_by_the_first_rule_that_a_node_fails() {
    let plugin = label_match(
        &[
            ("app=web", "rdma", "needs rdma"),
            (
                "",
                "!node.kubernetes.io/rdma-enabled",
                "must lack the long key",
            ),
            ("never=here", "nobody=matches", "unheard of"),
        ],
        &[],
    );
    for (labels, expected) in [
        (
            &[][..],
            each(
                &["enabled", "disabled", "cased", "both"],
                "must lack the long key",
            ),
        ),
        (
            &[("app", "web")],
            vec![
                ("enabled".to_owned(), "needs rdma".to_owned()),
                ("disabled".to_owned(), "needs rdma".to_owned()),
                ("cased".to_owned(), "needs rdma".to_owned()),
                ("both".to_owned(), "must lack the long key".to_owned()),
                ("plain".to_owned(), "needs rdma".to_owned()),
            ],
        ),
    ] {
        by_every_way(|nodes| {
            let found =
                plugin
                    .as_filter()
                    .unwrap()
                    .filter(&pod(labels), nodes, &PodSnapshot::default());
            assert_eq!(rejected(&found, nodes), expected, "{labels:?}");
        });
    }
}

#[test]
fn label_match_adds_the_scores_of_every_rule_that_pod_and_node_match() {
    let plugin = label_match(
        &[],
        &[
            ("", "rdma", 30),
            ("app=web", RDMA_KEY, 50),
            ("app in (db)", "", 7),
            ("", "!rdma", 0),
        ],
    );
    for (labels, expected) in [
        (&[][..], [0, 0, 0, 30, 30, 0]),
        (&[("app", "web")], [50, 50, 50, 30, 80, 0]),
        (&[("app", "db")], [7, 7, 7, 37, 37, 7]),
    ] {
        by_every_way(|nodes| {
            assert_eq!(
                plugin
                    .as_score()
                    .unwrap()
                    .score(&pod(labels), nodes, &PodSnapshot::default()),
                expected
            );
        });
    }
}

#[test]
fn label_match_without_rules_lets_everything_pass_with_zero() {
    let plugin = label_match(&[], &[]);
    by_every_way(|nodes| {
        assert!(
            plugin
                .as_filter()
                .unwrap()
                .filter(&pod(&[]), nodes, &PodSnapshot::default())
                .is_empty()
        );
        assert_eq!(
            plugin
                .as_score()
                .unwrap()
                .score(&pod(&[]), nodes, &PodSnapshot::default()),
            [0; 6]
        );
    });
}

#[test]
fn a_filter_that_rejects_nobody_says_nothing() {
    let plugin = label_match(&[("", "", "nobody")], &[]);
    by_every_way(|nodes| {
        assert!(
            plugin
                .as_filter()
                .unwrap()
                .filter(&pod(&[]), nodes, &PodSnapshot::default())
                .is_empty()
        );
    });
}

#[test]
fn names_that_the_store_does_not_know_match_no_selector() {
    let args = read(&names_body(&["stranger"]), None).unwrap();
    let nodes = args.nodes().unwrap();
    let plugin = label_match(&[("", "!x", "not even its absence")], &[("", "!x", 10)]);
    let found = plugin
        .as_filter()
        .unwrap()
        .filter(&pod(&[]), nodes, &PodSnapshot::default());
    assert_eq!(
        rejected(&found, nodes),
        each(&["stranger"], "not even its absence")
    );
    assert_eq!(
        plugin
            .as_score()
            .unwrap()
            .score(&pod(&[]), nodes, &PodSnapshot::default()),
        [0]
    );
}

#[test]
fn plugins_are_found_by_name_and_say_their_extension_points() {
    for (name, filter, score) in [
        ("HighCommPodFilter", true, false),
        ("RdmaAware", true, false),
    ] {
        let plugin = NativePlugin::named(name).unwrap();
        assert_eq!(plugin.name(), name);
        assert_eq!(
            (plugin.as_filter().is_some(), plugin.as_score().is_some()),
            (filter, score)
        );
    }
    let configured = label_match(&[], &[]);
    assert_eq!(configured.name(), "LabelMatch");
    assert!(configured.as_filter().is_some() && configured.as_score().is_some());
    assert_eq!(NativePlugin::NAMED, ["HighCommPodFilter", "RdmaAware"]);
    for unknown in ["", "LabelMatch", "highcommpodfilter", "NodeResourcesFit"] {
        assert!(NativePlugin::named(unknown).is_none(), "{unknown}");
    }
}
