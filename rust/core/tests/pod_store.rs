//! The store of pods: what a watch shows, the ledger of assumed pods, and what nodes carry.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{cases, event, node_json, node_list};
use kubextend_core::node::NodeStore;
use kubextend_core::pod::{Pod, PodSnapshot, PodStore, Unassumable, Word};
use kubextend_core::wire::{Relist, WatchEvent, apply, replace};
use proptest::prelude::*;

/// A pod as the API shows it; everything that a test changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    name: String,
    uid: String,
    node: String,
    nominated: &'static str,
    phase: &'static str,
    namespace: &'static str,
    cpu_milli: i64,
}

impl Shown {
    fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            node: String::new(),
            nominated: "",
            phase: "Pending",
            namespace: "ns",
            cpu_milli: 100,
        }
    }

    fn on(&self, node: &str) -> Self {
        Self {
            node: node.to_owned(),
            phase: "Running",
            ..self.clone()
        }
    }

    fn phase(&self, phase: &'static str) -> Self {
        Self {
            phase,
            ..self.clone()
        }
    }

    /// The pod as JSON; the label `size` is how much cpu it asks for.
    fn json(&self) -> String {
        let Self {
            name,
            uid,
            namespace,
            ..
        } = self;
        let cpu = self.cpu_milli;
        let metadata = format!(
            r#""name":{name:?},"namespace":{namespace:?},"uid":{uid:?},"labels":{{"size":"{cpu}"}}"#
        );
        let requests = format!(r#"{{"requests":{{"cpu":"{cpu}m","memory":"1Gi"}}}}"#);
        let spec = format!(
            r#""nodeName":{:?},"containers":[{{"name":"c","resources":{requests}}}]"#,
            self.node
        );
        let status = format!(
            r#""phase":{:?},"nominatedNodeName":{:?}"#,
            self.phase, self.nominated
        );
        format!(r#"{{"metadata":{{{metadata}}},"spec":{{{spec}}},"status":{{{status}}}}}"#)
    }

    /// The pod as a request would bring it.
    fn pod(&self) -> Arc<Pod> {
        let store = PodStore::new();
        send(&store, "ADDED", &self.phase("Pending"));
        store.get(&self.uid).unwrap()
    }
}

fn send(store: &PodStore, kind: &str, pod: &Shown) -> WatchEvent<Pod> {
    apply(store, &event(kind, &pod.json())).unwrap()
}

fn relist(store: &Arc<PodStore>, pods: &[Shown]) -> bool {
    let pods: Vec<String> = pods.iter().map(Shown::json).collect();
    let mut relist = Relist::begin(store.clone());
    for page in pods.chunks(2) {
        relist.page(&node_list(page)).unwrap();
    }
    relist.commit()
}

/// Names and cpu of what takes room on a node.
fn on(snapshot: &PodSnapshot, node: &str) -> (Vec<String>, i64) {
    let mut names: Vec<String> = snapshot
        .pods_on(node)
        .iter()
        .map(|pod| pod.name.clone())
        .collect();
    names.sort();
    (names, snapshot.requested_on(node, "cpu"))
}

fn carried(store: &PodStore, node: &str) -> (Vec<String>, i64) {
    on(&store.snapshot(), node)
}

fn names(expected: &[&str]) -> Vec<String> {
    expected.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pod_takes_room_from_its_binding_until_it_ends() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1");
    for (kind, shown, changed, expected) in [
        ("ADDED", pod.clone(), true, (names(&[]), 0)),
        ("ADDED", pod.clone(), false, (names(&[]), 0)),
        ("MODIFIED", pod.on("n1"), true, (names(&["a"]), 100)),
        ("MODIFIED", pod.on("n1"), false, (names(&["a"]), 100)),
        (
            "MODIFIED",
            pod.on("n1").phase("Failed"),
            true,
            (names(&[]), 0),
        ),
        (
            "MODIFIED",
            pod.on("n1").phase("Failed"),
            false,
            (names(&[]), 0),
        ),
        (
            "DELETED",
            pod.on("n1").phase("Failed"),
            false,
            (names(&[]), 0),
        ),
    ] {
        let seen = send(&store, kind, &shown);
        assert_eq!(seen.changed, changed, "{kind} {shown:?}");
        assert_eq!(seen.object.unwrap().uid, "u1");
        assert_eq!(carried(&store, "n1"), expected, "{kind} {shown:?}");
    }
    assert!(store.is_empty());
}

#[test]
fn an_assumed_pod_takes_room_until_the_watch_decides() {
    let pod = Shown::new("a", "u1");
    let other = Shown::new("a", "u2");
    let on_n1 = (names(&["a"]), 100);
    let nowhere = (names(&[]), 0);
    for (what, kind, shown, n1, n2) in [
        ("seen pending", "ADDED", pod.clone(), &on_n1, &nowhere),
        ("bound there", "MODIFIED", pod.on("n1"), &on_n1, &nowhere),
        (
            "bound elsewhere",
            "MODIFIED",
            pod.on("n2"),
            &nowhere,
            &on_n1,
        ),
        (
            "ended",
            "MODIFIED",
            pod.phase("Succeeded"),
            &nowhere,
            &nowhere,
        ),
        ("deleted", "DELETED", pod.clone(), &nowhere, &nowhere),
        (
            "another of its name",
            "ADDED",
            other.clone(),
            &on_n1,
            &nowhere,
        ),
    ] {
        for known in [false, true] {
            let store = PodStore::new();
            if known {
                send(&store, "ADDED", &pod);
            }
            store.assume(&pod.pod(), "n1").unwrap();
            assert_eq!(carried(&store, "n1"), on_n1, "{what}");
            send(&store, kind, &shown);
            // A pod of the same name in its place means that the known one is gone.
            let gone = known && shown.uid != pod.uid;
            assert_eq!(
                &carried(&store, "n1"),
                if gone { &nowhere } else { n1 },
                "{what}"
            );
            assert_eq!(&carried(&store, "n2"), n2, "{what}");
        }
    }
}

#[test]
fn an_assumed_pod_names_the_node_that_it_is_assumed_on() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1").pod();
    store.assume(&pod, "n1").unwrap();
    store.assume(&pod, "n2").unwrap();
    assert_eq!(carried(&store, "n1").0, names(&[]));
    assert_eq!(store.snapshot().pods_on("n2")[0].node_name, "n2");
    assert_eq!(store.assumed()[0].node_name, "n2");
    assert_eq!(store.assumed().len(), 1);
    assert!(store.get("u1").is_none(), "the watch has not shown it");
    assert!(store.forget("u1"));
    assert!(!store.forget("u1"));
    assert!(store.snapshot().is_empty());
}

