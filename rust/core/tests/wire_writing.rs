//! Answers: JSON that `serde_json` reads back, a subset of the request, kept nodes byte for byte.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::borrow::Cow;
use std::collections::BTreeMap;

use common::{all_escaped, answer, full_body, json, mask, names_body, node_json, read};
use kubextend_core::node::{Mask, Rejection, RequestStore};
use kubextend_core::wire::read_preemption_args;
use proptest::prelude::*;
use serde_json::{Value, json as value};

/// Texts that a careless writer breaks on.
const HARD: [&str; 12] = [
    "",
    "plain",
    "\"quoted\"",
    "back\\slash",
    "\0\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}",
    "\u{7f}\u{80}\u{9f}",
    "\u{2028}\u{2029}",
    "<script>&</script>",
    "é漢😀\u{10ffff}",
    "\u{fffd}\u{feff}",
    "ends with \\",
    "\"\\\"\\\"",
];

fn rejection(nodes: Mask, reason: &str, unresolvable: bool) -> Rejection {
    Rejection {
        nodes,
        reason: Cow::Owned(reason.to_owned()),
        unresolvable,
    }
}

#[test]
fn reasons_are_read_back_as_they_were_given() {
    let body = names_body(&["a", "b"]);
    for reason in HARD {
        let args = read(&body, None).unwrap();
        for unresolvable in [false, true] {
            let rejected = rejection(mask([true, false]), reason, unresolvable);
            let answer = json(&args.filter_result(&[rejected]).to_vec());
            let (given, other) = if unresolvable {
                ("FailedAndUnresolvableNodes", "FailedNodes")
            } else {
                ("FailedNodes", "FailedAndUnresolvableNodes")
            };
            assert_eq!(answer[given], value!({ "a": reason }));
            assert_eq!(answer[other], Value::Null);
            assert_eq!(answer["NodeNames"], value!(["b"]));
            assert_eq!(answer["Error"], "");
        }
    }
}

#[test]
fn a_node_that_several_reject_has_the_reason_of_the_first() {
    let args = read(&names_body(&["a", "b", "c"]), None).unwrap();
    let first = rejection(mask([true, false, false]), "first", false);
    let second = rejection(mask([true, true, false]), "second", true);
    let answer = json(&args.filter_result(&[first, second]).to_vec());
    assert_eq!(answer["FailedNodes"], value!({ "a": "first" }));
    assert_eq!(
        answer["FailedAndUnresolvableNodes"],
        value!({ "b": "second" })
    );
    assert_eq!(answer["NodeNames"], value!(["c"]));
}

