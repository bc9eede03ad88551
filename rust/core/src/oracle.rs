//! Go's recorded answers, for the tests; `tests/go/oracle` writes them.

use std::collections::BTreeMap;

use serde_json::Value;

/// The list `name` of `tests/data/oracle/{file}.json`.
pub(crate) fn list(file: &str, name: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/oracle");
    let bytes = std::fs::read(format!("{folder}/{file}.json")).expect("recorded answers");
    let mut answers: Value = serde_json::from_slice(&bytes).expect("JSON");
    items(answers[name].take())
}

/// The items of a list; absent and null are empty.
pub(crate) fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// A text; absent and null are empty.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    items(value.clone()).iter().map(text).collect()
}

pub(crate) fn labels(value: &Value) -> BTreeMap<String, String> {
    let Value::Object(pairs) = value else {
        return BTreeMap::new();
    };
    pairs
        .iter()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

/// One letter per answer, as the recording has them.
pub(crate) fn letters(answers: impl Iterator<Item = bool>) -> String {
    answers.map(|yes| if yes { 'y' } else { 'n' }).collect()
}