#[test]
fn a_pod_that_the_watch_shows_bound_cannot_be_moved_by_assuming_it() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1");
    send(&store, "ADDED", &pod.on("n1"));
    store.assume(&pod.pod(), "n2").unwrap();
    assert_eq!(carried(&store, "n1").0, names(&["a"]));
    assert_eq!(carried(&store, "n2").0, names(&[]));
    assert!(store.assumed().is_empty());
    assert!(!store.forget("u1"));
}

#[test]
fn an_assumed_pod_asks_for_what_the_watch_says_last() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1");
    store.assume(&pod.pod(), "n1").unwrap();
    let larger = Shown {
        cpu_milli: 700,
        ..pod.clone()
    };
    send(&store, "MODIFIED", &larger);
    assert_eq!(carried(&store, "n1"), (names(&["a"]), 700));
    store.assume(&pod.pod(), "n2").unwrap();
    assert_eq!(carried(&store, "n2"), (names(&["a"]), 700));
}

#[test]
fn what_cannot_be_assumed_is_refused() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1").pod();
    let nameless = Arc::new(Pod::default());
    assert_eq!(store.assume(&nameless, "n1"), Err(Unassumable::NoUid));
    assert_eq!(store.assume(&pod, ""), Err(Unassumable::NoNode));
    assert!(store.snapshot().is_empty());
}

#[test]
fn a_list_replaces_the_pods_and_keeps_what_is_assumed() {
    let store = Arc::new(PodStore::new());
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| Shown::new(name, name));
    assert!(relist(&store, &[a.on("n1"), b.clone(), c.clone()]));
    for pod in [&b, &c, &d] {
        store.assume(&pod.pod(), "n2").unwrap();
    }
    // b is bound by now, c was deleted; d is not known to the list yet.
    assert!(relist(&store, &[a.on("n1"), b.on("n2")]));
    assert_eq!(carried(&store, "n2"), (names(&["b", "d"]), 200));
    let assumed: Vec<_> = store.assumed().iter().map(|pod| pod.uid.clone()).collect();
    assert_eq!(assumed, ["d"]);
    assert!(!relist(&store, &[a.on("n1"), b.on("n2")]));
    assert!(relist(&store, &[a.on("n1").phase("Failed")]));
    assert_eq!(store.len(), 0);
    assert_eq!(carried(&store, "n2").0, names(&["d"]));
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1");
    send(&store, "ADDED", &pod.on("n1"));
    let before = store.snapshot();
    send(&store, "DELETED", &pod.on("n1"));
    store.assume(&Shown::new("b", "u2").pod(), "n1").unwrap();
    assert_eq!(on(&before, "n1"), (names(&["a"]), 100));
    assert_eq!(carried(&store, "n1"), (names(&["b"]), 100));
    assert!(Arc::ptr_eq(&store.snapshot(), &store.snapshot()));
}

