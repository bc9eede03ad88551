//! The error of label selectors and node affinity.

use std::fmt;

/// The most different faults that one error lists. A pod may have hundreds of thousands of invalid
/// values, and every log line would list them all.
const MOST_FAULTS: usize = 32;

/// What is wrong in a label selector or a node affinity, where, and what would be right.
///
/// ```
/// use kubextend_core::labels::Selector;
///
/// let error = Selector::parse("a,").unwrap_err();
/// assert_eq!(error.to_string(), r#"found "", expected a key after ','"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelError {
    /// One sentence for each fault, each once; one more than `MOST_FAULTS` at most.
    faults: Vec<String>,
}

impl LabelError {
    /// Returns the error of a selector that has the text `found` in a wrong place.
    pub(super) fn unexpected(found: &str, expected: &str) -> Self {
        let faults = vec![format!("found {found:?}, expected {expected}")];
        Self { faults }
    }

    /// Adds a fault: what was found at a path such as `values[0]`, and what would be right.
    pub(super) fn add(&mut self, path: &str, found: impl fmt::Debug, expected: &str) {
        self.add_fault(format!("{path}: found {found:?}, expected {expected}"));
    }

    /// Adds the faults of `other`.
    pub(super) fn extend(&mut self, other: Self) {
        other
            .faults
            .into_iter()
            .for_each(|fault| self.add_fault(fault));
    }

    fn add_fault(&mut self, fault: String) {
        if self.faults.len() <= MOST_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// Returns `Ok` if no fault was added, else the error.
    pub(super) fn unless_empty(self) -> Result<(), Self> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.faults.len().min(MOST_FAULTS);
        f.write_str(&self.faults[..shown].join("; "))?;
        f.write_str(if shown < self.faults.len() {
            "; and more"
        } else {
            ""
        })
    }
}

impl std::error::Error for LabelError {}

#[cfg(test)]
mod tests {
    use super::{LabelError, MOST_FAULTS};

    fn text_of(values: impl IntoIterator<Item = usize>) -> String {
        let mut error = LabelError::default();
        values
            .into_iter()
            .for_each(|value| error.add("f", value, "none"));
        error.to_string()
    }

    fn expected(values: impl IntoIterator<Item = usize>) -> String {
        let fault = |value| format!("f: found {value}, expected none");
        let faults: Vec<_> = values.into_iter().map(fault).collect();
        faults.join("; ")
    }

    #[test]
    fn each_fault_is_listed_once_in_the_order_in_which_it_was_found() {
        let repeated = [2, 1, 2, 1, 3].into_iter().chain((0..200_000).map(|_| 1));
        assert_eq!(text_of(repeated), expected([2, 1, 3]));
    }

    #[test]
    fn an_error_of_many_faults_lists_the_first_ones_and_says_that_there_are_more() {
        assert_eq!(
            text_of((0..MOST_FAULTS).chain([0])),
            expected(0..MOST_FAULTS)
        );
        let cut = expected(0..MOST_FAULTS) + "; and more";
        assert_eq!(text_of(0..200_000), cut);
    }
}
