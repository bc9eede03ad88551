//! The core alone: what a request costs, beside what the memory allows.
//!
//! The nodes are a recorded one (16 KB) under other names; two of five carry the label that the
//! filter asks for, and every answer is looked at before it is timed.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kubextend_core::node::{Body, NodeStore, Rejection, RequestStore};
use kubextend_core::plugins::NativePlugin;
use kubextend_core::score;
use kubextend_core::wire::{ExtenderArgs, Relist, apply, read_args};
use serde_json::{Value, json};

const SIZES: [usize; 2] = [500, 5000];
const ROOMY: u64 = 1 << 32;
const RDMA: &str = "node.kubernetes.io/rdma-enabled";

fn recorded_node() -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/wire/full");
    let body = std::fs::read(format!("{folder}/filter-one-node.json")).unwrap();
    let mut args: Value = serde_json::from_slice(&body).unwrap();
    args["Nodes"]["items"][0].take()
}

struct Cluster {
    names: Vec<String>,
    /// As Go writes them: `metadata.name` first.
    items: Vec<String>,
}

impl Cluster {
    fn of(size: usize) -> Self {
        let mut node = recorded_node();
        let names: Vec<String> = (0..size)
            .map(|at| {
                format!(
                    "ip-10-0-{}-{}.cn-north-1.compute.internal",
                    at >> 8,
                    at & 255
                )
            })
            .collect();
        let items = names.iter().enumerate().map(|(at, name)| {
            let labels = node["metadata"]["labels"].as_object_mut().unwrap();
            labels.insert("kubernetes.io/hostname".into(), json!(name));
            labels.insert(
                RDMA.into(),
                json!(if at % 5 < 2 { "true" } else { "false" }),
            );
            let mut meta = node["metadata"].clone();
            meta.as_object_mut().unwrap().remove("name");
            let rest = serde_json::to_string(&meta).unwrap();
            let (spec, status) = (&node["spec"], &node["status"]);
            let name_first = format!(r#"{{"name":"{name}",{}"#, &rest[1..]);
            format!(r#"{{"metadata":{name_first},"spec":{spec},"status":{status}}}"#)
        });
        let items = items.collect();
        Self { names, items }
    }

    fn full(&self) -> Vec<u8> {
        let items = self.items.join(",");
        args(&format!(r#"{{"metadata":{{}},"items":[{items}]}}"#), "null")
    }

    fn names(&self, order: impl Iterator<Item = usize>) -> Vec<u8> {
        let names: Vec<&str> = order.map(|at| &*self.names[at]).collect();
        args("null", &json!(names).to_string())
    }

    fn list(&self) -> Vec<u8> {
        let items = self.items.join(",");
        format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{items}]}}"#).into_bytes()
    }

    fn watched(&self) -> Arc<NodeStore> {
        let store = Arc::new(NodeStore::new());
        let mut relist = Relist::begin(store.clone());
        relist.page(&self.list()).unwrap();
        relist.commit();
        store
    }
}

fn args(nodes: &str, names: &str) -> Vec<u8> {
    let pod = json!({ "metadata": { "name": "p", "labels": { "high-comm": "true" } } });
    format!(r#"{{"Pod":{pod},"Nodes":{nodes},"NodeNames":{names}}}"#).into_bytes()
}

fn rejections(args: &ExtenderArgs) -> Vec<Rejection> {
    let plugin = NativePlugin::named("HighCommPodFilter").unwrap();
    let filter = plugin.as_filter().unwrap();
    filter.filter(args.pod().unwrap(), args.nodes().unwrap())
}

/// Read, filter, answer.
fn run(body: Body, store: Option<&RequestStore>, watched: Option<&NodeStore>) -> Vec<u8> {
    let args = read_args(body, store, watched).unwrap();
    args.filter_result(&rejections(&args)).to_vec()
}

fn check(answer: &[u8], size: usize) {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    let kept = answer["Nodes"]["items"].as_array();
    let kept = kept.or(answer["NodeNames"].as_array()).unwrap();
    assert_eq!(kept.len(), size * 2 / 5);
    let rejected = answer["FailedAndUnresolvableNodes"].as_object().unwrap();
    assert_eq!(rejected.len(), size - kept.len());
}

fn full_mode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("full");
    for size in SIZES {
        let bytes = Cluster::of(size).full();
        let (first, again) = (Body::new(bytes.clone()), Body::new(bytes.clone()));
        let store = RequestStore::new(ROOMY);
        let answer = run(first, Some(&store), None);
        check(&answer, size);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("compare_and_copy", size), |bench| {
            bench.iter(|| {
                assert!(black_box(&bytes) == again.bytes());
                black_box(answer.clone())
            });
        });
        group.bench_function(BenchmarkId::new("seen", size), |bench| {
            bench.iter(|| run(again.clone(), Some(&store), None));
        });
        group.bench_function(BenchmarkId::new("unseen", size), |bench| {
            let empty = || RequestStore::new(ROOMY);
            let read = |store: &mut RequestStore| run(again.clone(), Some(store), None);
            bench.iter_batched_ref(empty, read, BatchSize::PerIteration);
        });
    }
}

fn names_mode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("names");
    for size in SIZES {
        let cluster = Cluster::of(size);
        let store = cluster.watched();
        // As the threads of kube-scheduler mix them: neighbours never follow each other.
        let mixed = (0..size).map(|at| at * 7 % size);
        for (order, body) in [
            ("in_order", cluster.names(0..size)),
            ("mixed", cluster.names(mixed)),
        ] {
            let body = Body::new(body);
            check(&run(body.clone(), None, Some(&store)), size);
            group.bench_function(BenchmarkId::new(order, size), |bench| {
                bench.iter(|| run(body.clone(), None, Some(&store)));
            });
        }
    }
}

fn scores(criterion: &mut Criterion) {
    let raw: Vec<i64> = (0..15_000).map(|at| at * 37 % 1009).collect();
    criterion.bench_function("scores/normalize_and_weigh/15000", |bench| {
        let (mut scores, mut weighed) = (vec![0; raw.len()], vec![0; raw.len()]);
        bench.iter(|| {
            score::normalize(&raw, 100, false, &mut scores);
            score::weigh_additive(&[(&scores, 3), (&raw, 1)], black_box(&mut weighed));
        });
    });
}

fn watch(criterion: &mut Criterion) {
    let cluster = Cluster::of(1000);
    let (list, store) = (cluster.list(), cluster.watched());
    let heartbeats: Vec<Vec<u8>> = cluster
        .items
        .iter()
        .map(|node| format!(r#"{{"type":"MODIFIED","object":{node}}}"#).into_bytes())
        .collect();
    let mut group = criterion.benchmark_group("watch");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("list/1000", |bench| {
        bench.iter(|| {
            let mut relist = Relist::begin(Arc::new(NodeStore::new()));
            relist.page(black_box(&list)).unwrap();
            relist.commit()
        });
    });
    group.bench_function("events/1000", |bench| {
        bench.iter(|| {
            for event in &heartbeats {
                assert!(!apply(&*store, event).unwrap().changed);
            }
        });
    });
}

criterion_group!(benches, full_mode, names_mode, scores, watch);
criterion_main!(benches);