#[test]
fn a_snapshot_without_victims_has_all_other_pods_and_leaves_the_first_as_it_was() {
    let store = PodStore::new();
    for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2")] {
        send(&store, "ADDED", &Shown::new(name, name).on(node));
    }
    store.assume(&Shown::new("e", "e").pod(), "n2").unwrap();
    let (before, after) = (["a", "b"], ["c", "d", "e"]);
    let snapshot = store.snapshot();
    // c is no pod of n1, x is nobody's, and a pod without a UID is not meant by an empty one.
    let gone = [
        ("n1", ["a".to_owned(), "c".to_owned(), String::new()]),
        ("n2", ["e".to_owned(), "d".to_owned(), "x".to_owned()]),
        ("n3", ["b".to_owned(), String::new(), String::new()]),
    ];
    let left = snapshot.without(gone.iter().map(|(node, uids)| (*node, &uids[..])));
    assert_eq!(on(&left, "n1"), (names(&["b"]), 100));
    assert_eq!(on(&left, "n2"), (names(&["c"]), 100));
    assert_eq!(left.len(), 2);
    assert_eq!(on(&snapshot, "n1"), (names(&before), 200));
    assert_eq!(on(&snapshot, "n2"), (names(&after), 300));
    assert_eq!(carried(&store, "n2"), (names(&after), 300));
}

#[test]
fn a_pod_that_is_named_twice_leaves_its_node_once() {
    let store = PodStore::new();
    for name in ["a", "b", "c"] {
        send(&store, "ADDED", &Shown::new(name, name).on("n1"));
    }
    let twice = ["a".to_owned(), "a".to_owned()];
    let later = [("n1", &twice[..]), ("n1", &twice[..1])];
    let snapshot = store.snapshot();
    for left in [snapshot.without(later), snapshot.before(&later)] {
        assert_eq!(left.len(), 2);
        assert_eq!(on(&left, "n1"), (names(&["b", "c"]), 200));
    }
}

#[test]
fn requests_are_summed_in_the_order_of_the_nodes() {
    let nodes = Arc::new(NodeStore::new());
    let mut list = Relist::begin(nodes.clone());
    list.page(&node_list(
        &["n1", "n2", "n3"].map(|name| node_json(name, &[], 0)),
    ))
    .unwrap();
    list.commit();
    let store = PodStore::new();
    for (name, node) in [("a", "n2"), ("b", "n3"), ("c", "n2"), ("d", "elsewhere")] {
        send(&store, "ADDED", &Shown::new(name, name).on(node));
    }
    let (nodes, snapshot) = (nodes.nodes(), store.snapshot());
    for (resource, expected) in [
        ("cpu", [0, 200, 100]),
        ("memory", [0, 2 << 30, 1 << 30]),
        ("pods", [0, 2, 1]),
        ("nvidia.com/gpu", [0, 0, 0]),
    ] {
        assert_eq!(snapshot.requested(&nodes, resource), expected, "{resource}");
    }
    assert_eq!(snapshot.len(), 4);
}

#[test]
fn nodes_that_come_and_go_are_forgotten() {
    let store = PodStore::new();
    for round in 0..2000 {
        let pod = Shown::new("a", "u1").on(&format!("n{round}"));
        send(&store, "ADDED", &pod);
        store.snapshot();
        send(&store, "DELETED", &pod);
    }
    let last = Shown::new("a", "u1").on("n1999");
    send(&store, "ADDED", &last);
    assert_eq!(carried(&store, "n1999").0, names(&["a"]));
    assert_eq!(carried(&store, "n0").0, names(&[]));
}

#[test]
fn the_pods_of_a_node_stay_in_the_order_in_which_they_came() {
    let store = PodStore::new();
    let came = ["d", "a", "c", "b", "e"].map(|name| Shown::new(name, name).on("n1"));
    for pod in &came {
        send(&store, "ADDED", pod);
    }
    let order = |store: &PodStore| -> Vec<String> {
        let snapshot = store.snapshot();
        let pods = snapshot.pods_on("n1");
        pods.iter().map(|pod| pod.name.clone()).collect()
    };
    assert_eq!(order(&store), names(&["d", "a", "c", "b", "e"]));
    send(&store, "DELETED", &came[1]);
    assert_eq!(order(&store), names(&["d", "c", "b", "e"]));
    send(&store, "DELETED", &came[0]);
    send(&store, "ADDED", &came[1]);
    assert_eq!(order(&store), names(&["c", "b", "e", "a"]));
}

#[test]
fn a_victim_without_a_uid_takes_no_pod_off_its_node() {
    let store = PodStore::new();
    send(&store, "ADDED", &Shown::new("static", "").on("n1"));
    send(&store, "ADDED", &Shown::new("a", "u1").on("n1"));
    let victims = [String::new(), "u1".to_owned()];
    let left = store.snapshot().without([("n1", &victims[..])]);
    assert_eq!(on(&left, "n1"), (names(&["static"]), 100));
}

