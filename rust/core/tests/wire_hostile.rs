//! Bodies that are cut, broken, deep, huge or not JSON: an error that says where, never a panic.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;

use common::{data_files, event, full_body, json, label, names, node_json, node_list, read};
use kubextend_core::node::{Body, Mask, NodeStore, Parts, RequestStore};
use kubextend_core::pod::PodStore;
use kubextend_core::wire::{
    self, Problem, Relist, WireError, apply, read_binding_args, read_preemption_args, replace,
};
use proptest::prelude::*;

/// Every way in, each with its verdict on the same bytes.
fn verdicts(bytes: &[u8]) -> [Result<(), WireError>; 4] {
    let (requests, watched) = (RequestStore::new(1 << 20), NodeStore::new());
    [
        read(bytes, Some(&requests)).map(drop),
        read_preemption_args(bytes, Some(&watched)).map(drop),
        read_binding_args(bytes).map(drop),
        apply(&watched, bytes).map(drop),
    ]
}

fn recorded() -> Vec<(String, Vec<u8>)> {
    ["wire/full", "wire/names"]
        .iter()
        .flat_map(|folder| {
            let files = data_files(folder, "json").into_iter();
            files.map(move |(name, body)| (format!("{folder}/{name}"), body))
        })
        .collect()
}

#[test]
fn every_recorded_request_reads_and_every_prefix_of_it_is_an_error() {
    let recorded = recorded();
    assert_eq!(recorded.len(), 10);
    let store = RequestStore::new(1 << 30);
    for (name, body) in recorded {
        let read_it = |bytes: &[u8]| {
            if name.contains("bind") {
                read_binding_args(bytes).map(drop)
            } else if name.contains("preempt") {
                read_preemption_args(bytes, None).map(drop)
            } else {
                read(bytes, Some(&store)).map(drop)
            }
        };
        read_it(&body).unwrap();
        // Reading a prefix costs as much as its length: in the long ones a slow build takes steps.
        let slow = cfg!(debug_assertions) && body.len() > 3000;
        let step = if slow { 7 } else { 1 };
        for end in (0..body.len()).step_by(step) {
            let error = read_it(&body[..end]).expect_err(&name);
            assert!(error.offset() <= end, "{name} {end}: {error}");
        }
    }
}

#[test]
fn every_byte_of_a_small_request_may_be_any_other_byte() {
    let body = br#"{"Pod":{"spec":{"priority":1}},"Nodes":{"items":[{"metadata":{"name":"a","labels":{"x":"1"}},"status":{"allocatable":{"cpu":"1"}}}]}}"#;
    for at in 0..body.len() {
        for byte in 0..=255 {
            let mut changed = body.to_vec();
            changed[at] = byte;
            let ours = read(&changed, None);
            let valid = serde_json::from_slice::<serde::de::IgnoredAny>(&changed).is_ok();
            // Valid JSON may still have a wrong type; what is not JSON is always refused.
            assert!(valid || ours.is_err(), "{at} {byte}");
        }
    }
}

fn conformance() -> Vec<(String, Vec<u8>)> {
    data_files("jsontestsuite", "json")
}

/// The inputs whose fate the JSON grammar leaves open, and what becomes of them here.
fn accepted(name: &str) -> bool {
    match name.as_bytes()[0] {
        b'y' => true,
        b'n' => false,
        // Numbers of any size are numbers; lone surrogates are read as Go reads them, as U+FFFD.
        _ => {
            name.starts_with("i_number")
                || [
                    "i_object_key_lone_2nd_surrogate.json",
                    "i_string_1st_surrogate_but_2nd_missing.json",
                    "i_string_1st_valid_surrogate_2nd_invalid.json",
                    "i_string_incomplete_surrogate_and_escape_valid.json",
                    "i_string_incomplete_surrogate_pair.json",
                    "i_string_incomplete_surrogates_escape_valid.json",
                    "i_string_invalid_lonely_surrogate.json",
                    "i_string_invalid_surrogate.json",
                    "i_string_inverted_surrogates_U+1D11E.json",
                    "i_string_lone_second_surrogate.json",
                ]
                .contains(&name)
        }
    }
}

fn around(before: &str, value: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), value, after.as_bytes()].concat()
}

