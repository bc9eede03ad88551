//! What the integration tests share: bodies as kube-scheduler writes them, and slow readings of
//! answers.

#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::path::PathBuf;

use kubextend_core::node::{Body, Mask, NodeStore, Nodes, Rejection, RequestStore};
use kubextend_core::wire::{self, ExtenderArgs, WireError};
use proptest::test_runner::Config as ProptestConfig;
use serde_json::Value;

/// A node as Go writes it: `metadata.name` first.
pub(crate) fn node_json(name: &str, labels: &[(&str, &str)], filler: usize) -> String {
    let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k:?}:{v:?}")).collect();
    format!(
        r#"{{"metadata":{{"name":{name:?},"labels":{{{}}}}},"status":{{"filler":"{}"}}}}"#,
        labels.join(","),
        "x".repeat(filler)
    )
}

/// A full-mode request.
pub(crate) fn full_body(nodes: &[String]) -> Vec<u8> {
    let items = nodes.join(",");
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"p"}}}},"Nodes":{{"metadata":{{}},"items":[{items}]}},"NodeNames":null}}"#
    )
    .into_bytes()
}

/// A names-mode request.
pub(crate) fn names_body(names: &[&str]) -> Vec<u8> {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"p"}}}},"Nodes":null,"NodeNames":[{}]}}"#,
        names.join(",")
    )
    .into_bytes()
}

pub(crate) fn node_list(nodes: &[String]) -> Vec<u8> {
    format!(
        r#"{{"kind":"NodeList","metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
        nodes.join(",")
    )
    .into_bytes()
}

pub(crate) fn event(kind: &str, object: &str) -> Vec<u8> {
    format!(r#"{{"type":"{kind}","object":{object}}}"#).into_bytes()
}

pub(crate) fn read(body: &[u8], store: Option<&RequestStore>) -> Result<ExtenderArgs, WireError> {
    wire::read_args(Body::new(body.to_vec()), store, None)
}

pub(crate) fn read_watched(body: &[u8], watched: &NodeStore) -> Result<ExtenderArgs, WireError> {
    wire::read_args(Body::new(body.to_vec()), None, Some(watched))
}

pub(crate) fn names(nodes: &Nodes) -> Vec<String> {
    (0..nodes.len())
        .map(|at| nodes.name(at).to_owned())
        .collect()
}

/// One label of every node, None where it or the node is absent.
pub(crate) fn label(nodes: &Nodes, key: &str) -> Vec<Option<String>> {
    (0..nodes.len())
        .map(|at| nodes.node(at)?.label(key).map(ToString::to_string))
        .collect()
}

pub(crate) fn mask(bits: impl IntoIterator<Item = bool>) -> Mask {
    let bits: Vec<bool> = bits.into_iter().collect();
    Mask::from_fn(bits.len(), |at| bits[at])
}

/// The answer that rejects what `kept` lacks.
pub(crate) fn answer(args: &ExtenderArgs, kept: &Mask, reason: &str) -> Vec<u8> {
    let rejection = Rejection {
        nodes: !kept,
        reason: reason.to_owned().into(),
        unresolvable: true,
    };
    args.filter_result(&[rejection]).to_vec()
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        panic!("not JSON: {error}: {}", String::from_utf8_lossy(bytes));
    })
}

/// That many examples, or as many as `PROPTEST_CASES` asks for if that is more; a failing one is
/// shown, not written to a file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: cases.max(asked.cases),
        failure_persistence: None,
        ..asked
    }
}

/// A file below `tests/data` of the repository.
pub(crate) fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data")
        .join(path)
}

/// Every file of a folder below `tests/data` with this ending, by name.
pub(crate) fn data_files(folder: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(data(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// A text as a JSON string in which every character is an escape.
pub(crate) fn all_escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for unit in text.encode_utf16() {
        write!(out, "\\u{unit:04x}").unwrap();
    }
    out.push('"');
    out
}