#[test]
fn pods_with_places_count_on_them_once_and_nowhere_else() {
    let store = PodStore::new();
    let nominated = Shown {
        nominated: "n2",
        ..Shown::new("a", "u1")
    };
    send(&store, "ADDED", &nominated);
    send(&store, "ADDED", &Shown::new("b", "u2").on("n1"));
    let (first, bound) = (store.get("u1").unwrap(), store.get("u2").unwrap());
    let places = [
        (first.clone(), "n1"),
        (bound.clone(), "n1"),
        (first.clone(), "n3"),
    ];
    let filled = store.snapshot().with_places(&places);
    assert_eq!(on(&filled, "n1"), (names(&["a", "b"]), 200));
    assert_eq!(on(&filled, "n3"), (names(&[]), 0));
    assert_eq!(filled.len(), 2);
    let nodes = NodeStore::new().select(["n1", "n2"]);
    assert!(
        store
            .snapshot()
            .nominated(&Pod::default(), &nodes)
            .is_some()
    );
    assert!(filled.nominated(&Pod::default(), &nodes).is_none());
    for (node, uid, found) in [
        ("n1", "u1", true),
        ("n1", "u2", true),
        ("n3", "u1", false),
        ("n1", "", false),
    ] {
        let pod = filled.pod_on(node, uid);
        assert_eq!(pod.is_some(), found);
        assert!(pod.is_none_or(|pod| pod.uid == uid && &*pod.node_name == node));
    }
    let these = filled.these(&[first, bound]);
    assert!(these.iter().all(|pod| &*pod.node_name == "n1"));
    assert_eq!(on(&store.snapshot(), "n1"), (names(&["b"]), 100));
}

#[test]
fn pods_with_places_are_found_by_namespace_and_label_alone() {
    let store = PodStore::new();
    let large = Shown {
        cpu_milli: 200,
        ..Shown::new("b", "u2")
    };
    for pod in [&Shown::new("a", "u1"), &large] {
        send(&store, "ADDED", pod);
    }
    let places = ["u1", "u2"].map(|uid| (store.get(uid).unwrap(), "n1"));
    let filled = store.snapshot().with_places(&places);
    let found = |namespace, key, value| {
        let pods = filled
            .placed_with_label(namespace, key, value)
            .expect("labels");
        let pods = pods.into_iter();
        pods.map(|pod| (pod.uid.clone(), pod.node_name.to_string()))
            .collect::<Vec<_>>()
    };
    let second = ("u2".to_owned(), "n1".to_owned());
    assert_eq!(found("ns", "size", "200"), [second]);
    for (namespace, key, value) in [
        ("other", "size", "200"),
        ("ns", "other", "200"),
        ("ns", "size", "300"),
        ("ns", "other", ""),
    ] {
        assert_eq!(found(namespace, key, value), []);
    }
    assert!(
        store
            .snapshot()
            .placed_with_label("ns", "size", "200")
            .expect("labels")
            .is_empty()
    );
}

#[test]
fn a_node_is_filled_with_the_nominated_pods_that_come_before_a_pod_or_beside_it() {
    let store = PodStore::new();
    for (uid, node, priority) in [("u1", "n1", 5), ("u2", "n1", -5), ("u3", "n2", 0)] {
        let pod = format!(
            r#"{{"metadata":{{"name":"{uid}","uid":"{uid}"}},"spec":{{"priority":{priority}}},"status":{{"nominatedNodeName":"{node}"}}}}"#
        );
        apply(&store, &event("ADDED", &pod)).unwrap();
    }
    let nodes = NodeStore::new().select(["n1", "n2", "n3"]);
    let snapshot = store.snapshot();
    for (uid, priority, expected) in [
        ("u9", None, ["u1", "u3", ""]),
        ("u9", Some(-5), ["u1,u2", "u3", ""]),
        ("u9", Some(5), ["u1", "", ""]),
        ("u9", Some(6), ["", "", ""]),
        ("u1", Some(5), ["", "", ""]),
        ("u3", Some(-9), ["u1,u2", "", ""]),
    ] {
        let pod = Pod {
            uid: uid.to_owned(),
            priority,
            ..Pod::default()
        };
        let some = snapshot.nominated(&pod, &nodes);
        let told: Vec<bool> = (0..3)
            .map(|at| some.as_ref().is_some_and(|some| some.get(at)))
            .collect();
        assert_eq!(told, expected.map(|uids| !uids.is_empty()));
        let filled = some.map(|some| snapshot.with_nominated(&pod, &nodes, &some));
        let there = ["n1", "n2", "n3"].map(|node| {
            let pods = filled.iter().flat_map(|filled| filled.pods_on(node));
            let placed = pods.inspect(|pod| assert_eq!(pod.node_name, node));
            let uids: Vec<String> = placed.map(|pod| pod.uid.clone()).collect();
            uids.join(",")
        });
        assert_eq!(there, expected);
    }
    assert!(snapshot.is_empty());
}

