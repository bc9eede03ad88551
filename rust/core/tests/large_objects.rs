//! Objects with tens of thousands of anything: work grows as they do, not as their square.
//!
//! Work is the time that this thread had a processor: what else the machine does adds nothing. Only
//! Linux tells that time to a program without unsafe code; elsewhere there is nothing to run here.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{fs, thread};

use common::{event, read};
use kubextend_core::labels::RequiredAffinity;
use kubextend_core::node::NodeStore;
use kubextend_core::pod::PodStore;
use kubextend_core::wire::apply;

/// How many elements the smaller objects have, and how much larger the others are.
const FEW: usize = 400;
const TIMES: usize = 10;

/// What ten times the input may cost, compared with as much input in ten objects. What costs the
/// square is ten, and where it only moves memory still more than three.
const MOST: f64 = 2.0;

/// How long this thread has had a processor, in nanoseconds.
fn worked() -> f64 {
    // The kernel brings the figure up to date when a thread gives way.
    thread::yield_now();
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// Checks that `work` on one large input costs about what it costs on as much in small ones.
fn grows_in_step<T>(what: &str, input: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let cost = |size: usize, times: usize| {
        let input = input(size);
        let (began, mut rounds) = (worked(), 0.0);
        // What is over in a moment is measured again and again.
        while worked() - began < 2e7 {
            (0..times).for_each(|_| work(&input));
            rounds += 1.0;
        }
        (worked() - began) / rounds
    };
    let small = cost(FEW, TIMES);
    let large = cost(FEW * TIMES, 1);
    assert!(
        large < MOST * small,
        "{what}: {large:e} ns, in small ones {small:e}"
    );
}

/// `count` pieces of JSON with commas between them.
fn many(size: usize, piece: impl Fn(usize) -> String) -> String {
    (0..size).map(piece).collect::<Vec<_>>().join(",")
}

/// A number below `size` for each of them, in no order.
fn shuffled(i: usize, size: usize) -> usize {
    i * 7919 % size
}

/// `count` keys in no order, each with a value.
fn keys(size: usize, value: &str) -> String {
    many(size, |i| format!(r#""k{:06}":{value}"#, shuffled(i, size)))
}

fn requests(list: &str) -> String {
    format!(r#"{{"name":"c","resources":{{"requests":{{{list}}}}}}}"#)
}

/// A container that asks for a resource that no other names.
fn own_resource(i: usize, size: usize, more: &str) -> String {
    let resource = shuffled(i, size);
    format!(r#"{{"name":"c{i}","resources":{{"requests":{{"r{resource:06}":"1"}}}}{more}}}"#)
}

/// Fields of a pod's metadata, spec and status.
type Fields = [String; 3];

/// What there is much of, and the fields with so many.
type Large = (&'static str, fn(usize) -> Fields);

/// A field of metadata that is a map.
fn metadata(field: &str, size: usize) -> Fields {
    [
        format!(r#""{field}":{{{}}}"#, keys(size, r#""v""#)),
        String::new(),
        String::new(),
    ]
}

fn spec(field: &str, value: &str) -> Fields {
    [
        String::new(),
        format!(r#""{field}":{value}"#),
        String::new(),
    ]
}

fn listed(field: &str, size: usize, piece: impl Fn(usize) -> String) -> Fields {
    spec(field, &format!("[{}]", many(size, piece)))
}

fn affinity(kind: &str, value: &str) -> Fields {
    let field = format!("{kind}DuringSchedulingIgnoredDuringExecution");
    spec(
        "affinity",
        &format!(r#"{{"nodeAffinity":{{"{field}":{value}}}}}"#),
    )
}

/// A pod with `count` containers of one name and a status for each.
fn statuses(size: usize, statuses: &str) -> Fields {
    let [_, containers, _] = listed("containers", size, |_| r#"{"name":"c"}"#.to_owned());
    [
        String::new(),
        containers,
        format!(r#""containerStatuses":[{statuses}]"#),
    ]
}

/// What a pod can have many of.
const LARGE_PODS: [Large; 16] = [
    ("labels", |size| metadata("labels", size)),
    ("annotations", |size| metadata("annotations", size)),
    ("node selector", |size| {
        spec("nodeSelector", &format!("{{{}}}", keys(size, r#""v""#)))
    }),
    ("tolerations", |size| {
        listed("tolerations", size, |i| format!(r#"{{"key":"k{i}"}}"#))
    }),
    ("gates", |size| {
        listed("schedulingGates", size, |i| format!(r#"{{"name":"g{i}"}}"#))
    }),
    ("overhead", |size| {
        spec("overhead", &format!("{{{}}}", keys(size, r#""1""#)))
    }),
    ("required terms", |size| {
        let term = |i| format!(r#"{{"matchExpressions":[{{"key":"k{i}","operator":"Exists"}}]}}"#);
        affinity(
            "required",
            &format!(r#"{{"nodeSelectorTerms":[{}]}}"#, many(size, term)),
        )
    }),
    ("values", |size| {
        let values = many(size, |i| format!(r#""v{:06}""#, shuffled(i, size)));
        let expression = format!(r#"{{"key":"k","operator":"NotIn","values":[{values}]}}"#);
        let terms = format!(r#"[{{"matchExpressions":[{expression}]}}]"#);
        affinity("required", &format!(r#"{{"nodeSelectorTerms":{terms}}}"#))
    }),
    (WRONG, |size| {
        let term = |i| {
            let expression = format!(r#"{{"key":"k{i}","operator":"no"}}"#);
            format!(r#"{{"weight":1,"preference":{{"matchExpressions":[{expression}]}}}}"#)
        };
        affinity("preferred", &format!("[{}]", many(size, term)))
    }),
    ("containers", |size| {
        listed("containers", size, |i| own_resource(i, size, ""))
    }),
    ("sidecars", |size| {
        let always = r#","restartPolicy":"Always""#;
        listed("initContainers", size, |i| own_resource(i, size, always))
    }),
    ("init containers behind sidecars", |size| {
        listed("initContainers", size, |i| {
            let sidecar = i < size / 2;
            own_resource(
                i,
                size,
                if sidecar {
                    r#","restartPolicy":"Always""#
                } else {
                    ""
                },
            )
        })
    }),
    ("resources", |size| {
        let these = keys(size / 2, r#""1""#);
        let others = these.replace("\"k", "\"a");
        listed("containers", 2, |i| {
            requests(if i == 0 { &these } else { &others })
        })
    }),
    ("statuses", |size| {
        statuses(
            size,
            &many(size, |i| format!(r#"{{"name":"s{i}","resources":{{}}}}"#)),
        )
    }),
    ("a large status of many containers", |size| {
        let held = format!(r#""resources":{{"requests":{{{}}}}}"#, keys(size, r#""1""#));
        statuses(size, &format!(r#"{{"name":"c",{held}}}"#))
    }),
    ("conditions", |size| {
        let conditions = many(size, |i| format!(r#"{{"type":"t{i}"}}"#));
        [
            String::new(),
            String::new(),
            format!(r#""conditions":[{conditions}]"#),
        ]
    }),
];

const WRONG: &str = "preferred terms that are wrong";

fn pod_json(version: &str, [metadata, spec, status]: &[String; 3]) -> String {
    let comma = |fields: &str| if fields.is_empty() { "" } else { "," };
    format!(
        r#"{{"metadata":{{"name":"p","uid":"u"{}{metadata}}},"spec":{{"nodeName":"n","schedulerName":"{version}"{}{spec}}},"status":{{{status}}}}}"#,
        comma(metadata),
        comma(spec)
    )
}

#[test]
fn a_pod_is_read_stored_counted_and_forgotten_in_time_that_grows_as_the_pod_does() {
    for (what, fields) in LARGE_PODS {
        let input = |size| {
            let fields = fields(size);
            ["1", "2"].map(|version| pod_json(version, &fields))
        };
        grows_in_step(what, input, |[first, second]| {
            let store = PodStore::new();
            for (kind, pod) in [("ADDED", first), ("MODIFIED", second)] {
                assert!(apply(&store, &event(kind, pod)).unwrap().changed, "{what}");
                assert_eq!(store.snapshot().requested_on("n", "pods"), 1, "{what}");
            }
            assert!(apply(&store, &event("DELETED", second)).unwrap().changed);
            assert!(store.snapshot().is_empty(), "{what}");
        });
    }
}

#[test]
fn what_a_pod_asks_of_nodes_is_made_ready_and_told_wrong_in_time_that_grows_as_the_pod_does() {
    for (what, fields) in LARGE_PODS {
        let input = |size| {
            let event = event("ADDED", &pod_json("1", &fields(size)));
            apply(&PodStore::new(), &event).unwrap().object.unwrap()
        };
        if !["required terms", "values", WRONG, "node selector"].contains(&what) {
            continue;
        }
        grows_in_step(what, input, |pod| {
            drop(RequiredAffinity::compile(&pod.required));
            let told = NodeStore::new().nodes().preferred_by(&pod.preferred);
            let told = told.err().map_or(String::new(), |error| error.to_string());
            assert_eq!(told.is_empty(), what != WRONG, "{what}");
            assert!(
                told.len() < 10_000,
                "{what}: a sentence of {} bytes",
                told.len()
            );
        });
    }
}

/// Fields of a node's metadata, spec and status.
const LARGE_NODES: [Large; 3] = [
    ("labels", |size| metadata("labels", size)),
    ("taints", |size| {
        listed("taints", size, |i| {
            format!(r#"{{"key":"k{i}","effect":"NoSchedule"}}"#)
        })
    }),
    ("allocatable", |size| {
        let allocatable = format!(r#""allocatable":{{{}}}"#, keys(size, r#""1""#));
        [String::new(), String::new(), allocatable]
    }),
];

#[test]
fn a_node_is_read_stored_compared_and_forgotten_in_time_that_grows_as_the_node_does() {
    for (what, fields) in LARGE_NODES {
        grows_in_step(
            what,
            |size| {
                let tolerating = pod_json("1", &LARGE_PODS[3].1(size));
                let pod = apply(&PodStore::new(), &event("ADDED", &tolerating)).unwrap();
                (pod_json("", &fields(size)), pod.object.unwrap())
            },
            |(node, pod)| {
                let store = NodeStore::new();
                assert!(apply(&store, &event("ADDED", node)).unwrap().changed);
                assert!(!apply(&store, &event("MODIFIED", node)).unwrap().changed);
                // A toleration without an operator wants the empty value, as these taints have it.
                assert!(
                    store.nodes().tolerated_by(&pod.tolerations).get(0),
                    "{what}"
                );
                assert!(apply(&store, &event("DELETED", node)).unwrap().changed);
            },
        );
    }
}

#[test]
fn names_are_read_and_looked_up_in_time_that_grows_as_their_number_does() {
    let input = |size| {
        let name = |i| format!(r#""node-{:06}.example.org""#, shuffled(i, size));
        format!(r#"{{"NodeNames":[{}]}}"#, many(size, name))
    };
    grows_in_step("names", input, |body| {
        let args = read(body.as_bytes(), None).unwrap();
        assert!(args.nodes().unwrap().len() >= FEW);
    });
}

#[test]
fn victims_are_taken_off_their_node_in_time_that_grows_as_their_number_does() {
    let input = |size| {
        let store = PodStore::new();
        for i in 0..100 {
            let pod = format!(
                r#"{{"metadata":{{"name":"p{i}","uid":"u{i}"}},"spec":{{"nodeName":"n"}}}}"#
            );
            apply(&store, &event("ADDED", &pod)).unwrap();
        }
        let uids: Vec<String> = (0..size).rev().map(|i| format!("u{i}")).collect();
        (store.snapshot(), uids)
    };
    grows_in_step("victims", input, |(snapshot, uids)| {
        let left = snapshot.without([("n", uids.as_slice())]);
        assert!(left.is_empty());
    });
}

#[test]
fn pods_that_name_one_node_come_and_go_in_time_that_grows_as_their_number_does() {
    let input = |size| -> Vec<String> {
        let asking = |i: usize| {
            let own = many(2, |own| format!(r#""a.b/r{i}-{own}":"1""#));
            let container = requests(&format!(r#""cpu":"1",{own}"#));
            format!(
                r#"{{"metadata":{{"name":"p{i}","uid":"u{i}"}},"spec":{{"nodeName":"ghost","containers":[{container}]}}}}"#
            )
        };
        (0..size).map(asking).collect()
    };
    grows_in_step("pods of one node", input, |pods| {
        let store = PodStore::new();
        for kind in ["ADDED", "DELETED"] {
            for pod in pods {
                assert!(apply(&store, &event(kind, pod)).unwrap().changed);
                // A reader holds what the next event changes.
                store.snapshot();
            }
        }
        assert!(store.snapshot().is_empty());
    });
}
