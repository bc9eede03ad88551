//! The store that a watch fills: events, relists, cached answers of selectors, many threads.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{
    all_escaped, event, full_body, label, mask, names, names_body, node_json, node_list, read,
    read_watched,
};
use kubextend_core::labels::Selector;
use kubextend_core::node::{
    Body, Field, Mask, NodeStore, NodeStoreStats, Nodes, Parts, RequestStore,
};
use kubextend_core::wire::{Relist, apply, read_args, replace};
use proptest::prelude::*;

const ROOMY: u64 = 1 << 30;

fn watched(nodes: &[String]) -> Arc<NodeStore> {
    let store = Arc::new(NodeStore::new());
    relist(&store, nodes);
    store
}

fn relist(store: &Arc<NodeStore>, nodes: &[String]) -> bool {
    let mut relist = Relist::begin(store.clone());
    relist.page(&node_list(nodes)).unwrap();
    relist.commit()
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap()
}

/// A selector's answer, one node and one look-up at a time.
fn slowly(nodes: &Nodes, selector: &Selector) -> Mask {
    nodes.mask_of(|node| selector.matches(node.labels()))
}

#[test]
fn events_say_whether_anything_changed_that_plugins_read() {
    let store = watched(&[]);
    let heartbeat = |version: u32| {
        format!(
            r#"{{"metadata":{{"name":"a","resourceVersion":"{version}","labels":{{"x":"1"}}}},"status":{{"conditions":[{version}]}}}}"#
        )
    };
    let with = |spec: &str| format!(r#"{{"metadata":{{"name":"a","labels":{{"x":"1"}}}},{spec}}}"#);
    let unschedulable = with(r#""spec":{"unschedulable":true}"#);
    let tainted = with(r#""spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}"#);
    let larger = with(r#""status":{"allocatable":{"cpu":"2"}}"#);
    let as_large = with(r#""status":{"allocatable":{"cpu":"2000m"}}"#);
    let another = as_large.replace(r#""name":"a","#, r#""name":"a","uid":"u2","#);
    for (kind, object, changed) in [
        ("ADDED", heartbeat(1), true),
        ("MODIFIED", heartbeat(2), false),
        ("ADDED", heartbeat(3), false),
        ("MODIFIED", unschedulable.clone(), true),
        ("MODIFIED", unschedulable, false),
        ("MODIFIED", tainted, true),
        ("MODIFIED", larger, true),
        ("MODIFIED", as_large, false),
        ("MODIFIED", another, true),
        ("DELETED", heartbeat(4), true),
        ("DELETED", heartbeat(4), false),
    ] {
        let seen = apply(&*store, &event(kind, &object)).unwrap();
        assert_eq!(
            (seen.kind.as_str(), seen.changed),
            (kind, changed),
            "{kind} {object}"
        );
        assert_eq!(seen.name, "a");
    }
}

#[test]
fn bookmarks_and_errors_change_nothing() {
    let store = watched(&[node_json("a", &[], 0)]);
    let bookmark = apply(
        &*store,
        br#"{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"99"}}}"#,
    );
    let bookmark = bookmark.unwrap();
    assert_eq!(
        (bookmark.resource_version.as_str(), bookmark.changed),
        ("99", false)
    );
    let error = apply(
        &*store,
        br#"{"object":{"kind":"Status","code":410,"message":"too old"},"type":"ERROR"}"#,
    );
    let error = error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (410, "too old"));
    assert_eq!(names(&store.nodes()), ["a"]);
}

#[test]
fn what_is_not_an_event_is_refused_and_changes_nothing() {
    let store = watched(&[node_json("a", &[("x", "1")], 0)]);
    for bad in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"type":"ADDED"}"#,
        r#"{"type":"ADDED","object":null}"#,
        r#"{"type":"ADDED","object":{}}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":""}}}"#,
        r#"{"type":"added","object":{"metadata":{"name":"b"}}}"#,
        r#"{"type":"SYNC","object":{"metadata":{"name":"b"}}}"#,
        r#"{"object":{"metadata":{"name":"b"}}}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":"b"}}}}"#,
        r#"{"type":"ADDED","object":{"metadata":{"name":"b","labels":[]}}}"#,
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","labels":{"x":2}}}}"#,
        r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}"#,
        r#"{"type":7,"object":{"metadata":{"name":"b"}}}"#,
    ] {
        assert!(apply(&*store, bad.as_bytes()).is_err(), "{bad}");
        assert_eq!(names(&store.nodes()), ["a"], "{bad}");
        assert_eq!(label(&store.nodes(), "x"), [Some("1".into())], "{bad}");
    }
}

#[test]
fn what_is_wrong_in_an_event_is_named_by_its_place_in_the_event() {
    let store = watched(&[]);
    // What is wrong stands behind the mark.
    for (marked, expected) in [
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":@7}}}"#,
            "metadata.name: expected a string, found a number",
        ),
        (
            r#"{"object": {"metadata":{"name":"a","labels":@[]}},"type":"ADDED"}"#,
            "metadata.labels: expected an object, found a list",
        ),
        (
            r#"{"type":"ADDED","object":@{"metadata":{}}}"#,
            "a node without metadata.name",
        ),
        (
            r#"{"type":"ERROR","object":{"code":@"410"}}"#,
            "code: expected an integer, found a string",
        ),
        (
            r#"{"type":"BOOKMARK","object":@[]}"#,
            "expected an object, found a list",
        ),
    ] {
        let body = marked.replace('@', "");
        let error = apply(&*store, body.as_bytes()).unwrap_err().to_string();
        let at = marked.find('@').unwrap();
        assert_eq!(error, format!("byte {at}: {expected}"), "{body}");
    }
}

#[test]
fn names_are_counted_by_the_store_that_they_are_looked_up_in() {
    let (watched, requests) = (watched(&[node_json("a", &[], 0)]), RequestStore::new(ROOMY));
    let counts = |stats: NodeStoreStats| (stats.hits, stats.misses);
    let body = || Body::new(names_body(&["a", "b", "a"]));
    read_args(body(), Some(&requests), Some(&watched)).unwrap();
    assert_eq!(
        (counts(watched.stats()), counts(requests.stats())),
        ((2, 1), (0, 0))
    );
    read_args(body(), Some(&requests), None).unwrap();
    assert_eq!(
        (counts(watched.stats()), counts(requests.stats())),
        ((2, 1), (0, 3))
    );
}

#[test]
fn a_relist_is_invisible_until_its_commit_and_leaves_no_ghosts() {
    let store = watched(&[node_json("a", &[("x", "1")], 0), node_json("ghost", &[], 0)]);
    let before = store.nodes();
    let mut relist = Relist::begin(store.clone());
    relist
        .page(&node_list(&[node_json("a", &[("x", "2")], 0)]))
        .unwrap();
    apply(&*store, &event("ADDED", &node_json("late", &[], 0))).unwrap();
    assert!(
        relist
            .page(br#"{"items":[{"metadata":{"name":"half"}},{}]}"#)
            .is_err()
    );
    relist.page(&node_list(&[node_json("b", &[], 0)])).unwrap();
    assert_eq!(names(&store.nodes()), ["a", "ghost", "late"]);
    assert_eq!(label(&store.nodes(), "x")[0], Some("1".into()));
    assert!(relist.commit());
    let mut now = names(&store.nodes());
    now.sort();
    assert_eq!(
        now,
        ["a", "b"],
        "nothing of a refused page, nothing that was not listed"
    );
    assert!(!store.contains("ghost") && !store.contains("late") && !store.contains("half"));
    assert_eq!(names(&before), ["a", "ghost"], "what was read stays");
    let latest = store.latest(&before);
    assert_eq!(names(&latest), ["a", "ghost"]);
    assert_eq!(latest.known(), mask([true, false]));
    assert_eq!(label(&latest, "x"), [Some("2".into()), None]);
}

#[test]
fn a_relist_that_is_given_up_changes_nothing() {
    let store = watched(&[node_json("a", &[], 0)]);
    let mut relist = Relist::begin(store.clone());
    relist.page(&node_list(&[node_json("b", &[], 0)])).unwrap();
    drop(relist);
    assert_eq!(names(&store.nodes()), ["a"]);
}

#[test]
fn the_same_list_again_changes_nothing_and_an_empty_one_empties() {
    let nodes = [node_json("a", &[("x", "1")], 0), node_json("b", &[], 0)];
    let store = watched(&nodes);
    assert!(!relist(&store, &nodes));
    assert!(relist(&store, &[]));
    assert_eq!(store.nodes().len(), 0);
    assert!(!relist(&store, &[]));
}

#[test]
fn a_list_that_changes_only_its_first_node_changed_something() {
    let [a, changed, b] = [("a", "1"), ("a", "2"), ("b", "1")]
        .map(|(name, label)| node_json(name, &[("x", label)], 0));
    let store = watched(&[a.clone(), b.clone()]);
    assert!(relist(&store, &[changed.clone(), b.clone()]));
    assert!(relist(&store, &[changed]), "b is gone");
    assert!(relist(&store, &[a, b]));
}

#[test]
fn what_changed_is_seen_although_an_event_after_it_changed_nothing() {
    let object = |label: &str| node_json("a", &[("x", label)], 0);
    for (kind, nothing) in [
        ("MODIFIED", object("2")),
        ("DELETED", node_json("unheard-of", &[], 0)),
    ] {
        let store = watched(&[object("1")]);
        assert_eq!(label(&store.nodes(), "x"), [Some("1".into())]);
        assert!(
            apply(&*store, &event("MODIFIED", &object("2")))
                .unwrap()
                .changed
        );
        assert!(!apply(&*store, &event(kind, &nothing)).unwrap().changed);
        assert_eq!(label(&store.nodes(), "x"), [Some("2".into())], "{kind}");
    }
}

#[test]
fn a_node_that_goes_leaves_its_place_to_the_next_and_all_others_theirs() {
    let node = |i: usize| node_json(&format!("n{i:03}"), &[("x", &i.to_string())], 0);
    let store = watched(&(0..130).map(node).collect::<Vec<_>>());
    let gone = [0, 63, 64, 100, 129];
    for i in gone {
        assert!(apply(&*store, &event("DELETED", &node(i))).unwrap().changed);
        let name = format!("n{i:03}");
        assert!(!store.contains(&name), "{i}");
        assert_eq!(store.select([name.as_str()]).known(), mask([false]), "{i}");
    }
    let mut expected: Vec<usize> = (0..130).filter(|i| !gone.contains(i)).collect();
    for i in 200..210 {
        apply(&*store, &event("ADDED", &node(i))).unwrap();
        expected.push(i);
    }
    let nodes = store.nodes();
    let mut found: Vec<(String, Option<String>)> =
        names(&nodes).into_iter().zip(label(&nodes, "x")).collect();
    found.sort();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|i| (format!("n{i:03}"), Some(i.to_string())))
        .collect();
    assert_eq!(found, expected);
    for (name, _) in &expected {
        assert_eq!(names(&store.named(name).unwrap()), [name.as_str()]);
    }
}

#[test]
fn no_text_outlives_its_node_although_all_texts_were_read() {
    let parts = Parts {
        details: true,
        ..Parts::default()
    };
    let store = Arc::new(NodeStore::with_parts(parts));
    // No pool keeps a text of this length.
    let text = "t".repeat(1000);
    let node = format!(
        r#"{{"metadata":{{"name":"n","labels":{{"k":"{text}"}},"annotations":{{"k":"{text}"}}}}}}"#
    );
    apply(&*store, &event("ADDED", &node)).unwrap();
    let read = |field| store.nodes().texts(field, "k").remove(0).unwrap();
    let texts = [Field::Labels, Field::Annotations].map(read);
    apply(&*store, &event("DELETED", &node)).unwrap();
    assert!(store.nodes().is_empty());
    assert_eq!(texts.map(|text| Arc::strong_count(&text)), [1, 1]);
}

#[test]
fn a_text_that_was_read_is_in_memory_once_after_its_node_changed() {
    let parts = Parts {
        details: true,
        ..Parts::default()
    };
    let store = Arc::new(NodeStore::with_parts(parts));
    let text = "t".repeat(1000);
    let node = |version: u32| {
        format!(
            r#"{{"metadata":{{"name":"n","labels":{{"k":"{text}","version":"{version}"}},"annotations":{{"k":"{text}"}}}}}}"#
        )
    };
    apply(&*store, &event("ADDED", &node(1))).unwrap();
    let read = |field| store.nodes().texts(field, "k").remove(0).unwrap();
    let old = [Field::Labels, Field::Annotations].map(read);
    apply(&*store, &event("MODIFIED", &node(2))).unwrap();
    let new = [Field::Labels, Field::Annotations].map(read);
    assert_eq!(new, old);
    assert_eq!(old.map(|text| Arc::strong_count(&text)), [1, 1]);
}

#[test]
fn terms_on_fields_ask_for_the_names_of_the_nodes() {
    let affinity = |kind: &str, terms: &str| {
        let field = format!("{kind}DuringSchedulingIgnoredDuringExecution");
        let body = format!(
            r#"{{"Pod":{{"spec":{{"affinity":{{"nodeAffinity":{{"{field}":{terms}}}}}}}}},"NodeNames":["b","ghost","a"]}}"#
        );
        let store = watched(&[node_json("a", &[], 0), node_json("b", &[], 0)]);
        read_watched(body.as_bytes(), &store).unwrap()
    };
    let on_a = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}"#;
    let required = affinity("required", &format!(r#"{{"nodeSelectorTerms":[{on_a}]}}"#));
    let nodes = required.nodes().unwrap();
    let matched = nodes.affine_to(&required.pod().unwrap().required);
    assert_eq!(matched, mask([false, false, true]));
    let preferred = affinity(
        "preferred",
        &format!(r#"[{{"weight":7,"preference":{on_a}}}]"#),
    );
    let nodes = preferred.nodes().unwrap();
    let scores = nodes
        .preferred_by(&preferred.pod().unwrap().preferred)
        .unwrap();
    assert_eq!(scores, [0, 0, 7]);
}

#[test]
fn nodes_that_are_kept_share_the_memory_of_the_same_nodes_that_were_kept_last() {
    let store = watched(&["a", "b"].map(|name| node_json(name, &[("x", "old")], 0)));
    let ask = |asked: &[&str]| {
        let args = read_watched(&names_body(asked), &store).unwrap();
        args.nodes().unwrap().clone()
    };
    let keep = |asked: &[&str]| store.kept(&ask(asked));
    let kept = keep(&["a", "b"]);
    // Requests between them whose nodes nobody keeps change nothing.
    ask(&["b", "a"]);
    assert!(Arc::ptr_eq(&kept, &keep(&["a", "b"])));
    for other in [&["b", "a"][..], &["a"], &["a", "b", "a"], &["a", "c"]] {
        let kept = keep(&["a", "b"]);
        let other_kept = keep(other);
        assert!(!Arc::ptr_eq(&kept, &other_kept));
        assert_eq!(names(&other_kept), other);
    }
    let unknown = keep(&["a", "c"]);
    assert_eq!(names(&unknown), ["a", "c"]);
    assert_eq!(names(&keep(&["a", "d"])), ["a", "d"]);
    let before = keep(&["a", "b"]);
    apply(
        &*store,
        &event("MODIFIED", &node_json("b", &[("x", "new")], 0)),
    )
    .unwrap();
    let after = keep(&["a", "b"]);
    let labels = [&before, &after].map(|nodes| label(nodes, "x").pop().flatten());
    assert_eq!(labels, [Some("old".into()), Some("new".into())]);
    let gone = Arc::downgrade(&after);
    drop(after);
    assert_eq!(gone.strong_count(), 0, "the store keeps nodes by itself");
}

#[test]
fn a_name_that_was_unknown_is_known_once_the_watch_has_brought_its_node() {
    let store = watched(&[node_json("a", &[("x", "1")], 0)]);
    let args = read_watched(&names_body(&["new", "a", "ghost"]), &store).unwrap();
    let asked = args.nodes().unwrap();
    let new = node_json("new", &[("x", "2")], 0);
    apply(&*store, &event("ADDED", &new)).unwrap();
    assert_eq!(asked.known(), mask([false, true, false]));
    let latest = store.latest(asked);
    assert_eq!(names(&latest), ["new", "a", "ghost"]);
    assert_eq!(latest.known(), mask([true, true, false]));
    assert_eq!(
        label(&latest, "x"),
        [Some("2".into()), Some("1".into()), None]
    );
}

#[test]
fn a_page_of_a_list_does_not_replace_the_whole() {
    let store = watched(&[node_json("a", &[], 0), node_json("b", &[], 0)]);
    let page =
        br#"{"metadata":{"resourceVersion":"5","continue":"tok"},"items":[{"metadata":{"name":"c"}}]}"#;
    let refused = replace(&store, page).unwrap_err().to_string();
    assert!(refused.contains("not the whole list"), "{refused}");
    assert_eq!(names(&store.nodes()), ["a", "b"]);
    let whole =
        br#"{"metadata":{"resourceVersion":"6","continue":""},"items":[{"metadata":{"name":"c"}}]}"#;
    assert_eq!(replace(&store, whole).unwrap(), "6");
    assert_eq!(names(&store.nodes()), ["c"]);
}

#[test]
fn pages_say_their_version_their_continuation_and_their_size() {
    let store = Arc::new(NodeStore::new());
    let mut relist = Relist::begin(store);
    let page = br#"{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"tok","resourceVersion":"5"}}"#;
    let page = relist.page(page).unwrap();
    assert_eq!(
        (
            page.resource_version.as_str(),
            page.continue_token.as_str(),
            page.items
        ),
        ("5", "tok", 1)
    );
    let last = relist
        .page(br#"{"metadata":{"resourceVersion":"5"},"items":null}"#)
        .unwrap();
    assert_eq!((last.continue_token.as_str(), last.items), ("", 0));
    for bad in [
        "null",
        "[]",
        "",
        r#"{"items":{}}"#,
        r#"{"items":[null]}"#,
        "{}x",
    ] {
        assert!(relist.page(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn no_request_ever_changes_a_watched_store() {
    let (store, requests) = (
        watched(&[node_json("a", &[("x", "1")], 0)]),
        RequestStore::new(ROOMY),
    );
    let body = full_body(&[node_json("a", &[("x", "2")], 9), node_json("b", &[], 9)]);
    for with in [None, Some(&requests)] {
        let args = read_args(Body::new(body.clone()), with, Some(&store)).unwrap();
        assert_eq!(label(args.nodes().unwrap(), "x"), [Some("2".into()), None]);
    }
    assert_eq!(names(&store.nodes()), ["a"]);
    assert_eq!(label(&store.nodes(), "x"), [Some("1".into())]);
    let stats = store.stats();
    assert_eq!((stats.bytes, stats.hits, stats.misses), (0, 0, 0));
    assert_eq!(names(&requests.nodes()), ["a", "b"]);
}

#[test]
fn names_are_found_in_any_order_and_unknown_ones_match_nothing() {
    let nodes: Vec<String> = (0..200)
        .map(|i| node_json(&format!("n{i}"), &[("x", "1")], 0))
        .collect();
    let store = watched(&nodes);
    let forwards: Vec<String> = (0..200).map(|i| format!("n{i}")).collect();
    let mut asked: Vec<&str> = forwards.iter().map(String::as_str).collect();
    asked.reverse();
    asked.extend(["", "n", "n200", "n7", "n7", "n8"]);
    let args = read_watched(&names_body(&asked), &store).unwrap();
    let found = args.nodes().unwrap();
    assert_eq!(names(found), asked);
    let known = mask(
        asked
            .iter()
            .map(|name| forwards.iter().any(|known| known == name)),
    );
    assert_eq!(found.known(), known);
    assert_eq!(found.matches(&selector("x=1")), known);
    assert_eq!(
        found.matches(&selector("!x")).count(),
        0,
        "an unknown node matches nothing"
    );
    assert_eq!(found.known_count(), known.count());
}

const SELECTORS: [&str; 7] = ["", "x=1", "x", "!x", "x in (1,2),y", "y!=2", "x>1"];

#[derive(Debug, Clone)]
enum Step {
    Put {
        node: u8,
        labels: Labels,
        heartbeat: u8,
        cordoned: bool,
    },
    Delete(u8),
    Relist(Vec<(u8, Labels)>),
    Refused,
    Look(usize),
    RequestWithNames(Vec<u8>),
}

type Labels = (Option<u8>, Option<u8>);

fn object(node: u8, labels: Labels, heartbeat: u8, cordoned: bool) -> String {
    let pairs: Vec<String> = [("x", labels.0), ("y", labels.1)]
        .iter()
        .filter_map(|(key, value)| Some(format!(r#""{key}":"{}""#, (*value)?)))
        .collect();
    let annotation = annotation(labels, cordoned)
        .map(|value| format!(r#""x":"{value}""#))
        .unwrap_or_default();
    format!(
        r#"{{"metadata":{{"name":"n{node}","resourceVersion":"{heartbeat}","labels":{{{}}},"annotations":{{{annotation}}}}},"spec":{{"unschedulable":{cordoned}}}}}"#,
        pairs.join(",")
    )
}

/// The annotation `x` of such a node: it changes with the labels, without them, comes and goes.
fn annotation(labels: Labels, cordoned: bool) -> Option<String> {
    (labels.1? > 1).then(|| cordoned.to_string())
}

fn labels() -> impl Strategy<Value = Labels> {
    (proptest::option::of(0..4u8), proptest::option::of(0..4u8))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..100u8, labels(), any::<u8>(), any::<bool>()).prop_map(
            |(node, labels, heartbeat, cordoned)| Step::Put { node, labels, heartbeat, cordoned }),
        2 => (0..100u8).prop_map(Step::Delete),
        1 => proptest::collection::vec((0..100u8, labels()), 0..90).prop_map(Step::Relist),
        1 => Just(Step::Refused),
        3 => (0..SELECTORS.len()).prop_map(Step::Look),
        1 => proptest::collection::vec(0..110u8, 0..30).prop_map(Step::RequestWithNames),
    ]
}

type Model = BTreeMap<String, (Labels, bool)>;

/// The labels of a name in the model, for the oracle.
fn model_labels(model: &Model, name: &str) -> Option<BTreeMap<String, String>> {
    let ((x, y), _) = model.get(name)?;
    let pairs = [("x", x), ("y", y)];
    Some(
        pairs
            .iter()
            .filter_map(|(key, value)| Some(((*key).to_owned(), value.as_ref()?.to_string())))
            .collect(),
    )
}

fn check(nodes: &Nodes, model: &Model, which: usize) -> Result<(), TestCaseError> {
    let selector = selector(SELECTORS[which]);
    let expected = mask((0..nodes.len()).map(|at| {
        model_labels(model, nodes.name(at)).is_some_and(|labels| selector.matches(&labels))
    }));
    prop_assert_eq!(nodes.matches(&selector), expected, "{}", SELECTORS[which]);
    let cordoned = mask((0..nodes.len()).map(|at| model.get(nodes.name(at)).is_some_and(|n| n.1)));
    prop_assert_eq!(
        nodes.mask_of(kubextend_core::node::Node::unschedulable),
        cordoned
    );
    let known = mask((0..nodes.len()).map(|at| model.contains_key(nodes.name(at))));
    prop_assert_eq!(nodes.known(), known);
    // Some of the snapshots are asked for one key only, so that a column is made at any moment.
    for key in ["x", "y"].into_iter().skip(which % 2) {
        let value = |at| model_labels(model, nodes.name(at))?.remove(key);
        let expected: Vec<Option<String>> = (0..nodes.len()).map(value).collect();
        prop_assert_eq!(texts(nodes, Field::Labels, key), expected);
    }
    if which.is_multiple_of(3) {
        let value = |at| {
            let (labels, cordoned) = model.get(nodes.name(at))?;
            annotation(*labels, *cordoned)
        };
        let expected: Vec<Option<String>> = (0..nodes.len()).map(value).collect();
        prop_assert_eq!(texts(nodes, Field::Annotations, "x"), expected);
    }
    Ok(())
}

fn texts(nodes: &Nodes, field: Field, key: &str) -> Vec<Option<String>> {
    let texts = nodes.texts(field, key).into_iter();
    texts.map(|text| Some((*text?).to_owned())).collect()
}

fn take(store: &Arc<NodeStore>, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::Put {
            node,
            labels,
            heartbeat,
            cordoned,
        } => {
            let new = (*labels, *cordoned);
            let old = model.insert(format!("n{node}"), new);
            let sent = event("MODIFIED", &object(*node, *labels, *heartbeat, *cordoned));
            prop_assert_eq!(apply(&**store, &sent).unwrap().changed, old != Some(new));
        }
        Step::Delete(node) => {
            let was = model.remove(&format!("n{node}")).is_some();
            let sent = event("DELETED", &object(*node, (None, None), 0, false));
            prop_assert_eq!(apply(&**store, &sent).unwrap().changed, was);
        }
        Step::Relist(listed) => {
            let old = std::mem::take(model);
            for (node, labels) in listed {
                model.insert(format!("n{node}"), (*labels, false));
            }
            let nodes: Vec<String> = listed
                .iter()
                .map(|(n, labels)| object(*n, *labels, 1, false))
                .collect();
            let changed = relist(store, &nodes);
            // A name listed twice may change back and forth on the way.
            prop_assert!(changed || old == *model);
            prop_assert!(!changed || old != *model || listed.len() > model.len());
        }
        Step::Refused => {
            let unnamed = event("ADDED", "{}");
            prop_assert!(apply(&**store, &unnamed).is_err());
        }
        Step::Look(which) => check(&store.nodes(), model, *which)?,
        Step::RequestWithNames(wanted) => {
            let wanted: Vec<String> = wanted.iter().map(|node| format!("n{node}")).collect();
            let asked: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let args = read_watched(&names_body(&asked), store).unwrap();
            let nodes = args.nodes().unwrap();
            prop_assert_eq!(&names(nodes), &wanted);
            for which in 0..SELECTORS.len() {
                check(nodes, model, which)?;
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::cases(150))]

    #[test]
    fn any_sequence_of_events_agrees_with_a_slow_model(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let parts = Parts { details: true, ..Parts::default() };
        let store = Arc::new(NodeStore::with_parts(parts));
        let mut model = Model::new();
        let mut earlier: Vec<(Nodes, Model)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            take(&store, &mut model, step)?;
            prop_assert_eq!(store.stats().nodes, model.len() as u64);
            if at % 17 == 0 {
                earlier.push((store.nodes(), model.clone()));
            }
        }
        for (nodes, then) in &earlier {
            let latest = store.latest(nodes);
            prop_assert_eq!(names(&latest), names(nodes));
            for which in 0..SELECTORS.len() {
                check(nodes, then, which)?;
                check(&latest, &model, which)?;
            }
        }
        let mut stored = names(&store.nodes());
        stored.sort();
        prop_assert_eq!(stored, model.keys().cloned().collect::<Vec<_>>());
    }
}

fn epoch_list(epoch: usize, count: usize) -> Vec<String> {
    let epoch = epoch.to_string();
    let wave = |i: usize| if i.is_multiple_of(2) { "even" } else { "odd" };
    (0..count)
        .map(|i| node_json(&format!("n{i}"), &[("epoch", &epoch), ("wave", wave(i))], 0))
        .collect()
}

#[test]
fn readers_always_see_one_whole_list_while_a_writer_swaps_lists() {
    const NODES: usize = 150;
    let store = watched(&epoch_list(0, NODES));
    let lists: Vec<Vec<u8>> = (1..40)
        .map(|e| node_list(&epoch_list(e, NODES - e % 3)))
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for reader in 0..3 {
            let (store, done) = (&store, &done);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let nodes = store.nodes();
                    let epochs = label(&nodes, "epoch");
                    let epoch = epochs[0].clone().unwrap();
                    assert!(epochs.iter().all(|other| other.as_ref() == Some(&epoch)));
                    let number: usize = epoch.parse().unwrap();
                    assert_eq!(
                        nodes.len(),
                        if number == 0 {
                            NODES
                        } else {
                            NODES - number % 3
                        }
                    );
                    for text in [
                        format!("epoch={epoch}"),
                        format!("wave=odd,epoch!={reader}"),
                    ] {
                        let selector = selector(&text);
                        assert_eq!(
                            nodes.matches(&selector),
                            slowly(&nodes, &selector),
                            "{text}"
                        );
                    }
                }
            });
        }
        for list in &lists {
            let mut relist = Relist::begin(store.clone());
            relist.page(list).unwrap();
            relist.commit();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_writer_reads_its_own_write_while_others_read_too() {
    // Enough rows and selectors for publishing to take a while: who looks while another thread
    // publishes must not be given the snapshot before it.
    const NODES: usize = 1000;
    let store = watched(&epoch_list(0, NODES));
    for i in 0..40 {
        store
            .nodes()
            .matches(&selector(&format!("wave=odd,x!={i}")));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(store.contains("n0"));
            }
        });
        let mut missed = 0;
        for version in 0..400 {
            let version = version.to_string();
            let node = node_json("n0", &[("version", &version)], 0);
            apply(&*store, &event("MODIFIED", &node)).unwrap();
            // Time for the other thread to begin.
            std::thread::sleep(std::time::Duration::from_micros(50));
            let args = read_watched(&names_body(&["n0"]), &store).unwrap();
            missed += usize::from(label(args.nodes().unwrap(), "version") != [Some(version)]);
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(
            missed, 0,
            "looks that missed a write that was done before them"
        );
    });
}

#[test]
fn full_mode_requests_from_many_threads_never_mix() {
    let store = RequestStore::new(60_000);
    std::thread::scope(|threads| {
        for thread in 0..4usize {
            let store = &store;
            threads.spawn(move || {
                for round in 0..150usize {
                    let version = format!("{thread}-{round}");
                    let nodes: Vec<String> = (0..20)
                        .map(|i| {
                            let own = (i + round) % 3 == 0;
                            let version = if own { version.as_str() } else { "same" };
                            node_json(&format!("n{i}"), &[("v", version)], 300 * (i % 7))
                        })
                        .collect();
                    let args = read(&full_body(&nodes), Some(store)).unwrap();
                    let all = mask([true; 20]);
                    let written = String::from_utf8(common::answer(&args, &all, "")).unwrap();
                    assert!(written.contains(&nodes.join(",")));
                    let own = selector(&format!("v={version}"));
                    let expected = mask((0..20).map(|i| (i + round) % 3 == 0));
                    assert_eq!(args.nodes().unwrap().matches(&own), expected);
                }
            });
        }
    });
    let stats = store.stats();
    assert!(stats.bytes <= 60_000, "{stats:?}");
    assert_eq!(stats.hits + stats.misses, 4 * 150 * 20);
}

/// Names with and without characters that JSON escapes; some begin as others do.
fn a_name() -> impl Strategy<Value = String> {
    "n[0-3]{0,2}[\"\\\\\u{1f}é]{0,1}"
}

proptest! {
    #![proptest_config(common::cases(300))]

    /// The row behind the last one is tried first, so what came before decides how a name is found.
    #[test]
    fn names_are_found_in_any_order_and_however_they_are_written(
        stored in proptest::collection::btree_set(a_name(), 0..20),
        runs in proptest::collection::vec((0..20usize, 1..6usize), 0..6),
        others in proptest::collection::vec(a_name(), 0..6),
        escaped in proptest::collection::vec(any::<bool>(), 1..8),
        gone in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut known: Vec<&String> = stored.iter().collect();
        let json = |name: &String| serde_json::json!({ "metadata": { "name": name } }).to_string();
        let store = watched(&known.iter().map(|name| json(name)).collect::<Vec<_>>());
        if let (Some(gone), false) = (gone, known.is_empty()) {
            let name = known.remove(gone.index(known.len()));
            apply(&*store, &event("DELETED", &json(name))).unwrap();
        }
        let rows = runs.iter().flat_map(|(from, len)| stored.iter().skip(*from).take(*len));
        let asked: Vec<&String> = rows.chain(&others).collect();
        let written = asked.iter().zip(escaped.iter().cycle()).map(|(name, escaped)| {
            if *escaped { all_escaped(name) } else { serde_json::to_string(name).unwrap() }
        });
        let body = format!(r#"{{"NodeNames":[{}]}}"#, written.collect::<Vec<_>>().join(", "));
        let nodes = read_watched(body.as_bytes(), &store).unwrap().nodes().unwrap().clone();
        let all = names(&nodes);
        prop_assert_eq!(&all.iter().collect::<Vec<_>>(), &asked);
        let expected = asked.iter().map(|name| known.contains(name));
        prop_assert_eq!(nodes.known(), mask(expected));
        for (at, name) in asked.iter().enumerate() {
            let found = nodes.node(at).map(|node| node.name().to_owned());
            prop_assert_eq!(found, known.contains(name).then(|| (*name).clone()));
        }
    }
}