#[test]
fn pods_that_started_after_a_time_or_not_at_all_are_found_by_their_node() {
    let store = PodStore::new();
    for (name, node, started) in [
        ("a", "n1", "2026-01-01T00:00:00Z"),
        ("b", "n1", "2026-01-01T00:00:01Z"),
        ("c", "n3", "2026-01-01T00:00:02Z"),
        ("d", "n1", ""),
        ("e", "n2", "2026-01-01T00:00:01Z"),
    ] {
        let status = match started {
            "" => String::new(),
            time => format!(r#""startTime":"{time}""#),
        };
        let pod = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}"}},"status":{{{status}}}}}"#
        );
        apply(&store, &event("ADDED", &pod)).unwrap();
    }
    let nodes = NodeStore::new().select(["n3", "n2", "n1", "n0"]);
    let late = store
        .snapshot()
        .started_after(&nodes, "2026-01-01T00:00:01Z");
    let late: Vec<(usize, Vec<&str>)> = late
        .iter()
        .map(|(at, pods)| (*at, pods.iter().map(|pod| &*pod.name).collect()))
        .collect();
    assert_eq!(late, [(0, vec!["c"]), (2, vec!["d"])]);
}

#[test]
fn an_event_that_changes_nothing_hides_no_change_before_it() {
    let store = PodStore::new();
    let pod = Shown::new("a", "u1");
    send(&store, "ADDED", &pod);
    assert_eq!(carried(&store, "n1"), (names(&[]), 0));
    store.assume(&pod.pod(), "n1").unwrap();
    assert!(!send(&store, "MODIFIED", &pod).changed);
    assert!(!store.forget("u2"));
    assert_eq!(carried(&store, "n1"), (names(&["a"]), 100));
}

/// A pod in a namespace of its own, with a label.
fn in_namespace(namespace: &str, name: &str, uid: &str, gang: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":{name:?},"namespace":{namespace:?},"uid":{uid:?},"labels":{{"gang":{gang:?}}}}}}}"#
    )
}

#[test]
fn pods_of_different_namespaces_are_different_pods() {
    let store = PodStore::new();
    for (namespace, name, uid) in [("a", "bc", "u1"), ("ab", "c", "u2"), ("ab", "bc", "u3")] {
        apply(
            &store,
            &event("ADDED", &in_namespace(namespace, name, uid, "g")),
        )
        .unwrap();
    }
    assert_eq!(store.len(), 3);
    assert_eq!(store.by_name("a", "bc").unwrap().uid, "u1");
    assert_eq!(store.by_name("ab", "c").unwrap().uid, "u2");
    assert!(store.by_name("abc", "").is_none());
    apply(
        &store,
        &event("DELETED", &in_namespace("a", "bc", "u1", "g")),
    )
    .unwrap();
    assert_eq!(store.by_name("ab", "c").unwrap().uid, "u2");
}

#[test]
fn pods_are_found_by_their_label_in_their_namespace_each_once() {
    let store = PodStore::new();
    let shown = [
        ("ns", "a", "u1", "g"),
        ("ns", "b", "u2", "g"),
        ("ns", "c", "u3", "other"),
        ("elsewhere", "a", "u4", "g"),
    ]
    .map(|(namespace, name, uid, gang)| in_namespace(namespace, name, uid, gang));
    for pod in &shown {
        apply(&store, &event("ADDED", pod)).unwrap();
    }
    // b waits as the watch shows it, and e is not shown yet.
    for pod in [&shown[1], &in_namespace("ns", "e", "u5", "g")] {
        let seen = PodStore::new();
        let seen = apply(&seen, &event("ADDED", pod)).unwrap().object.unwrap();
        store.assume(&seen, "n1").unwrap();
    }
    let found = |namespace: &str, value: &str| -> Vec<(String, String)> {
        let pods = store
            .with_label(namespace, "gang", value)
            .unwrap()
            .into_iter();
        let mut pods: Vec<_> = pods
            .map(|pod| (pod.uid.clone(), pod.node_name.to_string()))
            .collect();
        pods.sort();
        pods
    };
    let pairs = |expected: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |(uid, node): &(&str, &str)| ((*uid).to_owned(), (*node).to_owned());
        expected.iter().map(owned).collect()
    };
    assert_eq!(
        found("ns", "g"),
        pairs(&[("u1", ""), ("u2", "n1"), ("u5", "n1")])
    );
    assert_eq!(found("ns", "other"), pairs(&[("u3", "")]));
    assert_eq!(found("elsewhere", "g"), pairs(&[("u4", "")]));
    assert_eq!(found("nowhere", "g"), pairs(&[]));
}

#[test]
fn a_list_says_and_shows_whatever_it_changes() {
    let [a, b, c] = ["a", "b", "c"].map(|name| Shown::new(name, name).on("n1"));
    let store = Arc::new(PodStore::new());
    assert!(relist(&store, &[a.clone(), b.clone(), c.clone()]));
    assert_eq!(carried(&store, "n1").0, names(&["a", "b", "c"]));
    // Only the first changes.
    assert!(relist(&store, &[a.on("n2"), b.clone(), c.clone()]));
    assert_eq!(carried(&store, "n1").0, names(&["b", "c"]));
    // None changes, and two are gone.
    assert!(relist(&store, std::slice::from_ref(&b)));
    assert_eq!(carried(&store, "n1").0, names(&["b"]));
    assert_eq!(carried(&store, "n2").0, names(&[]));
    assert!(!relist(&store, &[b]));
}

