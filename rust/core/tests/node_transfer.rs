//! Nodes that are told to another process: the same there as here, whatever changes in between.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;

use common::{cases, event, node_json, node_list, read};
use kubextend_core::labels::Selector;
use kubextend_core::node::{NodeStore, Nodes};
use kubextend_core::transfer::{NodeReceiver, NodeSender, Unreceivable};
use kubextend_core::wire::{self, Relist};
use proptest::prelude::*;

fn assert_same(here: &Nodes, there: &Nodes) {
    assert_eq!(common::names(there), common::names(here));
    for at in 0..here.len() {
        assert_eq!(there.node(at), here.node(at), "{}", here.name(at));
    }
    for text in ["zone=a", "zone!=b", "zone", "zone in (b,c)"] {
        let selector = Selector::parse(text).unwrap();
        assert_eq!(there.matches(&selector), here.matches(&selector), "{text}");
    }
}

fn told(sender: &mut NodeSender, receiver: &mut NodeReceiver, nodes: &Nodes) -> usize {
    let packed = sender.packed(nodes);
    let there = receiver.unpacked(&packed).unwrap();
    assert_same(nodes, &there);
    packed.len()
}

fn listed(store: &Arc<NodeStore>, nodes: &[String]) {
    let mut relist = Relist::begin(store.clone());
    relist.page(&node_list(nodes)).unwrap();
    relist.commit();
}

/// A node that has a value for every field that is read.
fn whole_node(name: &str, zone: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":{name:?},"uid":"uid-of-{name}","labels":{{"zone":{zone:?}}}}},
            "spec":{{"unschedulable":true,"taints":[{{"key":"k","value":"v","effect":"NoExecute"}}]}},
            "status":{{"allocatable":{{"cpu":"3920m","memory":"64Gi","pods":"110"}}}}}}"#
    )
}

#[test]
fn a_node_is_told_once_until_it_changes() {
    let store = Arc::new(NodeStore::new(0));
    let nodes: Vec<String> = (0..100)
        .map(|i| whole_node(&format!("node-{i}"), "a"))
        .collect();
    listed(&store, &nodes);
    let (mut sender, mut receiver) = (NodeSender::default(), NodeReceiver::default());
    let mut tell = || told(&mut sender, &mut receiver, &store.nodes());
    let (all, none) = (tell(), tell());
    assert!(all > 100 * 60);
    assert!(none < 100 * 6 + 20);
    wire::apply(&*store, &event("MODIFIED", &whole_node("node-7", "b"))).unwrap();
    let one = tell();
    assert!(none < one && one < none + 300, "{none} {one}");
    listed(&store, &nodes);
    assert_eq!(tell(), one);
    assert_eq!(tell(), none);
}

#[test]
fn unknown_names_stay_unknown_although_they_were_known() {
    let store = Arc::new(NodeStore::new(0));
    listed(&store, &[whole_node("a", "a"), whole_node("b", "b")]);
    let (mut sender, mut receiver) = (NodeSender::default(), NodeReceiver::default());
    told(&mut sender, &mut receiver, &store.nodes());
    listed(&store, &[whole_node("b", "b")]);
    told(
        &mut sender,
        &mut receiver,
        &store.select(["a", "b", "c", ""]),
    );
}

#[test]
fn a_name_that_comes_twice_is_two_nodes() {
    let items = [
        ("same", "a"),
        ("same", "b"),
        ("", "c"),
        ("", "d"),
        ("same", "a"),
    ]
    .map(|(name, zone)| node_json(name, &[("zone", zone)], 0));
    let args = read(&common::full_body(&items), None).unwrap();
    let (mut sender, mut receiver) = (NodeSender::default(), NodeReceiver::default());
    for _ in 0..3 {
        told(&mut sender, &mut receiver, args.nodes().unwrap());
    }
}

#[test]
fn nodes_that_nobody_names_any_more_are_forgotten_at_both_ends() {
    let store = Arc::new(NodeStore::new(0));
    let nodes: Vec<String> = (0..10)
        .map(|i| whole_node(&format!("node-{i}"), "a"))
        .collect();
    listed(&store, &nodes);
    let (mut sender, mut receiver) = (NodeSender::default(), NodeReceiver::default());
    let (all, one) = (store.nodes(), store.select(["node-3"]));
    let first = told(&mut sender, &mut receiver, &all);
    let (mut told_to_forget, usual) = (0, told(&mut sender, &mut receiver, &one));
    for _ in 0..5000 {
        told_to_forget += usize::from(told(&mut sender, &mut receiver, &one) > usual);
    }
    assert_eq!(told_to_forget, 1);
    let again = told(&mut sender, &mut receiver, &all);
    assert!(again > first * 8 / 10, "{first} {again}");
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let store = Arc::new(NodeStore::new(0));
    listed(&store, &[whole_node("a", "a")]);
    let packed = NodeSender::default().packed(&store.select(["a", "x"]));
    for end in 0..packed.len() {
        let cut_off = NodeReceiver::default().unpacked(&packed[..end]);
        assert_eq!(cut_off.unwrap_err(), Unreceivable, "{end}");
    }
    for at in 0..packed.len() {
        let mut changed = packed.clone();
        changed[at] ^= 0xff;
        // Whatever it makes of it: it neither panics nor takes memory that was not sent.
        drop(NodeReceiver::default().unpacked(&changed));
    }
}

/// What may happen between two requests: a node appears or changes, one goes, names are asked for.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Ask(Vec<u8>),
    AskWhole(Vec<(u8, u8)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..12_u8;
    let zone = 0..3_u8;
    let whole = proptest::collection::vec((name.clone(), zone.clone()), 0..8);
    let step = prop_oneof![
        3 => (name.clone(), zone).prop_map(|(name, zone)| Step::Put(name, zone)),
        1 => name.clone().prop_map(Step::Delete),
        3 => proptest::collection::vec(name, 0..15).prop_map(Step::Ask),
        2 => whole.prop_map(Step::AskWhole),
    ];
    proptest::collection::vec(step, 1..60)
}

fn zoned(name: u8, zone: u8) -> String {
    whole_node(
        &format!("node-{name}"),
        &"abc"[zone as usize..=zone as usize],
    )
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn nodes_are_there_what_they_are_here(steps in steps()) {
        let (watched, requests) = (NodeStore::new(0), NodeStore::new(1 << 20));
        let (mut sender, mut receiver) = (NodeSender::default(), NodeReceiver::default());
        for step in steps {
            match step {
                Step::Put(name, zone) => {
                    wire::apply(&watched, &event("MODIFIED", &zoned(name, zone))).unwrap();
                }
                Step::Delete(name) => {
                    wire::apply(&watched, &event("DELETED", &zoned(name, 0))).unwrap();
                }
                Step::Ask(names) => {
                    let names: Vec<String> = names.iter().map(|n| format!("node-{n}")).collect();
                    let nodes = watched.select(names.iter().map(String::as_str));
                    told(&mut sender, &mut receiver, &nodes);
                }
                Step::AskWhole(nodes) => {
                    let nodes: Vec<String> = nodes.iter().map(|&(n, z)| zoned(n, z)).collect();
                    let args = read(&common::full_body(&nodes), Some(&requests)).unwrap();
                    told(&mut sender, &mut receiver, args.nodes().unwrap());
                }
            }
        }
    }
}
