//! `Requirement`: one condition of a label selector on one label.

use std::fmt;

use super::LabelLookup;
use super::fault::LabelError;
use super::validation::{LABEL_KEY, LABEL_VALUE, is_label_key, is_label_value};

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
    /// Returns how many values the operator takes, as text, if it does not take `count`.
    fn refuses(self, count: usize) -> Option<&'static str> {
        let (right, expected) = match self {
            Self::In | Self::NotIn => (count > 0, "one value or more"),
            Self::Exists | Self::DoesNotExist => (count == 0, "no value"),
            _ => (count == 1, "exactly one value"),
        };
        (!right).then_some(expected)
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
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, LabelError> {
        Self::new_at("", key, operator, values)
    }

    /// Makes a requirement as `new` does; `path` comes before `key` and `values` in errors.
    pub(super) fn new_at(
        path: &str,
        key: &str,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, LabelError> {
        let mut error = LabelError::default();
        if !is_label_key(key) {
            error.add(&format!("{path}key"), key, LABEL_KEY);
        }
        if let Some(expected) = operator.refuses(values.len()) {
            error.add(&format!("{path}values"), &values, expected);
        }
        for (i, value) in values.iter().enumerate() {
            let mut wrong = |expected| error.add(&format!("{path}values[{i}]"), value, expected);
            if operator.compares_integers() && value.parse::<i64>().is_err() {
                wrong("an integer");
            }
            if !is_label_value(value) {
                wrong(LABEL_VALUE);
            }
        }
        error.unless_empty()?;
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
