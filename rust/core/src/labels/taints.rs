//! Taints of nodes, tolerations of pods, and which tolerations cover which taints.

use std::collections::{HashMap, HashSet};

use ahash::RandomState;

/// A taint of a node: pods that do not tolerate it should not run on the node.
///
/// ```
/// use kubextend_core::labels::Taint;
///
/// let taint = Taint { key: "gpu".into(), effect: "NoSchedule".into(), ..Taint::default() };
/// assert!(taint.keeps_pods_away());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taint {
    /// The key of the taint, a qualified name such as `example.com/gpu`.
    pub key: String,
    /// The value of the taint; empty if absent.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Taint {
    /// Whether the taint forbids scheduling, rather than advising against it.
    ///
    /// Source: kubernetes v1.36 pkg/scheduler/framework/plugins/helper/taint.go
    pub fn keeps_pods_away(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }
}

/// A toleration of a pod, by which the pod may run on nodes with certain taints. An absent
/// field is "".
///
/// ```
/// use kubextend_core::labels::{Taint, Toleration, tolerates};
///
/// let any = Toleration { operator: "Exists".into(), ..Toleration::default() };
/// assert!(tolerates(&any, &Taint::default()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The key of the tolerated taints; empty: any key.
    pub key: String,
    /// `Exists`, `Equal`, empty for `Equal`, `Gt` or `Lt`.
    pub operator: String,
    /// The value of the tolerated taints, or for `Gt` and `Lt` the number that theirs is above or
    /// below.
    pub value: String,
    /// The effect of the tolerated taints; empty: any effect.
    pub effect: String,
}

/// Whether `toleration` covers `taint`.
///
/// `Gt` covers a taint whose value is above the toleration's, `Lt` one whose value is below; a value
/// that is no number is neither. kube-apiserver takes no pod with either while the gate
/// `TaintTolerationComparisonOperators` is off.
///
/// Source: api v0.37 core/v1/toleration.go `ToleratesTaint`
///
/// ```
/// use kubextend_core::labels::{Taint, Toleration, tolerates};
///
/// let taint = Taint { key: "gpu".into(), value: "a100".into(), effect: "NoSchedule".into() };
/// let mut toleration = Toleration { key: "gpu".into(), ..Toleration::default() };
/// assert!(!tolerates(&toleration, &taint));
/// toleration.value = "a100".into();
/// assert!(tolerates(&toleration, &taint));
/// ```
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any_or = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    any_or(&toleration.effect, &taint.effect)
        && any_or(&toleration.key, &taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            "Gt" => is_above(&taint.value, &toleration.value),
            "Lt" => is_above(&toleration.value, &taint.value),
            _ => false,
        }
}

fn is_above(high: &str, low: &str) -> bool {
    matches!((number(high), number(low)), (Some(high), Some(low)) if high > low)
}

/// Returns the integer of 64 bits that `text` is, written without a plus and leading zeros.
///
/// Source: apimachinery v0.37 `pkg/api/validate/content` `IsDecimalInteger`
fn number(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The most tolerations that are compared one after the other, which is faster than a hash table.
const FEW: usize = 16;

/// A pod's tolerations, prepared to be compared with the taints of many nodes.
///
/// ```
/// use kubextend_core::labels::{Taint, Tolerations};
///
/// let taint = |effect: &str| Taint { effect: effect.into(), ..Taint::default() };
/// let taints = [taint("PreferNoSchedule"), taint("NoExecute")];
/// assert_eq!(Tolerations::of(&[]).first_untolerated(&taints), Some(&taints[1]));
/// ```
#[derive(Clone, Debug)]
pub struct Tolerations<'a>(Covering<'a>);

#[derive(Clone, Debug)]
enum Covering<'a> {
    /// Few tolerations, which are compared one after the other.
    Few(&'a [Toleration]),
    /// Many tolerations, in hash tables: users choose how many tolerations a pod has, and each
    /// taint of each node would be compared with all of them.
    Many {
        equal: HashSet<Covered<'a>, RandomState>,
        /// By key and effect the lowest number of a `Gt` and the highest of an `Lt`.
        outside: HashMap<(&'a str, &'a str), (i64, i64), RandomState>,
    },
}

/// The key, the effect and the value that a toleration covers; no value: any value.
type Covered<'a> = (&'a str, &'a str, Option<&'a str>);

