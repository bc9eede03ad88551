//! The store of full mode: what it recognises, keeps, forgets; what an answer echoes.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::HashMap;

use common::{answer, full_body, json, label, mask, names, node_json, read};
use kubextend_core::labels::Selector;
use kubextend_core::node::RequestStore;
use proptest::prelude::*;

const ROOMY: u64 = 1 << 30;

fn versioned(name: &str, version: &str, filler: usize) -> String {
    node_json(name, &[("v", version)], filler)
}

fn body_of(versions: &[(&str, &str)], filler: usize) -> Vec<u8> {
    let nodes: Vec<String> = versions
        .iter()
        .map(|(name, version)| versioned(name, version, filler))
        .collect();
    full_body(&nodes)
}

fn hits_and_misses(store: &RequestStore) -> (u64, u64) {
    let stats = store.stats();
    (stats.hits, stats.misses)
}

#[test]
fn a_node_is_recognised_only_where_its_bytes_are_the_stored_ones() {
    let store = RequestStore::new(ROOMY);
    read(&body_of(&[("a", "1"), ("b", "1")], 9), Some(&store)).unwrap();
    assert_eq!(hits_and_misses(&store), (0, 2));
    read(&body_of(&[("b", "1"), ("a", "1")], 9), Some(&store)).unwrap();
    assert_eq!(
        hits_and_misses(&store),
        (2, 2),
        "another order is no change"
    );
    let args = read(
        &body_of(&[("a", "2"), ("b", "1"), ("c", "1")], 9),
        Some(&store),
    )
    .unwrap();
    assert_eq!(hits_and_misses(&store), (3, 4), "a changed, c new");
    let found = label(args.nodes().unwrap(), "v");
    assert_eq!(
        found,
        [Some("2".into()), Some("1".into()), Some("1".into())]
    );
    let shorter = versioned("a", "2", 9).replace("xxxxxxxxx", "xxxxxxxx");
    read(&full_body(&[shorter]), Some(&store)).unwrap();
    assert_eq!(hits_and_misses(&store), (3, 5));
}

#[test]
fn stored_bytes_that_begin_a_longer_value_are_no_match() {
    // `{...}` is whole, so whatever follows it must be a comma or the end of the list.
    let store = RequestStore::new(ROOMY);
    let node = versioned("a", "1", 3);
    read(&full_body(std::slice::from_ref(&node)), Some(&store)).unwrap();
    for broken in [
        format!("{node}1"),
        format!("{node}{node}"),
        format!("{node}]"),
    ] {
        assert!(read(&full_body(&[broken]), Some(&store)).is_err());
    }
    assert_eq!(store.stats().misses, 1, "a refused body counts for nothing");
    assert_eq!(store.stats().hits, 0, "a refused body counts for nothing");
}