#[test]
fn pods_of_one_template_share_what_they_have_in_common() {
    let store = PodStore::new();
    for name in ["a", "b", "c"] {
        send(&store, "ADDED", &Shown::new(name, name).on("n1"));
    }
    // What the first has is its own until another has it too.
    let [b, c] = ["b", "c"].map(|uid| store.get(uid).unwrap());
    assert!(Arc::ptr_eq(&b.containers, &c.containers));
    assert!(Arc::ptr_eq(&b.required, &c.required));
    let [Word::Other(one), Word::Other(other)] = [&b.node_name, &c.node_name] else {
        panic!("usual words");
    };
    assert!(Arc::ptr_eq(one, other));
}

#[test]
fn what_is_not_a_pod_changes_nothing() {
    let store = Arc::new(PodStore::new());
    let pod = Shown::new("a", "u1").on("n1");
    send(&store, "ADDED", &pod);
    for (body, error) in [
        (
            r#"{"type":"ADDED","object":{"metadata":{}}}"#,
            "a pod without metadata.name",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#,
            "expected a string, found a number",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","creationTimestamp":"today"}}}"#,
            "not a time as RFC 3339 writes it",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}}"#,
            "not a quantity",
        ),
    ] {
        let refused = apply(&*store, body.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(error), "{refused}");
    }
    let refused = Relist::begin(store.clone()).page(b"null").unwrap_err();
    assert!(refused.to_string().contains("a list of pods was expected"));
    let refused = replace(&store, br#"{"metadata":{"continue":"tok"},"items":[]}"#).unwrap_err();
    assert!(refused.to_string().contains("not the whole list"));
    assert_eq!(carried(&store, "n1"), (names(&["a"]), 100));
}

/// The rules in the plainest form: what the watch shows by name, what is assumed by UID.
#[derive(Debug, Default)]
struct Model {
    shown: BTreeMap<String, Shown>,
    assumed: BTreeMap<String, Shown>,
}

impl Model {
    fn show(&mut self, pod: &Shown) {
        if matches!(pod.phase, "Succeeded" | "Failed") {
            return self.delete(pod);
        }
        let old = self.shown.insert(pod.name.clone(), pod.clone());
        if let Some(old) = old.filter(|old| old.uid != pod.uid) {
            self.assumed.remove(&old.uid);
        }
        if !pod.node.is_empty() {
            self.assumed.remove(&pod.uid);
        } else if let Some(assumed) = self.assumed.get_mut(&pod.uid) {
            let node = assumed.node.clone();
            *assumed = pod.on(&node);
        }
    }

    fn delete(&mut self, pod: &Shown) {
        if let Some(old) = self.shown.remove(&pod.name) {
            self.assumed.remove(&old.uid);
        }
        self.assumed.remove(&pod.uid);
    }

    fn list(&mut self, pods: &[Shown]) {
        let listed: BTreeSet<&String> = pods.iter().map(|pod| &pod.name).collect();
        let gone: Vec<Shown> = self.shown.values().cloned().collect();
        for pod in gone.iter().filter(|pod| !listed.contains(&pod.name)) {
            self.delete(pod);
        }
        for pod in pods {
            self.show(pod);
        }
    }

    fn assume(&mut self, pod: &Shown, node: &str) {
        let shown = self.shown.values().find(|shown| shown.uid == pod.uid);
        if shown.is_some_and(|shown| !shown.node.is_empty()) {
            return;
        }
        let pod = shown.unwrap_or(pod).on(node);
        self.assumed.insert(pod.uid.clone(), pod);
    }

    fn on(&self, node: &str) -> (Vec<String>, i64) {
        let here = self.shown.values().chain(self.assumed.values());
        let here: Vec<&Shown> = here.filter(|pod| pod.node == node).collect();
        let mut names: Vec<String> = here.iter().map(|pod| pod.name.clone()).collect();
        names.sort();
        (names, here.iter().map(|pod| pod.cpu_milli).sum())
    }

    /// What is shown of pods that are not assumed.
    fn not_assumed(&self) -> impl Iterator<Item = &Shown> {
        let shown = self.shown.values();
        shown.filter(|pod| !self.assumed.contains_key(&pod.uid))
    }

    /// UID and node of the pods with this label.
    fn labelled(&self, cpu_milli: i64) -> Vec<(String, String)> {
        let all = self.not_assumed().chain(self.assumed.values());
        let found = all.filter(|pod| pod.cpu_milli == cpu_milli);
        let mut found: Vec<_> = found
            .map(|pod| (pod.uid.clone(), pod.node.clone()))
            .collect();
        found.sort();
        found
    }