#[test]
fn conformance_inputs_in_a_skipped_field_are_accepted_exactly_as_the_grammar_says() {
    let inputs = conformance();
    assert!(inputs.len() > 300);
    for (name, bytes) in inputs {
        for (before, after) in [
            (r#"{"Other":"#, "}"),
            (r#"{"Pod":{"spec":{"volumes":"#, "}}}"),
            (
                r#"{"Nodes":{"items":[{"metadata":{"managedFields":"#,
                "}}]}}",
            ),
        ] {
            let found = read(&around(before, &bytes, after), None);
            assert_eq!(
                found.is_ok(),
                accepted(&name),
                "{name} in {before}: {found:?}"
            );
        }
    }
}

#[test]
fn conformance_inputs_as_a_whole_body_are_read_only_if_they_are_objects_or_null() {
    for (name, bytes) in conformance() {
        for (way, found) in verdicts(&bytes).into_iter().enumerate() {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
            let fits = way != 3 && parsed.is_ok_and(|value| value.is_object() || value.is_null());
            let lone_surrogate = name == "i_object_key_lone_2nd_surrogate.json" && way != 3;
            assert_eq!(
                found.is_ok(),
                fits || lone_surrogate,
                "{name} by way {way}: {found:?}"
            );
        }
    }
}

#[test]
fn conformance_inputs_in_read_fields_are_refused_unless_they_fit_the_field() {
    let fields = [
        (r#"{"Pod":{"metadata":{"name":"#, "}}}"),
        (r#"{"NodeNames":"#, "}"),
        (r#"{"Pod":{"metadata":{"labels":"#, "}}}"),
        (r#"{"Pod":{"spec":{"priority":"#, "}}}"),
        (r#"{"Nodes":{"items":[{"spec":{"unschedulable":"#, "}}]}}"),
        (
            r#"{"Nodes":{"items":[{"status":{"allocatable":{"cpu":"#,
            "}}}]}}",
        ),
    ];
    for (name, bytes) in conformance() {
        for (before, after) in fields {
            let found = read(&around(before, &bytes, after), None);
            assert!(accepted(&name) || found.is_err(), "{name} in {before}");
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused_wherever_they_stand() {
    let store = RequestStore::new(1 << 20);
    let node = node_json("a", &[("x", "1")], 20);
    let whole = full_body(&[node.clone(), node_json("b", &[], 20)]);
    read(&whole, Some(&store)).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    for spoiled in [
        &b"\xff"[..],
        b"\xc3(",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
    ] {
        for place in ["Pod", "xxx", "\"p\"", "labels", "metadata\":{\"name\":\"b"] {
            let at = text.find(place).unwrap() + 1;
            let mut body = whole.clone();
            body.splice(at..at, spoiled.iter().copied());
            for with in [None, Some(&store)] {
                assert!(read(&body, with).is_err(), "{place} {spoiled:?}");
            }
        }
    }
}

#[test]
fn a_byte_that_is_not_utf8_is_named_by_its_place_where_nothing_is_read() {
    let store = RequestStore::new(1 << 20);
    let (a, b) = (node_json("a", &[], 20), node_json("b", &[], 20));
    read(&full_body(&[a.clone(), b.clone()]), Some(&store)).unwrap();
    let new = r#"{"metadata":{"name":"c"},"status":{"@":"@"}}"#;
    let body = format!(
        r#"{{"@":"@","Pod":{{"@":"@"}},"Nodes":{{"@":"@","items":[{a},{new},{b}],"@":"@"}},"@":"@"}}"#
    );
    // A key is read, and so refused where it stands; a skipped value is found by the next check.
    let places: Vec<usize> = body.match_indices('@').map(|(at, _)| at).collect();
    assert_eq!(places.len(), 12);
    assert!(read(body.as_bytes(), Some(&store)).is_ok());
    for at in places {
        let mut spoiled = body.clone().into_bytes();
        spoiled[at] = 0xff;
        for with in [None, Some(&store)] {
            let error = read(&spoiled, with).unwrap_err();
            assert_eq!((error.problem(), error.offset()), (&Problem::NotUtf8, at));
        }
    }
}

#[test]
fn numbers_may_be_of_any_length_where_they_are_skipped() {
    let digits = "7".repeat(1_000_000);
    for number in [
        digits.clone(),
        format!("-0.{digits}"),
        format!("1e{digits}"),
        "1e400".into(),
    ] {
        let skipped = format!(r#"{{"Other":{number},"NodeNames":["a"]}}"#);
        assert_eq!(
            names(read(skipped.as_bytes(), None).unwrap().nodes().unwrap()),
            ["a"]
        );
        let priority = format!(r#"{{"Pod":{{"spec":{{"priority":{number}}}}}}}"#);
        assert!(read(priority.as_bytes(), None).is_err());
    }
    for (pdb, fits) in [
        ("9223372036854775807", true),
        ("9223372036854775808", false),
        ("-9223372036854775808", true),
        ("-9223372036854775809", false),
        ("-0", true),
        ("00", false),
        ("1.0", false),
        ("1e0", false),
    ] {
        let body = format!(r#"{{"NodeNameToMetaVictims":{{"n":{{"NumPDBViolations":{pdb}}}}}}}"#);
        assert_eq!(
            read_preemption_args(body.as_bytes(), None).is_ok(),
            fits,
            "{pdb}"
        );
    }
}

/// A body with a list of three bytes an element, at each place that has one, and its problem.
fn dense(before: &str, element: &str, after: &str, bytes: usize) -> (String, Option<Problem>) {
    let elements = vec![element; bytes / (element.len() + 1)].join(",");
    let body = format!("{before}{elements}{after}");
    let problem = |error: WireError| error.problem().clone();
    let verdict = if before.contains("MetaVictims") {
        read_preemption_args(body.as_bytes(), None).map(drop)
    } else {
        read(body.as_bytes(), None).map(drop)
    };
    (format!("{before}…{after}"), verdict.err().map(problem))
}

#[test]
fn elements_in_a_few_bytes_each_are_refused_before_they_take_many_times_the_body_in_memory() {
    let pod = |field: &str| (format!(r#"{{"Pod":{{"spec":{{"{field}":["#), "{}", "]}}}");
    let map = |path: &str| (format!(r#"{{"Pod":{{{path}:{{"#), r#""":"""#, "}}}}");
    let affinity = r#"{"Pod":{"spec":{"affinity":{"nodeAffinity":"#;
    for (before, element, after) in [
        pod("containers"),
        pod("initContainers"),
        pod("tolerations"),
        pod("schedulingGates"),
        map(r#""metadata":{"labels""#),
        map(r#""metadata":{"annotations""#),
        map(r#""spec":{"nodeSelector""#),
        (
            format!(
                r#"{affinity}{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":["#
            ),
            "{}",
            "]}}}}}}",
        ),
        (
            format!(r#"{affinity}{{"preferredDuringSchedulingIgnoredDuringExecution":["#),
            "{}",
            "]}}}}}",
        ),
        (
            r#"{"Pod":{"status":{"conditions":["#.to_owned(),
            "{}",
            "]}}}",
        ),
        (
            r#"{"Pod":{"status":{"containerStatuses":["#.to_owned(),
            "{}",
            "]}}}",
        ),
        (r#"{"NodeNames":["#.to_owned(), r#""""#, "]}"),
        (r#"{"NodeNames":["#.to_owned(), r#""\u0061""#, "]}"),
        (r#"{"Nodes":{"items":["#.to_owned(), "{}", "]}}"),
        (
            r#"{"Nodes":{"items":[{"spec":{"taints":["#.to_owned(),
            "{}",
            "]}}]}}",
        ),
        (
            r#"{"NodeNameToMetaVictims":{"n":{"Pods":["#.to_owned(),
            "{}",
            "]}}}",
        ),
        (r#"{"NodeNameToMetaVictims":{"#.to_owned(), r#""":{}"#, "}}"),
    ] {
        let (what, verdict) = dense(&before, element, after, 4_000_000);
        assert_eq!(verdict, Some(Problem::TooDense), "{what}");
        let (what, verdict) = dense(&before, element, after, 10_000);
        assert_eq!(verdict, None, "{what}: what is small may be dense");
    }
}

/// Reads nodes with their details; returns the problem of the request.
fn read_details(nodes: &[String]) -> Option<Problem> {
    let details = Parts {
        details: true,
        ..Parts::default()
    };
    let store = RequestStore::with_parts(1 << 30, details);
    let refused = read(&full_body(nodes), Some(&store)).err();
    refused.map(|error| error.problem().clone())
}

#[test]
fn small_nodes_are_read_with_their_details_however_many_they_are() {
    let resources = r#"{"cpu":"32","memory":"256Gi","pods":"110"}"#;
    let condition =
        r#"{"type":"Ready","status":"True","lastHeartbeatTime":null,"lastTransitionTime":null}"#;
    let info = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ];
    let info = info.map(|field| format!(r#""{field}":"""#)).join(",");
    let status = format!(
        r#""status":{{"capacity":{resources},"allocatable":{resources},"conditions":[{condition}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":0}}}},"nodeInfo":{{{info}}}}}"#
    );
    let made = |name: String, labels: &str, more: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","uid":"6b1e6f36-3f6b-4c41-8a5e-0123456789ab","resourceVersion":"1234","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"kubernetes.io/hostname":"{name}"{labels}}}{more}}},"spec":{{}},{status}}}"#
        )
    };
    // As simulators of large clusters make them: kwok, and the nodes of scheduler_perf.
    let annotated =
        r#","annotations":{"kwok.x-k8s.io/node":"fake","node.alpha.kubernetes.io/ttl":"0"}"#;
    let labels = r#","type":"kwok","kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/role":"agent""#;
    for (labels, more) in [(labels, annotated), ("", "")] {
        let node = |number| made(format!("node-{number:05}"), labels, more);
        let nodes: Vec<String> = (0..6000).map(node).collect();
        assert_eq!(read_details(&nodes), None, "{}", nodes[0]);
    }
}

#[test]
fn many_nodes_of_dense_parts_are_refused_before_they_take_many_times_the_body_in_memory() {
    let metadata = |field: &str, of: &str| format!(r#"{{"metadata":{{"{field}":{{{of}}}}}}}"#);
    let status = |field: &str, of: &str| format!(r#"{{"status":{{"{field}":[{of}]}}}}"#);
    let node = |kind: &str, number: usize| {
        let each = |piece: &dyn Fn(usize) -> String| {
            let pieces = (64 * number..64 * (number + 1)).map(piece);
            pieces.collect::<Vec<_>>().join(",")
        };
        let pairs = each(&|i| format!(r#""{i:x}":"v{i:x}""#));
        let empty = each(&|_| "{}".to_owned());
        match kind {
            "labels" | "annotations" => metadata(kind, &pairs),
            "taints" => format!(r#"{{"spec":{{"taints":[{empty}]}}}}"#),
            "images" => {
                let names = each(&|i| format!(r#""{i:x}""#));
                status(kind, &format!(r#"{{"names":[{names}]}}"#))
            }
            _ => status(kind, &empty),
        }
    };
    for kind in [
        "labels",
        "annotations",
        "taints",
        "images",
        "conditions",
        "addresses",
    ] {
        let mut length = 0;
        let nodes = (0..).map(|number| node(kind, number));
        let nodes = nodes.take_while(|node| {
            length += node.len();
            length < 6_000_000
        });
        let nodes: Vec<String> = nodes.collect();
        assert_eq!(read_details(&nodes), Some(Problem::TooDense), "{kind}");
    }
}

#[test]
fn a_text_that_is_read_counts_beside_elements_in_what_a_body_may_become() {
    let (elements, text) = ("{},".repeat(100_000), "x".repeat(6 << 20));
    let reads = |metadata: &str| {
        let pod = format!(
            r#"{{"Pod":{{"metadata":{metadata},"spec":{{"tolerations":[{elements}{{}}]}}}}}}"#
        );
        read(pod.as_bytes(), None)
            .map(drop)
            .map_err(|error| error.problem().clone())
    };
    assert_eq!(reads(&format!(r#"{{"skipped":"{text}"}}"#)), Ok(()));
    for metadata in [
        format!(r#"{{"name":"{text}"}}"#),
        format!(r#"{{"labels":{{"k":"{text}"}}}}"#),
        format!(r#"{{"labels":{{"{text}":"v"}}}}"#),
        format!(
            r#"{{"creationTimestamp":"2030-01-01T00:00:00.{}Z"}}"#,
            text.replace('x', "0")
        ),
    ] {
        assert_eq!(reads(&metadata), Err(Problem::TooDense), "{metadata:.60}");
    }
}

#[test]
fn what_the_api_server_sends_is_not_refused_for_one_dense_object() {
    let tolerations = vec!["{}"; 1_000_000].join(",");
    let pod = |name: &str, spec: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}"}},"spec":{{{spec}}}}}"#)
    };
    let dense = pod("dense", &format!(r#""tolerations":[{tolerations}]"#));
    let store = Arc::new(PodStore::new());
    replace(&store, &node_list(&[pod("a", ""), dense.clone()])).unwrap();
    assert_eq!(store.len(), 2);
    assert_eq!(
        apply(&*store, &event("MODIFIED", &dense)).unwrap().name,
        "dense"
    );
}

#[test]
fn no_reader_takes_a_body_whose_positions_need_more_than_32_bits() {
    // Nobody touches these zeros, so that the system makes no memory of them.
    let body = vec![0; (1 << 32) + 1];
    let longest = u32::MAX as usize;
    let nodes = Arc::new(NodeStore::new());
    let args = wire::read_args(Body::new(vec![0; body.len()]), None, None);
    for verdict in [
        args.map(drop),
        read_preemption_args(&body, None).map(drop),
        apply(&*nodes, &body).map(drop),
        Relist::begin(nodes.clone()).page(&body).map(drop),
    ] {
        let error = verdict.unwrap_err();
        assert_eq!(error.problem(), &Problem::LongerThan(longest), "{error}");
    }
}

#[test]
fn a_bind_request_has_at_most_64_kib() {
    let padded = |size: usize| {
        let body = r#"{"PodName":"p","Node":"n"}"#;
        [body, &" ".repeat(size - body.len())].concat()
    };
    assert_eq!(
        read_binding_args(padded(64 << 10).as_bytes()).unwrap().node,
        "n"
    );
    let error = read_binding_args(padded((64 << 10) + 1).as_bytes()).unwrap_err();
    assert_eq!(error.problem(), &Problem::LongerThan(64 << 10));
}

#[test]
fn an_error_stays_one_short_line_whatever_the_body_holds() {
    let long = "y\\n".repeat(200_000);
    for body in [
        format!(r#"{{"Pod":{{"{long}":1,"metadata":7}}}}"#),
        format!(
            r#"{{"Nodes":{{"items":[{{"status":{{"allocatable":{{"{long}":"{long}"}}}}}}]}}}}"#
        ),
        format!(r#"{{"Pod":{{"metadata":{{"labels":{{"{long}":7}}}}}}}}"#),
        "{\n\"Pod\":\n\u{7f}}".to_owned(),
    ] {
        let error = read(body.as_bytes(), None).unwrap_err().to_string();
        assert!(error.len() < 300, "{} bytes", error.len());
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn ten_thousand_labels_long_values_and_equal_keys_are_read_right() {
    let many: Vec<String> = (0..10_000)
        .rev()
        .map(|i| format!(r#""k{i}":"v{i}""#))
        .collect();
    let long = "z".repeat(1_000_000);
    let equal: Vec<String> = (0..10_000).map(|i| format!(r#""same":"v{i}""#)).collect();
    let items = [
        format!(
            r#"{{"metadata":{{"name":"many","labels":{{{}}}}}}}"#,
            many.join(",")
        ),
        format!(r#"{{"metadata":{{"name":"long","labels":{{"k7":"{long}"}}}}}}"#),
        format!(
            r#"{{"metadata":{{"name":"equal","labels":{{{}}}}}}}"#,
            equal.join(",")
        ),
    ];
    let store = RequestStore::new(1 << 30);
    let body = full_body(&items);
    for _ in 0..2 {
        let args = read(&body, Some(&store)).unwrap();
        let nodes = args.nodes().unwrap();
        assert_eq!(
            label(nodes, "k7"),
            [Some("v7".into()), Some(long.clone()), None]
        );
        assert_eq!(label(nodes, "k9999")[0], Some("v9999".into()));
        assert_eq!(label(nodes, "same")[2], Some("v9999".into()));
    }
    assert_eq!(store.stats().hits, 3);
}

#[test]
fn requests_of_no_node_and_of_one_node_have_answers() {
    for body in [full_body(&[]), full_body(&[node_json("a", &[], 0)])] {
        let args = read(&body, None).unwrap();
        let count = args.nodes().unwrap().len();
        let all = json(&common::answer(&args, &Mask::filled(count, true), "no"));
        assert_eq!(all["Nodes"]["items"].as_array().unwrap().len(), count);
        let none = json(&common::answer(&args, &Mask::filled(count, false), "no"));
        assert_eq!(none["Nodes"]["items"].as_array().unwrap().len(), 0);
        let scores = json(&args.prioritize_result(&vec![0; count]));
        assert_eq!(scores.as_array().unwrap().len(), count);
    }
}

proptest! {
    #![proptest_config(common::cases(1500))]

    /// Pieces of real requests, put together at random, through every way in.
    #[test]
    fn no_body_makes_any_reader_panic(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "null", "true", "0", "-1", "1e5", "\\u0041", "\\",
            "{\"Pod\":", "\"Nodes\":{\"items\":[", "{\"metadata\":{\"name\":\"a\"", "\"labels\":{",
            "\"NodeNames\":[", "\"a\"", "\"NodeNameToVictims\":{", "\"NodeNameToMetaVictims\":{\"n\":",
            "\"Pods\":[", "{\"type\":\"ADDED\",\"object\":", "\"taints\":[", " ", "\u{feff}", "é",
        ]), 0..24),
    ) {
        let body = pieces.concat();
        let valid = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
        for verdict in verdicts(body.as_bytes()) {
            prop_assert!(valid || verdict.is_err(), "{}", body);
        }
        let store = Arc::new(NodeStore::new());
        let listed = Relist::begin(store.clone()).page(body.as_bytes());
        prop_assert!(valid || listed.is_err());
    }

    #[test]
    fn mangled_recorded_requests_never_panic_and_never_leave_anything_behind(
        which in 0..10usize,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
    ) {
        let (_, mut body) = recorded().swap_remove(which);
        body.truncate(4000);
        for (at, byte, edit) in edits {
            let at = at.index(body.len());
            match edit {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => drop(body.remove(at)),
            }
        }
        let store = RequestStore::new(1 << 20);
        if read(&body, Some(&store)).is_err() {
            prop_assert_eq!(store.stats().nodes, 0);
            prop_assert_eq!(store.stats().misses, 0);
        }
        let _ = read_preemption_args(&body, None);
        let _ = read_binding_args(&body);
    }
}

#[test]
fn a_refused_list_or_event_leaves_no_trace_at_any_cut() {
    let store = Arc::new(NodeStore::new());
    let one = node_json("a", &[("x", "1")], 0);
    let mut first = Relist::begin(store.clone());
    first.page(&node_list(std::slice::from_ref(&one))).unwrap();
    first.commit();
    let list = node_list(&[node_json("b", &[], 0), node_json("c", &[], 0)]);
    for end in 0..list.len() {
        let mut relist = Relist::begin(store.clone());
        assert!(relist.page(&list[..end]).is_err(), "{end}");
    }
    let event = event("MODIFIED", &node_json("a", &[("x", "2")], 0));
    for end in 0..event.len() {
        assert!(apply(&*store, &event[..end]).is_err(), "{end}");
    }
    assert_eq!(names(&store.nodes()), ["a"]);
    assert_eq!(label(&store.nodes(), "x"), [Some("1".into())]);
}

#[test]
fn a_pod_of_more_conditions_than_are_worth_trying_on_each_node_is_refused() {
    let condition = r#"{"key":"k","operator":"NotIn","values":["v"]}"#;
    let list = |count: usize| vec![condition; count].join(",");
    let term = |expressions: usize, fields: usize| {
        let (expressions, fields) = (list(expressions), list(fields));
        format!(r#"{{"matchExpressions":[{expressions}],"matchFields":[{fields}]}}"#)
    };
    let pod = |required: String, preferred: String| {
        format!(
            r#"{{"spec":{{"affinity":{{"nodeAffinity":{{
                "requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{required}]}},
                "preferredDuringSchedulingIgnoredDuringExecution":[{preferred}]}}}}}}}}"#
        )
    };
    let preferred = |term: String| format!(r#"{{"weight":1,"preference":{term}}}"#);
    // Room for what the conditions become.
    let room = "x".repeat(4 << 20);
    for (pod, conditions) in [
        (pod(term(1000, 0), String::new()), 1000),
        (pod(term(1001, 0), String::new()), 1001),
        (pod(term(0, 1001), String::new()), 1001),
        (pod(String::new(), preferred(term(600, 400))), 1000),
        (pod(String::new(), preferred(term(600, 401))), 1001),
        (pod(term(500, 0), preferred(term(500, 0))), 1000),
        (pod(term(501, 0), preferred(term(500, 0))), 1001),
        (pod(["{}"; 1001].join(","), String::new()), 0),
    ] {
        let args = format!(r#"{{"Pod":{pod},"NodeNames":["{room}"]}}"#);
        let filter = wire::read_args(Body::new(args), None, None).map(drop);
        let preempt = format!(r#"{{"Pod":{pod},"NodeNameToMetaVictims":{{}}}}"#);
        let preempt = read_preemption_args(preempt.as_bytes(), None).map(drop);
        for read in [filter, preempt] {
            let refused = read.map_err(|error| error.to_string()).err();
            let said = refused.is_some_and(|error| error.contains("more than 1000 conditions"));
            assert_eq!(said, conditions > 1000, "{conditions}: {pod:.200}");
        }
    }
}

#[test]
fn a_pod_of_more_conditions_than_are_worth_trying_on_each_pod_is_refused() {
    let list = |condition: &str, count: usize| vec![condition; count].join(",");
    let selector = |count: usize| {
        let conditions = list(r#"{"key":"k","operator":"Exists"}"#, count);
        format!(r#"{{"matchLabels":{{"a":"b"}},"matchExpressions":[{conditions}]}}"#)
    };
    let term = |count: usize| format!(r#"{{"labelSelector":{}}}"#, selector(count));
    let weighted = |count: usize| format!(r#"{{"weight":1,"podAffinityTerm":{}}}"#, term(count));
    let affinity = |kind: &str, required: &str, preferred: &str| {
        format!(
            r#"{{"affinity":{{"{kind}":{{
                "requiredDuringSchedulingIgnoredDuringExecution":[{required}],
                "preferredDuringSchedulingIgnoredDuringExecution":[{preferred}]}}}}}}"#
        )
    };
    let spread = |constraints: &str| format!(r#"{{"topologySpreadConstraints":[{constraints}]}}"#);
    let named = format!(r#"{{"namespaceSelector":{}}}"#, selector(500));
    let parts = Parts {
        details: true,
        ..Parts::default()
    };
    let (kept, unkept) = (
        NodeStore::with_parts(parts),
        NodeStore::with_parts(Parts::default()),
    );
    let room = "x".repeat(4 << 20);
    // A term counts as one condition, beside those of its selectors.
    for (spec, conditions) in [
        (affinity("podAffinity", &term(998), ""), 1000),
        (affinity("podAffinity", &term(999), ""), 1001),
        (affinity("podAntiAffinity", &term(999), ""), 1001),
        (affinity("podAffinity", "", &weighted(999)), 1001),
        (
            affinity("podAntiAffinity", &term(498), &weighted(498)),
            1000,
        ),
        (
            affinity("podAntiAffinity", &term(498), &weighted(499)),
            1001,
        ),
        (affinity("podAffinity", &list("{}", 1000), ""), 1000),
        (affinity("podAffinity", &list("{}", 1001), ""), 1001),
        (affinity("podAffinity", &list(&named, 2), ""), 1004),
        (spread(&term(998)), 1000),
        (spread(&term(999)), 1001),
        (spread(&list("{}", 1001)), 1001),
    ] {
        let pod = format!(r#"{{"spec":{spec}}}"#);
        let args = format!(r#"{{"Pod":{pod},"NodeNames":["{room}"]}}"#);
        let filter = |store: &NodeStore| {
            let body = Body::new(args.clone());
            wire::read_args(body, None, Some(store)).map(drop)
        };
        let preempt = format!(r#"{{"Pod":{pod},"NodeNameToMetaVictims":{{}}}}"#);
        let preempt = read_preemption_args(preempt.as_bytes(), Some(&kept)).map(drop);
        for read in [filter(&kept), preempt] {
            let refused = read.map_err(|error| error.to_string()).err();
            let said = refused.is_some_and(|error| error.contains("more than 1000 conditions"));
            assert_eq!(said, conditions > 1000, "{conditions}: {pod:.200}");
        }
        // What no plugin reads is skipped.
        assert!(filter(&unkept).is_ok());
    }
}
