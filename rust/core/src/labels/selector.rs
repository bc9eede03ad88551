//! `Selector`: label selectors such as `zone in (a, b), !spot, rack>3`.

use std::fmt;

use super::LabelLookup;
use super::fault::LabelError;
use super::parser;
use super::requirement::Requirement;

/// A label selector: requirements that labels must all meet. Without requirements all labels match.
///
/// ```
/// use kubextend_core::labels::{Selector, SortedLabels};
///
/// let selector = Selector::parse("zone in (b, a), !spot").unwrap();
/// assert!(selector.matches(&SortedLabels(&[("zone", "a")])));
/// assert!(!selector.matches(&SortedLabels(&[("spot", ""), ("zone", "a")])));
/// assert_eq!(selector.to_string(), "!spot,zone in (a,b)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Parses a selector in the grammar of `kubectl --selector`.
    ///
    /// Source: apimachinery v0.36 pkg/labels/selector.go `Parse`
    ///
    /// # Errors
    /// The text is no selector, or a key or value is invalid.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        Ok(Self::new(parser::parse(text)?))
    }

    /// Makes a selector that consists of these requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Self { requirements }
    }

    /// The requirements of the selector, in ascending byte order of their keys.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether `labels` meet every requirement of the selector.
    pub fn matches<L: LabelLookup + ?Sized>(&self, labels: &L) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }

    /// The approximate memory of the selector in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // An allocation takes 16 bytes besides its content.
        let text = |text: &str| size_of::<String>() + 16 + text.len();
        let values = |of: &Requirement| of.values().iter().map(|value| text(value)).sum::<usize>();
        let requirements = self.requirements.iter();
        requirements
            .map(|of| size_of::<Requirement>() + text(of.key()) + values(of))
            .sum()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Selector {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Requirement, Selector};
    use crate::oracle::{labels, letters, list, text, texts};

    #[test]
    fn go_and_we_read_the_same_selectors_and_refuse_the_same_texts() {
        for case in list("selectors", "cases") {
            let spelled = text(&case["text"]);
            match Selector::parse(&spelled) {
                Ok(selector) => {
                    assert_eq!(case["error"], Value::Null, "{spelled:?}");
                    assert_eq!(case["canonical"], selector.to_string(), "{spelled:?}");
                }
                Err(_) => assert_ne!(case["error"], Value::Null, "{spelled:?}"),
            }
        }
    }

    #[test]
    fn go_and_we_find_the_same_requirements_in_the_same_order() {
        for case in list("selectors", "cases") {
            let Ok(selector) = Selector::parse(&text(&case["text"])) else {
                continue;
            };
            let expected = case["requirements"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            assert_eq!(selector.requirements().len(), expected.len(), "{case}");
            for (found, expected) in selector.requirements().iter().zip(expected) {
                assert_eq!(found.key(), text(&expected["key"]), "{case}");
                assert_eq!(found.values(), texts(&expected["values"]), "{case}");
                assert_eq!(spelled(found), text(&expected["operator"]), "{case}");
            }
        }
    }

    fn spelled(requirement: &Requirement) -> &'static str {
        use super::super::Operator as O;
        match requirement.operator() {
            O::In => "in",
            O::NotIn => "notin",
            O::Equals => "=",
            O::DoubleEquals => "==",
            O::NotEquals => "!=",
            O::Exists => "exists",
            O::DoesNotExist => "!",
            O::GreaterThan => "gt",
            O::LessThan => "lt",
        }
    }

    #[test]
    fn go_and_we_match_the_same_labels() {
        let sets: Vec<_> = list("selectors", "labelSets").iter().map(labels).collect();
        for case in list("selectors", "cases") {
            let Ok(selector) = Selector::parse(&text(&case["text"])) else {
                continue;
            };
            let matched = letters(sets.iter().map(|set| selector.matches(set)));
            assert_eq!(case["matches"], matched, "{}", case["text"]);
        }
    }

    #[test]
    fn the_empty_selector_matches_everything() {
        assert_eq!(Selector::parse(" \t\r\n"), Ok(Selector::default()));
        assert!(Selector::default().matches(&labels(&Value::Null)));
    }

    #[test]
    fn a_million_bytes_are_read_in_linear_time() {
        for (text, right) in [
            ("x,".repeat(500_000) + "x", true),
            (format!("x in ({})", ",".repeat(1_000_000)), true),
            ("(".repeat(1_000_000), false),
            ("!".repeat(1_000_000), false),
            (" ".repeat(1_000_000), true),
            ("a".repeat(1_000_000), false),
        ] {
            assert_eq!(Selector::parse(&text).is_ok(), right);
        }
    }

    fn a_requirement() -> impl Strategy<Value = String> {
        let key = "([a-z]{1,3}(\\.[a-z]{1,2})?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,4}[A-Za-z0-9])?";
        let value = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,4}[A-Za-z0-9])?)?";
        let values = prop::collection::vec(value, 0..4).prop_map(|values| values.join(","));
        prop_oneof![
            key.prop_map(|key| key),
            key.prop_map(|key| format!("!{key}")),
            (key, "(=|==|!=)", value).prop_map(|(k, o, v)| format!("{k}{o}{v}")),
            (key, "[<>]", 0..=i64::MAX).prop_map(|(k, o, v)| format!("{k} {o} {v}")),
            (key, "(in|notin)", values).prop_map(|(k, o, v)| format!("{k} {o} ({v})")),
        ]
    }

    proptest! {
        #[test]
        fn the_canonical_form_reads_as_the_same_selector(
            requirements in prop::collection::vec(a_requirement(), 0..6),
        ) {
            let selector = Selector::parse(&requirements.join(" , ")).expect("well formed");
            prop_assert_eq!(selector.requirements().len(), requirements.len());
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[xin0-9!=<>(), \\x00é-]{0,24}") {
            let _ = Selector::parse(&text);
        }

        #[test]
        fn a_requirement_and_its_opposite_never_both_match(
            values in prop::collection::vec("[ab]?", 1..3), label in prop::option::of("[abc]?"),
        ) {
            let set = label.iter().map(|label| ("x".to_owned(), label.clone())).collect();
            let values = values.join(",");
            for (one, other) in [
                (format!("x in ({values})"), format!("x notin ({values})")),
                ("x".to_owned(), "!x".to_owned()),
            ] {
                let matches = |text: &str| {
                    let selector = Selector::parse(text).expect("well formed");
                    selector.matches::<std::collections::BTreeMap<_, _>>(&set)
                };
                prop_assert_ne!(matches(&one), matches(&other));
            }
        }
    }
}
