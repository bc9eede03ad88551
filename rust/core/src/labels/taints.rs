//! Taints of nodes, tolerations of pods, and what meets what.

use crate::transfer::transfer;

/// A node's refusal of the pods that do not tolerate it.
///
/// ```
/// use kubextend_core::labels::Taint;
///
/// let taint = Taint { key: "gpu".into(), effect: "NoSchedule".into(), ..Taint::default() };
/// assert!(taint.keeps_pods_away());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taint {
    /// A qualified name.
    pub key: String,
    /// Empty when absent.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

transfer!(Taint { key, value, effect });

impl Taint {
    /// Whether the taint forbids scheduling, rather than advising against it.
    ///
    /// Source: kubernetes v1.36 pkg/scheduler/framework/plugins/helper/taint.go
    pub fn keeps_pods_away(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }
}

/// A pod's leave to ignore taints; an empty field is an absent one.
///
/// ```
/// use kubextend_core::labels::{Taint, Toleration, tolerates};
///
/// let any = Toleration { operator: "Exists".into(), ..Toleration::default() };
/// assert!(tolerates(&any, &Taint::default()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; empty: any key.
    pub key: String,
    /// `Exists`, `Equal`, or empty for `Equal`.
    pub operator: String,
    /// The taint's value, for `Equal`.
    pub value: String,
    /// The taint's effect; empty: any effect.
    pub effect: String,
}

transfer!(Toleration {
    key,
    operator,
    value,
    effect,
});

/// Whether `toleration` covers `taint`.
///
/// `Lt` and `Gt` cover nothing: the gate `TaintTolerationComparisonOperators` is off in
/// Kubernetes v1.36 unless somebody turns it on.
///
/// Source: api v0.36 core/v1/toleration.go `ToleratesTaint`
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
            _ => false,
        }
}

/// The first taint that forbids scheduling and that no toleration covers.
///
/// Source: component-helpers v0.36 scheduling/corev1/helpers.go `FindMatchingUntoleratedTaint`
/// with the filter of the plugin `TaintToleration`
///
/// ```
/// use kubextend_core::labels::{Taint, first_untolerated};
///
/// let taint = |effect: &str| Taint { effect: effect.into(), ..Taint::default() };
/// let taints = [taint("PreferNoSchedule"), taint("NoExecute")];
/// assert_eq!(first_untolerated(&taints, &[]), Some(&taints[1]));
/// ```
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| taint.keeps_pods_away())
        .find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Taint, Toleration, first_untolerated, tolerates};
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
            let found = first_untolerated(&taints, &tolerations);
            assert_eq!(found, first.as_ref(), "{case}");
        }
    }

    #[test]
    fn the_comparison_operators_tolerate_nothing() {
        let taint = Taint {
            key: "sla".into(),
            value: "5".into(),
            effect: "NoSchedule".into(),
        };
        for operator in ["Lt", "Gt"] {
            for value in ["4", "5", "6", ""] {
                let toleration = Toleration {
                    operator: operator.into(),
                    value: value.into(),
                    ..Toleration::default()
                };
                assert!(!tolerates(&toleration, &taint), "{operator} {value}");
            }
        }
    }
}
