//! Validates label keys and label values as Kubernetes does.
//!
//! Source: apimachinery v0.36 pkg/api/validate/content/{kube,dns}.go

// The two spaces are Go's own.
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character \
    (e.g. 'MyName',  or 'my.name',  or '123-abc', \
    regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character \
    (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The most bytes of the name part of a label key, and of a label value.
const NAME_BYTES: usize = 63;
/// The most bytes of the prefix of a label key.
const PREFIX_BYTES: usize = 253;

/// Returns the errors of `key` as a label key; empty if the key is valid.
pub(super) fn label_key_faults(key: &str) -> Vec<String> {
    match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name_faults(name),
        [prefix, name] => {
            let mut faults = prefix_faults(prefix);
            faults.extend(name_faults(name));
            faults
        }
        _ => vec![format!(
            "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' \
             (e.g. 'example.com/MyName')"
        )],
    }
}

/// Returns the errors of `value` as a label value; empty if the value is valid.
pub(super) fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_BYTES {
        faults.push(too_long(NAME_BYTES));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    faults
}

fn prefix_faults(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut faults = Vec::new();
    if prefix.len() > PREFIX_BYTES {
        faults.push(format!("prefix part {}", too_long(PREFIX_BYTES)));
    }
    if !prefix.split('.').all(is_dns_label) {
        faults.push(format!("prefix part {SUBDOMAIN_RULE}"));
    }
    faults
}

fn name_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES {
        faults.push(format!("name part {}", too_long(NAME_BYTES)));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    faults
}

fn too_long(bytes: usize) -> String {
    format!("must be no more than {bytes} bytes")
}

/// Whether the text matches `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`.
fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    is_framed(text, |b| b.is_ascii_alphanumeric(), inner)
}

/// Whether the text matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_dns_label(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    is_framed(text, edge, |b| edge(b) || b == b'-')
}

/// Whether the first and the last byte are an `edge` and all others are `inner`.
fn is_framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|&b| inner(b))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{label_key_faults, label_value_faults};

    #[test]
    fn keys_are_qualified_names() {
        let (long, longer) = ("n".repeat(63), "n".repeat(64));
        let prefix = |bytes: usize| format!("{}/n", "p".repeat(bytes));
        for key in [
            "a",
            "A.b_c-d",
            "0",
            "example.com/Name",
            "x/y",
            &long,
            &prefix(253),
        ] {
            assert_eq!(label_key_faults(key), Vec::<String>::new(), "{key}");
        }
        for key in [
            "",
            "-a",
            "a-",
            "é",
            "a/",
            "/a",
            "A/a",
            "a..b/c",
            "a/b/c",
            &longer,
            &prefix(254),
        ] {
            assert_ne!(label_key_faults(key), Vec::<String>::new(), "{key}");
        }
    }

    #[test]
    fn values_may_be_empty_but_not_longer_than_63_bytes() {
        for (value, faults) in [("", 0), ("a.b_c-D", 0), ("-5", 1), ("a ", 1), ("é", 1)] {
            assert_eq!(label_value_faults(value).len(), faults, "{value}");
        }
        assert_eq!(label_value_faults(&"v".repeat(63)).len(), 0);
        assert_eq!(label_value_faults(&"v".repeat(64)).len(), 1);
        assert_eq!(label_value_faults(&"-".repeat(64)).len(), 2);
    }
}
