//! `Requirement`: one condition of a label selector on one label.

use std::fmt;

use super::LabelLookup;
use super::fault::{FieldError, FieldErrors};
use super::validation::{label_key_faults, label_value_faults};

/// How a requirement compares the label with its values.
///
/// ```
/// use kubextend_core::labels::{Operator, Selector};
///
/// let selector = Selector::parse("zone notin (a, b)").unwrap();
/// assert_eq!(selector.requirements()[0].operator(), Operator::NotIn);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// `key in (a, b)`
    In,
    /// `key notin (a, b)`
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`; an operator of its own, because its text differs from that of `Equals`.
    DoubleEquals,
    /// `key!=a`
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>5`
    GreaterThan,
    /// `key<5`
    LessThan,
}

impl Operator {
    /// Returns the error if the operator does not take `count` values; None if it does.
    fn count_fault(self, count: usize) -> Option<&'static str> {
        let (right, fault) = match self {
            Self::In | Self::NotIn => (
                count > 0,
                "for 'in', 'notin' operators, values set can't be empty",
            ),
            Self::Equals | Self::DoubleEquals | Self::NotEquals => (
                count == 1,
                "exact-match compatibility requires one single value",
            ),
            Self::Exists | Self::DoesNotExist => (
                count == 0,
                "values set must be empty for exists and does not exist",
            ),
            Self::GreaterThan | Self::LessThan => (
                count == 1,
                "for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        };
        (!right).then_some(fault)
    }

    fn compares_integers(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    /// Returns the operator's text between the key and the values, such as ` in `.
    fn sign(self) -> &'static str {
        match self {
            Self::In => " in ",
            Self::NotIn => " notin ",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Exists | Self::DoesNotExist => "",
            Self::GreaterThan => ">",
            Self::LessThan => "<",
        }
    }
}

/// One condition of a label selector on one label.
///
/// ```
/// use std::collections::BTreeMap;
/// use kubextend_core::labels::{Operator, Requirement};
///
/// let requirement = Requirement::new("zone", Operator::NotIn, vec!["a".to_owned()]).unwrap();
/// assert!(requirement.matches(&BTreeMap::new()));
/// assert_eq!(requirement.to_string(), "zone notin (a)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
    /// The number to compare with for the operators `>` and `<`; 0 for every other operator.
    bound: i64,
}

impl Requirement {
    /// Makes a requirement, and checks the key and the values.
    ///
    /// Source: apimachinery v0.36 pkg/labels/selector.go `NewRequirement`
    ///
    /// # Errors
    /// Everything that is wrong with the key, the number of values and each value.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, FieldErrors> {
        Self::new_at("", key, operator, values)
    }

    /// Makes a requirement as `new` does; `path` is the requirement's place, for errors.
    pub(super) fn new_at(
        path: &str,
        key: &str,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, FieldErrors> {
        let dot = if path.is_empty() { "" } else { "." };
        let mut errors = Vec::from_iter(key_error(format!("{path}{dot}key"), key));
        errors.extend(value_errors(
            &format!("{path}{dot}values"),
            key,
            operator,
            &values,
        ));
        FieldErrors::none_in(errors)?;
        Ok(Self::unchecked(key.to_owned(), operator, values))
    }

    /// Makes a requirement without checks, as Go's `labels.SelectorFromSet` does.
    pub(super) fn unchecked(key: String, operator: Operator, mut values: Vec<String>) -> Self {
        values.sort_unstable();
        values.dedup();
        let bound = values
            .first()
            .filter(|_| operator.compares_integers())
            .and_then(|value| value.parse().ok())
            .unwrap_or_default();
        Self {
            key,
            operator,
            values,
            bound,
        }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the requirement compares the label with the values.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values of the requirement in ascending byte order, each once.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether `labels` meet the requirement.
    ///
    /// `!=` and `notin` are met if the label is absent; `>` and `<` need a label whose value is a
    /// whole number.
    ///
    /// Source: apimachinery v0.36 pkg/labels/selector.go `Requirement.Matches`
    pub fn matches<L: LabelLookup + ?Sized>(&self, labels: &L) -> bool {
        let value = labels.value(&self.key);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                value.is_some_and(|v| self.has(v))
            }
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(|v| self.has(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => integer(value).is_some_and(|v| v > self.bound),
            Operator::LessThan => integer(value).is_some_and(|v| v < self.bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        match self.values.as_slice() {
            [only] => only == value,
            several => several.binary_search_by(|v| v.as_str().cmp(value)).is_ok(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        let (key, sign) = (&self.key, self.operator.sign());
        match self.operator {
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::In | Operator::NotIn => write!(f, "{key}{sign}({values})"),
            _ => write!(f, "{key}{sign}{values}"),
        }
    }
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Returns what is wrong with `key` as a label key, as the error of `field`; None if it is valid.
pub(super) fn key_error(field: String, key: &str) -> Option<FieldError> {
    let faults = label_key_faults(key);
    (!faults.is_empty()).then(|| FieldError::invalid(field, key, &faults.join("; ")))
}

fn value_errors(field: &str, key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let count = operator
        .count_fault(values.len())
        .map(|fault| FieldError::invalid_list(field.to_owned(), values, fault));
    let indexed = || values.iter().enumerate();
    let integers = indexed()
        .filter(|_| operator.compares_integers())
        .filter_map(|(i, value)| integer_error(format!("{field}[{i}]"), value));
    let labels =
        indexed().filter_map(|(i, value)| value_error(format!("{field}[{i}][{key}]"), value));
    count.into_iter().chain(integers).chain(labels).collect()
}

fn integer_error(field: String, value: &str) -> Option<FieldError> {
    let fault = "for 'Gt', 'Lt' operators, the value must be an integer";
    let wrong = value.parse::<i64>().is_err();
    wrong.then(|| FieldError::invalid(field, value, fault))
}

fn value_error(field: String, value: &str) -> Option<FieldError> {
    let faults = label_value_faults(value);
    (!faults.is_empty()).then(|| FieldError::invalid(field, value, &faults.join("; ")))
}