impl<'a> Tolerations<'a> {
    /// Prepares a pod's tolerations for comparisons with the taints of many nodes.
    pub fn of(tolerations: &'a [Toleration]) -> Self {
        if tolerations.len() <= FEW {
            return Self(Covering::Few(tolerations));
        }
        let (mut equal, mut outside) = (HashSet::default(), HashMap::default());
        for Toleration {
            key,
            operator,
            value,
            effect,
        } in tolerations
        {
            match (operator.as_str(), number(value)) {
                ("" | "Equal", _) => drop(equal.insert((&**key, &**effect, Some(&**value)))),
                ("Exists", _) => drop(equal.insert((&**key, &**effect, None))),
                ("Gt" | "Lt", Some(number)) => {
                    let nothing = (i64::MAX, i64::MIN);
                    let (above, below) = outside.entry((&**key, &**effect)).or_insert(nothing);
                    if operator == "Gt" {
                        *above = number.min(*above);
                    } else {
                        *below = number.max(*below);
                    }
                }
                _ => {}
            }
        }
        Self(Covering::Many { equal, outside })
    }

    /// Returns the first taint that forbids scheduling and that no toleration covers.
    ///
    /// Source: component-helpers v0.36 scheduling/corev1/helpers.go `FindMatchingUntoleratedTaint`
    /// with the filter of the plugin `TaintToleration`
    pub fn first_untolerated<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        let mut taints = taints.iter().filter(|taint| taint.keeps_pods_away());
        taints.find(|taint| !self.cover(taint))
    }

    fn cover(&self, taint: &Taint) -> bool {
        match &self.0 {
            Covering::Few(tolerations) => tolerations.iter().any(|each| tolerates(each, taint)),
            Covering::Many { equal, outside } => ["", &taint.key].iter().any(|key| {
                let effects = ["", taint.effect.as_str()];
                effects.iter().any(|effect| {
                    equal.contains(&(*key, *effect, None))
                        || equal.contains(&(*key, *effect, Some(&taint.value)))
                        || outside.get(&(*key, *effect)).is_some_and(|(above, below)| {
                            number(&taint.value).is_some_and(|it| it > *above || it < *below)
                        })
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use proptest::prelude::*;

    use super::{FEW, Taint, Toleration, Tolerations, tolerates};
    use crate::oracle::{items, letters, list, text};

    fn taint(value: &Value) -> Taint {
        Taint {
            key: text(&value["key"]),
            value: text(&value["value"]),
            effect: text(&value["effect"]),
        }
    }

    fn toleration(value: &Value) -> Toleration {
        Toleration {
            key: text(&value["key"]),
            operator: text(&value["operator"]),
            value: text(&value["value"]),
            effect: text(&value["effect"]),
        }
    }

    #[test]
    fn go_and_we_tolerate_the_same_taints() {
        let taints: Vec<Taint> = list("tolerations", "taints").iter().map(taint).collect();
        for case in list("tolerations", "tolerated") {
            let toleration = toleration(&case["toleration"]);
            let tolerated = taints.iter().map(|taint| tolerates(&toleration, taint));
            assert_eq!(case["taints"], letters(tolerated), "{case}");
        }
    }

    #[test]
    fn go_and_we_name_the_same_untolerated_taint() {
        for case in list("tolerations", "untolerated") {
            let taints: Vec<Taint> = items(case["taints"].clone()).iter().map(taint).collect();
            let tolerations = items(case["tolerations"].clone());
            let tolerations: Vec<Toleration> = tolerations.iter().map(toleration).collect();
            let first = case["first"].is_object().then(|| taint(&case["first"]));
            let found = Tolerations::of(&tolerations).first_untolerated(&taints);
            assert_eq!(found, first.as_ref(), "{case}");
        }
    }

    fn word() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["", "a", "b", "4", "5", "-6", "07"]).prop_map(str::to_owned)
    }

    fn any_toleration() -> impl Strategy<Value = Toleration> {
        let operator = prop::sample::select(vec!["", "Equal", "Exists", "Lt", "Gt"]);
        (word(), operator, word(), word()).prop_map(|(key, operator, value, effect)| Toleration {
            key: format!("{key}{key}"),
            operator: operator.to_owned(),
            value,
            effect: effect.replace('a', "NoExecute"),
        })
    }

    proptest! {
        #[test]
        fn many_tolerations_cover_what_one_of_them_covers(
            tolerations in prop::collection::vec(any_toleration(), 0..4),
            taints in prop::collection::vec((word(), word()), 1..6),
        ) {
            let taint = |(key, value): (String, String)| {
                Taint { key: format!("{key}{key}"), value, effect: "NoExecute".into() }
            };
            let taints: Vec<Taint> = taints.into_iter().map(taint).collect();
            let none = Toleration { operator: "Lt".into(), ..Toleration::default() };
            let many = [tolerations.clone(), vec![none; FEW + 1]].concat();
            let covered = |taint: &&Taint| tolerations.iter().any(|each| tolerates(each, taint));
            let expected = taints.iter().find(|taint| !covered(taint));
            prop_assert_eq!(Tolerations::of(&tolerations).first_untolerated(&taints), expected);
            prop_assert_eq!(Tolerations::of(&many).first_untolerated(&taints), expected);
        }
    }
}
