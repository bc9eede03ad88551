//! Validates label keys and label values as Kubernetes does.
//!
//! Source: apimachinery v0.36 pkg/api/validate/content/{kube,dns}.go

/// What a label key is, for error messages.
pub(super) const LABEL_KEY: &str = "a label key: 1 to 63 letters, digits, '-', '_' and '.', with a \
    letter or digit at both ends, after a lowercase DNS subdomain of at most 253 bytes and '/', or \
    without both";
/// What a label value is, for error messages.
pub(super) const LABEL_VALUE: &str = "a label value: at most 63 letters, digits, '-', '_' and '.', \
    with a letter or digit at both ends";

/// The most bytes of the name part of a label key, and of a label value.
const NAME_BYTES: usize = 63;
/// The most bytes of the prefix of a label key.
const PREFIX_BYTES: usize = 253;

/// Whether `key` is a label key.
pub(super) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_subdomain = |text: &str| text.len() <= PREFIX_BYTES && text.split('.').all(is_dns_label);
    is_name(name) && prefix.is_none_or(is_subdomain)
}

/// Whether `value` is a label value.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Whether the text has at most 63 bytes and matches `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`.
fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.len() <= NAME_BYTES && is_framed(text, |b| b.is_ascii_alphanumeric(), inner)
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
    use super::{is_label_key, is_label_value};

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
            assert!(is_label_key(key), "{key}");
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
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn values_may_be_empty_but_not_longer_than_63_bytes() {
        for (value, valid) in [
            ("", true),
            ("a.b_c-D", true),
            ("-5", false),
            ("a ", false),
            ("é", false),
        ] {
            assert_eq!(is_label_value(value), valid, "{value}");
        }
        assert!(is_label_value(&"v".repeat(63)));
        assert!(!is_label_value(&"v".repeat(64)));
    }
}
