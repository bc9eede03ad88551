//! Errors of label selectors and node affinity, with the messages of Go's code.

use std::collections::HashSet;
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
    /// An unexpected token between two requirements.
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
    /// An unexpected token inside of a requirement.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The text of the offending token; empty at the end of the selector.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The operator `in` or `notin` without a list of values.
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
    /// The path of the value, such as `values[0][zone]`.
    pub field: String,
    /// What is wrong with the value and why, such as `Invalid value: "-": ...`.
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

/// The most different messages in the text of one error. A pod may have hundreds of thousands of
/// invalid values, and every log line would list them all.
const MOST_SENTENCES: usize = 32;

/// All invalid values in one requirement or one node affinity; never empty.
///
/// Source: apimachinery v0.36 pkg/util/errors/errors.go `aggregate.Error`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Returns `Ok` if there are no errors, else an error with all of `errors`.
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
        let mut known = HashSet::new();
        let mut sentences = Vec::new();
        for sentence in self.0.iter().map(FieldError::to_string) {
            if !known.insert(sentence.clone()) {
                continue;
            }
            if sentences.len() == MOST_SENTENCES {
                sentences.push("and more".to_owned());
                break;
            }
            sentences.push(sentence);
        }
        match sentences.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl std::error::Error for FieldErrors {}

#[cfg(test)]
mod tests {
    use super::{FieldError, FieldErrors, MOST_SENTENCES};

    fn errors(values: impl IntoIterator<Item = usize>) -> FieldErrors {
        let error = |value: usize| FieldError::invalid("f".into(), &value.to_string(), "d");
        FieldErrors(values.into_iter().map(error).collect())
    }

    fn said(values: impl IntoIterator<Item = usize>) -> Vec<String> {
        let values = values.into_iter();
        values
            .map(|value| format!("f: Invalid value: \"{value}\": d"))
            .collect()
    }

    #[test]
    fn each_sentence_is_said_once_in_the_order_in_which_it_was_found() {
        let repeated = [2, 1, 2, 1, 3].into_iter().chain((0..200_000).map(|_| 1));
        let expected = format!("[{}]", said([2, 1, 3]).join(", "));
        assert_eq!(errors(repeated).to_string(), expected);
        assert_eq!(errors([7, 7]).to_string(), said([7])[0]);
    }

    #[test]
    fn an_error_of_many_sentences_says_the_first_ones_and_that_there_are_more() {
        let all = format!("[{}]", said(0..MOST_SENTENCES).join(", "));
        assert_eq!(errors((0..MOST_SENTENCES).chain([0])).to_string(), all);
        let cut = format!("[{}, and more]", said(0..MOST_SENTENCES).join(", "));
        assert_eq!(errors(0..200_000).to_string(), cut);
    }
}