#[test]
fn names_are_echoed_as_they_were_spelled() {
    // A lone surrogate cannot be said in UTF-8: only its own spelling brings it back.
    let spelled: Vec<String> = HARD
        .iter()
        .flat_map(|name| [serde_json::to_string(name).unwrap(), all_escaped(name)])
        .chain([
            r#""\ud800""#.to_owned(),
            r#""\/""#.to_owned(),
            "null".to_owned(),
        ])
        .collect();
    let body = format!(r#"{{"NodeNames":[{}]}}"#, spelled.join(" , "));
    let args = read(body.as_bytes(), None).unwrap();
    let echoed: Vec<&str> = spelled
        .iter()
        .map(|name| if name == "null" { r#""""# } else { name })
        .collect();
    let count = spelled.len();
    let kept = String::from_utf8(answer(&args, &Mask::filled(count, true), "no")).unwrap();
    let list = |separator: &str| format!(r#""NodeNames":[{}]"#, echoed.join(separator));
    assert!(
        kept.contains(&list(",")) || kept.contains(&list(" , ")),
        "{kept}"
    );
    let failed = String::from_utf8(answer(&args, &Mask::filled(count, false), "no")).unwrap();
    let scored = String::from_utf8(args.prioritize_result(&vec![3; count])).unwrap();
    for name in echoed {
        assert!(failed.contains(&format!(r#"{name}:"no""#)), "{name}");
        assert!(
            scored.contains(&format!(r#"{{"Host":{name},"Score":3}}"#)),
            "{name}"
        );
    }
}

#[test]
fn names_of_full_nodes_are_written_so_that_they_read_back() {
    for name in HARD {
        for spelled in [serde_json::to_string(name).unwrap(), all_escaped(name)] {
            let node = format!(r#"{{"metadata":{{"name":{spelled}}}}}"#);
            let body = full_body(std::slice::from_ref(&node));
            let store = RequestStore::new(1 << 20);
            for _ in 0..2 {
                let args = read(&body, Some(&store)).unwrap();
                let failed = json(&answer(&args, &mask([false]), "no"));
                assert_eq!(failed["FailedAndUnresolvableNodes"], value!({ name: "no" }));
                let scored = json(&args.prioritize_result(&[-5]));
                assert_eq!(scored, value!([{ "Host": name, "Score": -5 }]));
                let kept = String::from_utf8(answer(&args, &mask([true]), "no")).unwrap();
                assert!(kept.contains(&node));
            }
        }
    }
}

#[test]
fn scores_of_every_size_are_written_as_literal_integers() {
    let scores = [
        0,
        1,
        -1,
        9,
        10,
        100,
        -100,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
        1 << 53,
    ];
    let names: Vec<String> = (0..scores.len()).map(|i| format!("n{i}")).collect();
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let args = read(&names_body(&borrowed), None).unwrap();
    let answer = json(&args.prioritize_result(&scores));
    let expected: Vec<Value> = names
        .iter()
        .zip(scores)
        .map(|(name, score)| value!({ "Host": name, "Score": score }))
        .collect();
    assert_eq!(answer, Value::Array(expected));
}

#[test]
fn a_request_without_nodes_is_answered_with_nulls() {
    let args = read(b"{}", None).unwrap();
    let expected = value!({
        "Nodes": null, "NodeNames": null, "FailedNodes": null,
        "FailedAndUnresolvableNodes": null, "Error": "",
    });
    assert_eq!(json(&args.filter_result(&[]).to_vec()), expected);
    assert_eq!(args.prioritize_result(&[]), b"[]");
}

#[test]
fn every_kept_node_and_only_they_come_back_however_the_list_was_spaced() {
    let nodes: Vec<String> = (0..6)
        .map(|i| node_json(&format!("n{i}"), &[("i", "x")], i))
        .collect();
    for separator in [",", " ,", ", ", "\n,\n"] {
        let items = nodes.join(separator);
        let body = format!(r#"{{"Nodes":{{"items":[ {items} ]}}}}"#);
        let args = read(body.as_bytes(), None).unwrap();
        for bits in 0..64u32 {
            let kept = mask((0..6).map(|i| bits >> i & 1 == 1));
            let text = String::from_utf8(answer(&args, &kept, "no")).unwrap();
            let answer = json(text.as_bytes());
            let expected: Vec<Value> = kept.indices().map(|i| json(nodes[i].as_bytes())).collect();
            assert_eq!(
                answer["Nodes"]["items"],
                Value::Array(expected),
                "{separator:?} {bits}"
            );
            assert!(kept.indices().all(|i| text.contains(&nodes[i])));
        }
    }
}

#[test]
fn names_that_were_decoded_over_others_come_back_in_their_order() {
    let body = br#"{"NodeNames":["a","b","c","d"],"NodeNames":["x",null,"y"],"NodeNames":[null,"z",null,null]}"#;
    let args = read(body, None).unwrap();
    for bits in 0..16u32 {
        let kept = mask((0..4).map(|i| bits >> i & 1 == 1));
        let answer = json(&answer(&args, &kept, "no"));
        let expected: Vec<&str> = kept.indices().map(|i| ["x", "z", "y", "d"][i]).collect();
        assert_eq!(answer["NodeNames"], value!(expected));
    }
}

#[test]
fn preemption_answers_are_meta_victims_for_both_forms_and_never_null() {
    let hard = serde_json::to_string(HARD[4]).unwrap();
    let whole = format!(
        r#"{{"NodeNameToVictims":{{"b":{{"Pods":[{{"metadata":{{"uid":"u1"}}}},null,{{"metadata":{{"uid":{hard}}}}}],"NumPDBViolations":2}},{hard}:{{}},"gone":null}},"NodeNameToMetaVictims":null}}"#
    );
    let meta = format!(
        r#"{{"nodenametometavictims":{{{hard}:{{"Pods":null}},"gone":null,"b":{{"numpdbviolations":2,"pods":[{{"uid":"u1"}},null,{{"UID":{hard}}}]}}}},"NodeNameToVictims":{{"other":{{}}}}}}"#
    );
    for body in [whole, meta] {
        let args = read_preemption_args(body.as_bytes(), None).unwrap();
        assert_eq!(common::names(args.nodes()), [HARD[4], "b"]);
        let both = json(&args.result(&mask([true, true])));
        let b = value!({"Pods": [{"UID": "u1"}, {"UID": HARD[4]}], "NumPDBViolations": 2});
        let empty = value!({"Pods": [], "NumPDBViolations": 0});
        assert_eq!(
            both,
            value!({"NodeNameToMetaVictims": {HARD[4]: empty, "b": b}})
        );
        let first = json(&args.result(&mask([true, false])));
        assert_eq!(first, value!({"NodeNameToMetaVictims": {HARD[4]: empty}}));
        let second = json(&args.result(&mask([false, true])));
        assert_eq!(second, value!({"NodeNameToMetaVictims": {"b": b}}));
        assert_eq!(
            args.result(&mask([false, false])),
            br#"{"NodeNameToMetaVictims":{}}"#
        );
    }
}

#[test]
fn an_answer_names_only_victims_that_are_on_their_candidates() {
    let body = br#"{"NodeNameToVictims":{
        "a":{"Pods":[
            {"metadata":{"uid":"u1"},"spec":{"nodeName":"b"}},
            {"metadata":{"uid":"u2"},"spec":{"nodeName":"a"}},
            {"spec":{"nodeName":"c"},"metadata":{"uid":"u3"}}
        ],"NumPDBViolations":1},
        "b":{"Pods":[{"metadata":{"uid":"u4"},"spec":{}},{"metadata":{"uid":"u5"}}]}
    }}"#;
    let args = read_preemption_args(body, None).unwrap();
    let elsewhere = [
        ("b".to_owned(), "u1".to_owned()),
        ("c".to_owned(), "u3".to_owned()),
    ];
    assert_eq!(args.victims()[0].elsewhere, elsewhere);
    assert_eq!(args.victims()[1].elsewhere, []);
    let answer = json(&args.result(&mask([true, true])));
    let a = value!({"Pods": [{"UID": "u2"}], "NumPDBViolations": 1});
    let b = value!({"Pods": [{"UID": "u4"}, {"UID": "u5"}], "NumPDBViolations": 0});
    assert_eq!(answer, value!({"NodeNameToMetaVictims": {"a": a, "b": b}}));
}

#[test]
fn a_preemption_without_candidates_is_answered_with_an_empty_map() {
    for body in [
        "null",
        "{}",
        r#"{"NodeNameToVictims":{}}"#,
        r#"{"NodeNameToVictims":{"a":null}}"#,
    ] {
        let args = read_preemption_args(body.as_bytes(), None).unwrap();
        assert_eq!(
            args.result(&mask([])),
            br#"{"NodeNameToMetaVictims":{}}"#,
            "{body}"
        );
    }
}

fn rejections(len: usize) -> impl Strategy<Value = Vec<(Vec<bool>, String, bool)>> {
    let hard = proptest::sample::select(HARD.to_vec());
    let one = (
        proptest::collection::vec(any::<bool>(), len),
        hard,
        any::<bool>(),
    );
    proptest::collection::vec(
        one.prop_map(|(nodes, reason, kind)| (nodes, reason.to_owned(), kind)),
        0..5,
    )
}

proptest! {
    #![proptest_config(common::cases(500))]

    #[test]
    fn any_answer_is_a_subset_and_every_node_is_kept_or_has_its_first_reason(
        (len, rejections) in (0..130usize).prop_flat_map(|len| (Just(len), rejections(len))),
        full in any::<bool>(),
    ) {
        let names: Vec<String> = (0..len).map(|i| format!("n{i}")).collect();
        let nodes: Vec<String> = names.iter().map(|name| node_json(name, &[], 3)).collect();
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        let body = if full { full_body(&nodes) } else { names_body(&borrowed) };
        let args = read(&body, None).unwrap();
        let given: Vec<Rejection> = rejections
            .iter()
            .map(|(nodes, reason, kind)| rejection(mask(nodes.iter().copied()), reason, *kind))
            .collect();
        let answer = json(&args.filter_result(&given).to_vec());
        let mut kept = Vec::new();
        let mut failed: [BTreeMap<String, &str>; 2] = [BTreeMap::new(), BTreeMap::new()];
        for (at, name) in names.iter().enumerate() {
            match rejections.iter().find(|(nodes, _, _)| nodes[at]) {
                None => kept.push(if full { json(nodes[at].as_bytes()) } else { value!(name) }),
                Some((_, reason, kind)) => {
                    failed[usize::from(*kind)].insert(name.clone(), reason);
                }
            }
        }
        let shown = if full { &answer["Nodes"]["items"] } else { &answer["NodeNames"] };
        prop_assert_eq!(shown, &Value::Array(kept));
        for (key, failed) in ["FailedNodes", "FailedAndUnresolvableNodes"].iter().zip(&failed) {
            let expected = if failed.is_empty() { Value::Null } else { value!(failed) };
            prop_assert_eq!(&answer[key], &expected);
        }
    }
}