    /// What is on a node with the pods that are nominated to it.
    fn with_nominated(&self, node: &str) -> (Vec<String>, i64) {
        let (mut names, cpu) = self.on(node);
        let waiting = self.not_assumed().filter(|pod| pod.node.is_empty());
        let coming: Vec<_> = waiting.filter(|pod| pod.nominated == node).collect();
        names.extend(coming.iter().map(|pod| pod.name.clone()));
        names.sort();
        (
            names,
            cpu + coming.iter().map(|pod| pod.cpu_milli).sum::<i64>(),
        )
    }
}

fn labelled(store: &PodStore, cpu_milli: i64) -> Vec<(String, String)> {
    let pods = store
        .with_label("ns", "size", &cpu_milli.to_string())
        .unwrap();
    let mut found: Vec<_> = pods
        .iter()
        .map(|pod| (pod.uid.clone(), pod.node_name.to_string()))
        .collect();
    found.sort();
    found
}

/// Every node with the pods that are nominated to it, as a pod sees it that nobody knows.
fn filled(snapshot: &PodSnapshot) -> Vec<(Vec<String>, i64)> {
    let nodes = NodeStore::new().select(NODES);
    let pod = Pod::default();
    let some = snapshot.nominated(&pod, &nodes);
    let with = some.map(|some| snapshot.with_nominated(&pod, &nodes, &some));
    let with = with.as_ref().unwrap_or(snapshot);
    NODES.iter().map(|node| on(with, node)).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Event(&'static str, Shown),
    Relist(Vec<Shown>),
    Assume(Shown, String),
    Forget(String),
    Look,
}

const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// Few names and few incarnations, so that they meet.
fn shown() -> impl Strategy<Value = Shown> {
    let place = prop_oneof![3 => Just(""), 2 => proptest::sample::select(&NODES[..])];
    let phase = prop_oneof![6 => Just("Pending"), 1 => Just("Succeeded"), 1 => Just("Failed")];
    let nominated = prop_oneof![2 => Just(""), 1 => proptest::sample::select(&NODES[..])];
    let fields = (0..4_u8, 0..2_u8, place, nominated, phase, 1..4_i64);
    fields.prop_map(|(name, life, node, nominated, phase, cpu)| Shown {
        name: format!("p{name}"),
        uid: format!("p{name}-{life}"),
        node: node.to_owned(),
        nominated,
        phase,
        namespace: "ns",
        cpu_milli: cpu * 100,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let kind = proptest::sample::select(&["ADDED", "MODIFIED", "MODIFIED", "DELETED"][..]);
    prop_oneof![
        5 => (kind, shown()).prop_map(|(kind, pod)| Step::Event(kind, pod)),
        1 => proptest::collection::btree_map(0..4_u8, shown(), 0..4).prop_map(|pods| {
            let named: BTreeMap<String, Shown> =
                pods.into_values().map(|pod| (pod.name.clone(), pod)).collect();
            Step::Relist(named.into_values().collect())
        }),
        4 => (shown(), proptest::sample::select(&NODES[..]))
            .prop_map(|(pod, node)| Step::Assume(pod, node.to_owned())),
        1 => shown().prop_map(|pod| Step::Forget(pod.uid)),
        1 => Just(Step::Look),
    ]
}

fn take(step: &Step, store: &Arc<PodStore>, model: &mut Model) {
    match step {
        Step::Event("DELETED", pod) => {
            send(store, "DELETED", pod);
            model.delete(pod);
        }
        Step::Event(kind, pod) => {
            send(store, kind, pod);
            model.show(pod);
        }
        Step::Relist(pods) => {
            relist(store, pods);
            model.list(pods);
        }
        Step::Assume(pod, node) => {
            store.assume(&pod.pod(), node).unwrap();
            model.assume(pod, node);
        }
        Step::Forget(uid) => {
            assert_eq!(store.forget(uid), model.assumed.remove(uid).is_some());
        }
        Step::Look => {
            store.snapshot();
        }
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn whatever_happens_every_pod_is_found_and_takes_room_once_where_the_rules_say(
        steps in proptest::collection::vec(step(), 0..40)
    ) {
        let store = Arc::new(PodStore::new());
        let mut model = Model::default();
        let mut seen = Vec::new();
        for step in &steps {
            take(step, &store, &mut model);
            prop_assert_eq!(store.len(), model.shown.len());
            let assumed: BTreeSet<String> =
                store.assumed().iter().map(|pod| pod.uid.clone()).collect();
            prop_assert_eq!(assumed, model.assumed.keys().cloned().collect());
            let snapshot = store.snapshot();
            let expected = NODES.map(|node| model.on(node));
            prop_assert_eq!(&NODES.map(|node| on(&snapshot, node)), &expected, "{:?}", step);
            prop_assert_eq!(snapshot.len(), expected.iter().map(|node| node.0.len()).sum::<usize>());
            for cpu in [100, 200, 300] {
                prop_assert_eq!(labelled(&store, cpu), model.labelled(cpu), "{:?}", step);
            }
            let with_nominated = NODES.map(|node| model.with_nominated(node)).to_vec();
            prop_assert_eq!(&filled(&snapshot), &with_nominated, "{:?}", step);
            seen.push((snapshot, expected, with_nominated));
        }
        for (snapshot, expected, with_nominated) in seen {
            prop_assert_eq!(NODES.map(|node| on(&snapshot, node)), expected);
            prop_assert_eq!(filled(&snapshot), with_nominated);
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Nodes and pods come and go, and the earlier snapshots of both are asked again.
    #[test]
    fn sums_by_node_are_those_by_name_whichever_snapshots_are_asked_together(
        steps in proptest::collection::vec((0..4u8, 0..6usize), 1..60)
    ) {
        let (watched, store) = (NodeStore::new(), PodStore::new());
        let mut pods: BTreeMap<usize, Vec<Shown>> = BTreeMap::new();
        let mut nodes_seen = vec![watched.select(NODES)];
        let mut pods_seen = vec![store.snapshot()];
        for (at, (kind, node)) in steps.into_iter().enumerate() {
            let name = format!("n{node}");
            let here = pods.entry(node).or_default();
            match kind {
                0 => {
                    here.push(Shown::new(&format!("p{at}"), &format!("u{at}")).on(&name));
                    send(&store, "ADDED", &here[here.len() - 1]);
                }
                1 => here.drain(..).for_each(|pod| drop(send(&store, "DELETED", &pod))),
                2 => drop(apply(&watched, &event("ADDED", &node_json(&name, &[], 0))).unwrap()),
                _ => drop(apply(&watched, &event("DELETED", &node_json(&name, &[], 0))).unwrap()),
            }
            nodes_seen.extend([watched.nodes(), watched.select(["n5", "n0", "n3", "stranger"])]);
            pods_seen.push(store.snapshot());
            for nodes in nodes_seen.iter().rev().step_by(7) {
                for pods in pods_seen.iter().rev().step_by(5) {
                    let by_name = (0..nodes.len()).map(|at| pods.requested_on(nodes.name(at), "cpu"));
                    prop_assert_eq!(pods.requested(nodes, "cpu"), by_name.collect::<Vec<_>>());
                }
            }
            let counts: Vec<usize> = pods.values().map(Vec::len).collect();
            prop_assert_eq!(pods_seen[pods_seen.len() - 1].len(), counts.iter().sum::<usize>());
            for (node, here) in &pods {
                let last = &pods_seen[pods_seen.len() - 1];
                prop_assert_eq!(last.requested_on(&format!("n{node}"), "pods"), i64::try_from(here.len()).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Pods come, are assumed and go, and earlier snapshots are asked again, in any order.
    #[test]
    fn sums_by_namespace_are_those_of_the_pods_on_all_nodes(
        steps in proptest::collection::vec((0..3u8, 0..6usize, 0..3usize, 0..3usize), 1..60),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 1..20),
    ) {
        let store = PodStore::new();
        let mut seen = vec![store.snapshot()];
        for (at, (kind, pod, node, namespace)) in steps.into_iter().enumerate() {
            let shown = Shown {
                namespace: ["a", "b", "ns"][namespace],
                cpu_milli: i64::try_from(at).unwrap(),
                ..Shown::new(&format!("p{pod}"), &format!("u{pod}{namespace}"))
            };
            match kind {
                0 => drop(send(&store, "ADDED", &shown.on(NODES[node]))),
                1 => drop(store.assume(&shown.pod(), NODES[node])),
                _ => drop(send(&store, "DELETED", &shown)),
            }
            seen.push(store.snapshot());
        }
        for index in order {
            let snapshot = index.get(&seen);
            for namespace in ["a", "b", "ns", "stranger"] {
                let pods: Vec<Arc<Pod>> = NODES.iter().flat_map(|node| snapshot.pods_on(node)).collect();
                let theirs = pods.iter().filter(|pod| pod.namespace == namespace);
                let amounts = theirs.flat_map(|pod| pod.requests.iter());
                let mut expected: BTreeMap<String, i64> = BTreeMap::new();
                for (resource, amount) in amounts.filter(|(_, amount)| *amount != 0) {
                    *expected.entry(resource.to_string()).or_default() += amount;
                }
                let ours = snapshot.requested_in(namespace, None).expect("all is kept");
                let ours: BTreeMap<String, i64> = ours.iter().map(|(of, sum)| (of.to_string(), sum)).collect();
                prop_assert_eq!(&ours, &expected);
                for only in [BTreeSet::new(), BTreeSet::from(["cpu".to_owned()])] {
                    let some = snapshot.requested_in(namespace, Some(&only)).expect("all is kept");
                    let some: BTreeMap<String, i64> = some.iter().map(|(of, sum)| (of.to_string(), sum)).collect();
                    let (mut wanted, others): (BTreeMap<String, i64>, BTreeMap<String, i64>) =
                        expected.clone().into_iter().partition(|(of, _)| only.contains(of));
                    wanted.extend(others.into_iter().find(|(_, sum)| *sum > 0));
                    prop_assert_eq!(some, wanted);
                }
            }
        }
    }
}