#[test]
fn a_known_node_is_recognised_with_white_space_around_it() {
    let store = RequestStore::new(ROOMY);
    let (a, b) = (versioned("a", "1", 3), versioned("b", "1", 3));
    read(&full_body(&[a.clone(), b.clone()]), Some(&store)).unwrap();
    let spaced = format!(" {{ \"nodes\" : {{ \"ITEMS\" :\n[ {a} ,\t{b}\r\n] }} }} ");
    let args = read(spaced.as_bytes(), Some(&store)).unwrap();
    assert_eq!(hits_and_misses(&store), (2, 2));
    let kept = answer(&args, &mask([true, true]), "");
    let text = String::from_utf8(kept).unwrap();
    assert!(text.contains(&a) && text.contains(&b));
    assert_eq!(
        json(text.as_bytes())["Nodes"]["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_name_that_comes_twice_keeps_both_contents_apart_and_stores_the_last() {
    let store = RequestStore::new(ROOMY);
    for _ in 0..3 {
        let args = read(
            &body_of(&[("a", "1"), ("a", "2"), ("b", "1")], 50),
            Some(&store),
        )
        .unwrap();
        let nodes = args.nodes().unwrap();
        assert_eq!(
            label(nodes, "v"),
            [Some("1".into()), Some("2".into()), Some("1".into())]
        );
        let selector = Selector::parse("v=1").unwrap();
        assert_eq!(nodes.matches(&selector), mask([true, false, true]));
    }
    let stored = store.nodes();
    let by_name: HashMap<_, _> = names(&stored)
        .into_iter()
        .zip(label(&stored, "v"))
        .collect();
    assert_eq!(by_name["a"], Some("2".into()));
}

#[test]
fn a_name_that_comes_many_times_leaves_the_account_of_bytes_right() {
    let store = RequestStore::new(ROOMY);
    for round in 0..6 {
        let versions: Vec<String> = (0..8).map(|i| format!("{round}-{i}")).collect();
        let same: Vec<(&str, &str)> = versions.iter().map(|v| ("a", v.as_str())).collect();
        read(&body_of(&same, 100), Some(&store)).unwrap();
        let one = versioned("a", &versions[7], 100).len() as u64;
        let bytes = store.stats().bytes;
        assert!(
            (one..=2 * one).contains(&bytes),
            "{bytes} bytes for one node of {one}"
        );
    }
}

#[test]
fn nodes_without_a_name_are_echoed_never_stored_and_never_hits() {
    let store = RequestStore::new(ROOMY);
    let body = br#"{"Nodes":{"items":[{},null,{"metadata":{}},{"metadata":{"name":""}}]}}"#;
    for _ in 0..2 {
        let args = read(body, Some(&store)).unwrap();
        let text = String::from_utf8(answer(&args, &mask([true; 4]), "")).unwrap();
        assert!(
            text.contains(r#"[{},null,{"metadata":{}},{"metadata":{"name":""}}]"#),
            "{text}"
        );
    }
    assert_eq!(store.stats().nodes, 0);
    assert_eq!(hits_and_misses(&store), (0, 8));
}

#[test]
fn a_refused_body_changes_nothing_in_the_store() {
    let store = RequestStore::new(ROOMY);
    read(&body_of(&[("a", "1")], 9), Some(&store)).unwrap();
    let before = store.stats();
    let whole = body_of(&[("a", "1"), ("a", "2"), ("b", "1")], 9);
    for end in 0..whole.len() {
        assert!(read(&whole[..end], Some(&store)).is_err(), "{end}");
    }
    let mut trailing = whole.clone();
    trailing.push(b'x');
    let mut not_utf8 = whole.clone();
    let at = whole.windows(3).rposition(|three| three == b"xxx").unwrap();
    not_utf8[at] = 0xff;
    for bad in [trailing, not_utf8] {
        assert!(read(&bad, Some(&store)).is_err());
    }
    assert_eq!(store.stats(), before);
    assert_eq!(names(&store.nodes()), ["a"]);
    assert_eq!(label(&store.nodes(), "v"), [Some("1".into())]);
}

#[test]
fn refused_bodies_make_no_node_older_and_no_node_younger() {
    let bring = |store: &RequestStore, node: &str| {
        read(&body_of(&[(node, "1")], 200), Some(store)).unwrap();
    };
    let refuse = |store: &RequestStore, node: &str| {
        let mut body = body_of(&[(node, "1")], 200);
        body.push(b'x');
        assert!(read(&body, Some(store)).is_err());
    };
    let store = RequestStore::new(ROOMY);
    for node in ["a", "b"] {
        bring(&store, node);
    }
    // More than the requests after which a node that none of them brought is dropped.
    (0..6000).for_each(|_| refuse(&store, "c"));
    bring(&store, "c");
    assert_eq!(names(&store.nodes()), ["a", "b", "c"]);
    // Of two nodes where one has room, the one goes that was brought first, whoever asks for it.
    let store = RequestStore::new(2 * body_of(&[("a", "1")], 200).len() as u64);
    for node in ["a", "b"] {
        bring(&store, node);
    }
    refuse(&store, "a");
    bring(&store, "c");
    assert!(!store.contains("a") && store.contains("b") && store.contains("c"));
}

#[test]
fn the_nodes_of_a_request_stay_what_its_body_said() {
    let store = RequestStore::new(ROOMY);
    read(&body_of(&[("a", "1"), ("b", "1")], 9), Some(&store)).unwrap();
    let known = read(&body_of(&[("a", "1"), ("b", "1")], 9), Some(&store)).unwrap();
    let fresh = read(&body_of(&[("a", "2"), ("b", "2")], 9), Some(&store)).unwrap();
    read(&body_of(&[("a", "3")], 9), Some(&store)).unwrap();
    let version = |args: &kubextend_core::wire::ExtenderArgs| label(args.nodes().unwrap(), "v");
    assert_eq!(version(&known), [Some("1".into()), Some("1".into())]);
    assert_eq!(version(&fresh), [Some("2".into()), Some("2".into())]);
    let selector = Selector::parse("v=2").unwrap();
    assert_eq!(fresh.nodes().unwrap().matches(&selector).count(), 2);
    assert_eq!(known.nodes().unwrap().matches(&selector).count(), 0);
}

#[test]
fn a_body_larger_than_the_limit_is_read_and_not_kept() {
    let store = RequestStore::new(300);
    let args = read(&body_of(&[("a", "1"), ("b", "1")], 400), Some(&store)).unwrap();
    assert_eq!(names(args.nodes().unwrap()), ["a", "b"]);
    assert_eq!((store.stats().nodes, store.stats().bytes), (0, 0));
}

#[test]
fn nodes_that_fill_the_limit_to_the_byte_are_kept() {
    let node = versioned("a", "1", 100);
    let size = node.len() as u64;
    // Of a body that is mostly pod only the nodes' bytes are kept.
    let pod = format!(r#""Filler":"{}","Pod""#, "p".repeat(1000));
    let body = String::from_utf8(full_body(&[node])).unwrap();
    let body = body.replacen(r#""Pod""#, &pod, 1);
    for (limit, kept) in [(size - 1, 0), (size, 1), (size + 1, 1)] {
        let store = RequestStore::new(limit);
        read(body.as_bytes(), Some(&store)).unwrap();
        let stats = store.stats();
        assert_eq!((stats.nodes, stats.bytes), (kept, kept * size), "{limit}");
    }
}

#[test]
fn a_node_whose_bytes_move_is_as_recently_seen_as_before() {
    let bring = |store: &RequestStore, versions: &[(&str, &str)]| {
        read(&body_of(versions, 400), Some(store)).unwrap();
        store.stats().bytes
    };
    let until_moved = |store: &RequestStore| {
        bring(store, &[("moved", "1"), ("b", "1"), ("c", "1")]);
        bring(store, &[("old", "1")]);
        // Less than half of the first body is left: the node that stays moves out of it.
        bring(store, &[("b", "2"), ("c", "2"), ("moved", "1")])
    };
    let room = until_moved(&RequestStore::new(ROOMY));
    let store = RequestStore::new(room);
    assert_eq!(until_moved(&store), room);
    assert_eq!(hits_and_misses(&store), (1, 6));
    bring(&store, &[("new", "1")]);
    assert!(!store.contains("old"), "the one seen longest ago");
    assert!(store.contains("moved") && store.contains("new"));
}

#[test]
fn the_least_recently_seen_nodes_go_first_when_bytes_run_out() {
    let name = |i: usize| format!("n{i:02}");
    let bring = |store: &RequestStore, i: usize| {
        read(&body_of(&[(&name(i), "1")], 200), Some(store)).unwrap();
    };
    // Each body is mostly node, so all of it is kept and counts.
    let max_bytes = 10 * body_of(&[("n00", "1")], 200).len() as u64;
    let store = RequestStore::new(max_bytes);
    (0..10).for_each(|i| bring(&store, i));
    assert_eq!((store.stats().nodes, store.stats().bytes), (10, max_bytes));
    // Seen again: 0 and 1. The next ones in must push out 2 and 3 before those.
    bring(&store, 0);
    bring(&store, 1);
    assert_eq!(hits_and_misses(&store), (2, 10));
    (10..12).for_each(|i| bring(&store, i));
    assert_eq!((store.stats().nodes, store.stats().bytes), (10, max_bytes));
    for i in 0..12 {
        assert_eq!(store.contains(&name(i)), i != 2 && i != 3, "{i}");
    }
}

#[test]
fn nodes_that_thousands_of_requests_did_not_bring_are_dropped() {
    let store = RequestStore::new(ROOMY);
    read(&body_of(&[("old", "1"), ("kept", "1")], 5), Some(&store)).unwrap();
    for i in 0..6000 {
        let version = i.to_string();
        read(
            &body_of(&[("kept", "1"), ("busy", &version)], 5),
            Some(&store),
        )
        .unwrap();
        if i == 3000 {
            assert!(store.contains("old"), "dropped too early");
        }
    }
    assert!(!store.contains("old"));
    assert!(store.contains("kept") && store.contains("busy"));
    assert_eq!(
        store.stats().hits,
        6000,
        "what comes each time is recognised each time"
    );
}

#[test]
fn answers_of_selectors_follow_the_labels_of_a_request_store() {
    let store = RequestStore::new(ROOMY);
    let selector = Selector::parse("v in (1,2)").unwrap();
    for (version, expected) in [("1", true), ("3", false), ("2", true), ("4", false)] {
        let body = body_of(&[("a", version)], 5);
        for _ in 0..2 {
            let args = read(&body, Some(&store)).unwrap();
            assert_eq!(args.nodes().unwrap().matches(&selector), mask([expected]));
        }
    }
}

/// One request of the random sequences: which node in which version, and how it is spoiled.
#[derive(Debug, Clone)]
struct Request {
    nodes: Vec<(u8, u8)>,
    pod_filler: usize,
    spoiled: bool,
    kept: Vec<bool>,
}

fn request() -> impl Strategy<Value = Request> {
    (
        proptest::collection::vec((0..12u8, 0..4u8), 0..14),
        prop_oneof![Just(0usize), 0..4000usize],
        proptest::bool::weighted(0.1),
        proptest::collection::vec(any::<bool>(), 14),
    )
        .prop_map(|(nodes, pod_filler, spoiled, kept)| Request {
            nodes,
            pod_filler,
            spoiled,
            kept,
        })
}

fn object(node: u8, version: u8) -> String {
    // Sizes differ between nodes and versions, so that segments die in every proportion.
    let filler = 40 * usize::from(node % 5) + 97 * usize::from(version);
    versioned(&format!("n{node}"), &version.to_string(), filler)
}

impl Request {
    fn body(&self) -> Vec<u8> {
        let nodes: Vec<String> = self.nodes.iter().map(|&(n, v)| object(n, v)).collect();
        let mut text = String::from_utf8(full_body(&nodes)).unwrap();
        let filler = format!(r#""Filler":"{}","Pod""#, "p".repeat(self.pod_filler));
        text = text.replacen(r#""Pod""#, &filler, 1);
        if self.spoiled {
            text.pop();
        }
        text.into_bytes()
    }

    fn expected_items(&self) -> String {
        let kept = self.nodes.iter().zip(&self.kept).filter(|(_, kept)| **kept);
        let items: Vec<String> = kept.map(|(&(n, v), _)| object(n, v)).collect();
        format!(
            r#"{{"Nodes":{{"metadata":{{}},"items":[{}]}}"#,
            items.join(",")
        )
    }
}

/// What the store holds, read back from its nodes' labels.
fn stored_objects(store: &RequestStore) -> HashMap<String, String> {
    let nodes = store.nodes();
    let versions = label(&nodes, "v");
    names(&nodes)
        .into_iter()
        .zip(versions)
        .map(|(name, version)| {
            let node = name[1..].parse().unwrap();
            (name, object(node, version.unwrap().parse().unwrap()))
        })
        .collect()
}

proptest! {
    #![proptest_config(common::cases(200))]

    #[test]
    fn any_sequence_of_requests_agrees_with_a_slow_model(
        requests in proptest::collection::vec(request(), 1..40)
    ) {
        let store = RequestStore::new(ROOMY);
        let mut model: HashMap<String, String> = HashMap::new();
        let (mut hits, mut misses) = (0, 0);
        let selector = Selector::parse("v in (1,3)").unwrap();
        for request in &requests {
            let read = read(&request.body(), Some(&store));
            if request.spoiled {
                prop_assert!(read.is_err());
            } else {
                let args = read.unwrap();
                let nodes = args.nodes().unwrap();
                let versions: Vec<_> =
                    request.nodes.iter().map(|(_, v)| Some(v.to_string())).collect();
                prop_assert_eq!(label(nodes, "v"), versions);
                let odd = mask(request.nodes.iter().map(|(_, v)| v % 2 == 1));
                prop_assert_eq!(nodes.matches(&selector), odd);
                let kept = mask(request.kept[..nodes.len()].iter().copied());
                let written = String::from_utf8(answer(&args, &kept, "no")).unwrap();
                prop_assert!(written.starts_with(&request.expected_items()), "{}", written);
                let known = request.nodes.iter().filter(|(n, v)| {
                    model.get(&format!("n{n}")) == Some(&object(*n, *v))
                });
                let known = known.count() as u64;
                hits += known;
                misses += request.nodes.len() as u64 - known;
                let before = model.clone();
                for &(n, v) in &request.nodes {
                    // Only what was not recognised is written; the last of those stays.
                    let (name, text) = (format!("n{n}"), object(n, v));
                    if before.get(&name) != Some(&text) {
                        model.insert(name, text);
                    }
                }
            }
            prop_assert_eq!(&stored_objects(&store), &model);
            let stats = store.stats();
            prop_assert_eq!((stats.hits, stats.misses), (hits, misses));
            let live: u64 = model.values().map(|text| text.len() as u64).sum();
            prop_assert!((live..=2 * live).contains(&stats.bytes), "{} of {}", stats.bytes, live);
        }
    }

    #[test]
    fn a_small_store_never_holds_more_than_its_limit_and_never_loses_count(
        requests in proptest::collection::vec(request(), 1..60),
        max_bytes in 0..6000u64,
    ) {
        let store = RequestStore::new(max_bytes);
        for request in &requests {
            if let Ok(args) = read(&request.body(), Some(&store)) {
                let kept = mask(request.kept[..request.nodes.len()].iter().copied());
                let written = String::from_utf8(answer(&args, &kept, "no")).unwrap();
                prop_assert!(written.starts_with(&request.expected_items()), "{}", written);
            }
            let stats = store.stats();
            let live: u64 = stored_objects(&store).values().map(|text| text.len() as u64).sum();
            prop_assert!(stats.bytes <= max_bytes, "{} over {}", stats.bytes, max_bytes);
            prop_assert!((live..=2 * live).contains(&stats.bytes), "{} of {}", stats.bytes, live);
        }
    }
}
