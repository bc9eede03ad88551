//! What can be wrong with a selector or a node affinity, said as Go says it.

use std::fmt;

use super::quoted::quoted;

/// Why a text is not a label selector.
///
/// ```
/// use kubextend_core::labels::Selector;
///
/// let error = Selector::parse("a,").unwrap_err();
/// assert_eq!(error.to_string(), "found '', expected: identifier after ','");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// Something stands between two requirements that does not belong there.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The text of the offending token; empty at the end of the selector.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// A requirement is not well formed, or its key or a value is not valid.
    #[error("unable to parse requirement: {0}")]
    Requirement(RequirementError),
}

/// Why one requirement of a selector is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequirementError {
    /// A token that does not belong there.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The text of the offending token; empty at the end of the selector.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// `in` or `notin` without its list.
    #[error("found '{found}' expected: '('")]
    NoValueList {
        /// The text of the offending token; empty at the end of the selector.
        found: String,
    },
    /// The key is not a qualified name, or a value is not a label value.
    #[error(transparent)]
    Invalid(#[from] FieldErrors),
}

/// One key, operator or value that is not valid.
///
/// Source: apimachinery v0.36 pkg/util/validation/field/errors.go
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where it stands, such as `values[0][zone]`.
    pub field: String,
    /// What is wrong and why, such as `Invalid value: "-": ...`.
    pub body: String,
}

impl FieldError {
    pub(super) fn invalid(field: String, value: &str, detail: &str) -> Self {
        Self::invalid_rendered(field, &quoted(value), detail)
    }

    pub(super) fn invalid_list(field: String, values: &[String], detail: &str) -> Self {
        Self::invalid_rendered(field, &listed(values), detail)
    }

    pub(super) fn unsupported(field: String, value: &str, detail: &str) -> Self {
        let body = format!("Unsupported value: {}: {detail}", quoted(value));
        Self { field, body }
    }

    fn invalid_rendered(field: String, value: &str, detail: &str) -> Self {
        let body = format!("Invalid value: {value}: {detail}");
        Self { field, body }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A list as Go's JSON shows it; an absent list is `null` there.
fn listed(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let items: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", items.join(","))
}

/// Everything that is not valid in one requirement or one node affinity; never empty.
///
/// Source: apimachinery v0.36 pkg/util/errors/errors.go `aggregate.Error`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// `Ok` where nothing was found wrong.
    pub(super) fn none_in(errors: Vec<FieldError>) -> Result<(), Self> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self(errors))
        }
    }

    pub(super) fn one(error: FieldError) -> Self {
        Self(vec![error])
    }

    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// The errors, in the order in which they were found.
    pub fn errors(&self) -> &[FieldError] {
        &self.0
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sentences: Vec<String> = Vec::with_capacity(self.0.len());
        for sentence in self.0.iter().map(FieldError::to_string) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        match sentences.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl std::error::Error for FieldErrors {}
