//! Decides whether nodes satisfy the `nodeSelector` and the node affinity of a pod.
//!
//! Source: component-helpers v0.36 scheduling/corev1/nodeaffinity/nodeaffinity.go

use std::fmt;

use super::LabelLookup;
use super::fault::LabelError;
use super::requirement::{Operator, Requirement};
use super::selector::Selector;

/// The only field of a node that Kubernetes lets a term select by.
const NAME_FIELD: &str = "metadata.name";
const LABEL_OPERATORS: &str = "In, NotIn, Exists, DoesNotExist, Gt or Lt";
const FIELD_OPERATORS: &str = "In or NotIn";

/// One `matchExpressions` or `matchFields` entry of a node selector term, as in the pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorRequirement {
    /// A label's key, or a field's name.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// The values to compare with; empty if the pod's spec has none.
    pub values: Vec<String>,
}

/// One term of a node selector; an empty term matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// The conditions on labels of a node, all of which must hold.
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// The conditions on fields of a node, all of which must hold.
    pub match_fields: Vec<NodeSelectorRequirement>,
}

impl NodeSelectorTerm {
    fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }
}

/// The `nodeSelector` and the required node affinity of a pod, as in its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    /// `spec.nodeSelector`.
    pub node_selector: Vec<(String, String)>,
    /// `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`; None if the pod has
    /// no such object. An empty list matches no node.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

/// A pod's `nodeSelector` and required node affinity, compiled to be compared with many nodes.
///
/// ```
/// use kubextend_core::labels::{RequiredAffinity, RequiredNodeAffinity, SortedLabels};
///
/// let spelled = RequiredNodeAffinity {
///     node_selector: vec![("zone".to_owned(), "a".to_owned())],
///     terms: None,
/// };
/// let required = RequiredAffinity::compile(&spelled);
/// assert!(required.matches("n1", &SortedLabels(&[("zone", "a")])));
/// assert!(!required.matches("n1", &SortedLabels(&[("zone", "b")])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredAffinity {
    node_selector: Selector,
    terms: Option<Vec<Term>>,
}

impl RequiredAffinity {
    /// Compiles the requirements; leaves out empty and invalid terms, because they match no node.
    pub fn compile(required: &RequiredNodeAffinity) -> Self {
        let exact = |(key, value): &(String, String)| {
            Requirement::unchecked(key.clone(), Operator::Equals, vec![value.clone()])
        };
        let valid = |terms: &Vec<NodeSelectorTerm>| {
            let filled = terms.iter().filter(|term| !term.is_empty());
            filled
                .filter_map(|term| Term::compile(term, "").ok())
                .collect()
        };
        Self {
            node_selector: Selector::new(required.node_selector.iter().map(exact).collect()),
            terms: required.terms.as_ref().map(valid),
        }
    }

    /// Whether the pod may run on the node: the node meets the pod's `nodeSelector` and, if the pod
    /// has terms, at least one term.
    pub fn matches<L: LabelLookup + ?Sized>(&self, node_name: &str, labels: &L) -> bool {
        let any = |terms: &Vec<Term>| terms.iter().any(|term| term.matches(node_name, labels));
        self.node_selector.matches(labels) && self.terms.as_ref().is_none_or(any)
    }

    /// Whether the pod may run on every node, because it requires nothing.
    pub fn is_unrestricted(&self) -> bool {
        self.terms.is_none() && self.node_selector.requirements().is_empty()
    }
}

/// A weighted term of a pod's preferred node affinity, as in its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// The weight of the term, 1..100; a term of weight 0 is left out.
    pub weight: i32,
    /// The conditions under which the weight counts for a node.
    pub preference: NodeSelectorTerm,
}

/// The preferred node affinity of a pod, compiled to be compared with many nodes.
///
/// ```
/// use kubextend_core::labels::{
///     NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, PreferredTerms, SortedLabels,
/// };
///
/// let ssd = NodeSelectorRequirement {
///     key: "ssd".into(),
///     operator: "Exists".into(),
///     values: vec![],
/// };
/// let preference = NodeSelectorTerm { match_expressions: vec![ssd], match_fields: vec![] };
/// let preferred = PreferredTerms::compile(&[PreferredTerm { weight: 7, preference }]).unwrap();
/// assert_eq!(preferred.score("n1", &SortedLabels(&[("ssd", "")])), 7);
/// assert_eq!(preferred.score("n2", &SortedLabels::<&str, &str>(&[])), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferredTerms {
    terms: Vec<(i64, Term)>,
}

impl PreferredTerms {
    /// Compiles the terms; leaves out empty terms and terms of weight 0.
    ///
    /// # Errors
    /// All invalid entries of the terms that are not left out; kube-scheduler does not schedule a
    /// pod with an invalid entry.
    pub fn compile(preferred: &[PreferredTerm]) -> Result<Self, LabelError> {
        let (mut terms, mut errors) = (Vec::new(), LabelError::default());
        for (i, term) in preferred.iter().enumerate() {
            if term.weight == 0 || term.preference.is_empty() {
                continue;
            }
            match Term::compile(&term.preference, &format!("[{i}]")) {
                Ok(compiled) => terms.push((i64::from(term.weight), compiled)),
                Err(wrong) => errors.extend(wrong),
            }
        }
        errors.unless_empty()?;
        Ok(Self { terms })
    }

    /// The sum of the weights of the terms that the node meets.
    pub fn score<L: LabelLookup + ?Sized>(&self, node_name: &str, labels: &L) -> i64 {
        let met = self
            .terms
            .iter()
            .filter(|(_, term)| term.matches(node_name, labels));
        met.map(|(weight, _)| weight).sum()
    }

    /// Whether there is no term, so that every node scores 0.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// A compiled node selector term that is neither empty nor invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    expressions: Selector,
    fields: Vec<FieldRequirement>,
}

impl Term {
    fn compile(term: &NodeSelectorTerm, path: &str) -> Result<Self, LabelError> {
        let mut errors = LabelError::default();
        let expressions = compile_all(
            &term.match_expressions,
            &format!("{path}.matchExpressions"),
            expression,
            &mut errors,
        );
        let fields = compile_all(
            &term.match_fields,
            &format!("{path}.matchFields"),
            FieldRequirement::compile,
            &mut errors,
        );
        errors.unless_empty()?;
        Ok(Self {
            expressions: Selector::new(expressions),
            fields,
        })
    }

    /// Whether a node satisfies the term. For a node without a name, `matchFields` is not checked.
    fn matches<L: LabelLookup + ?Sized>(&self, node_name: &str, labels: &L) -> bool {
        self.expressions.matches(labels)
            && (node_name.is_empty() || self.fields.iter().all(|field| field.matches(node_name)))
    }
}

/// Compiles every entry of a list, and adds the errors to `errors`.
fn compile_all<T>(
    entries: &[NodeSelectorRequirement],
    path: &str,
    compile: impl Fn(&NodeSelectorRequirement, &str) -> Result<T, LabelError>,
    errors: &mut LabelError,
) -> Vec<T> {
    let mut compiled = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        match compile(entry, &format!("{path}[{i}]")) {
            Ok(requirement) => compiled.push(requirement),
            Err(wrong) => errors.extend(wrong),
        }
    }
    compiled
}

fn expression(entry: &NodeSelectorRequirement, path: &str) -> Result<Requirement, LabelError> {
    let operator = match entry.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => {
            return Err(fault(
                &format!("{path}.operator"),
                &entry.operator,
                LABEL_OPERATORS,
            ));
        }
    };
    Requirement::new_at(
        &format!("{path}."),
        &entry.key,
        operator,
        entry.values.clone(),
    )
}

fn fault(path: &str, found: impl fmt::Debug, expected: &str) -> LabelError {
    let mut error = LabelError::default();
    error.add(path, found, expected);
    error
}

/// A `matchFields` entry: a field must, or must not, have one value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    is_name: bool,
    equal: bool,
    value: String,
}

impl FieldRequirement {
    fn compile(entry: &NodeSelectorRequirement, path: &str) -> Result<Self, LabelError> {
        let equal = match entry.operator.as_str() {
            "In" => true,
            "NotIn" => false,
            _ => {
                return Err(fault(
                    &format!("{path}.operator"),
                    &entry.operator,
                    FIELD_OPERATORS,
                ));
            }
        };
        let [value] = entry.values.as_slice() else {
            return Err(fault(&format!("{path}.values"), &entry.values, "one value"));
        };
        Ok(Self {
            is_name: entry.key == NAME_FIELD,
            equal,
            value: value.clone(),
        })
    }

    /// Whether a node satisfies the entry; a field that a node does not have reads as "".
    fn matches(&self, node_name: &str) -> bool {
        let found = if self.is_name { node_name } else { "" };
        (found == self.value) == self.equal
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;
    use crate::oracle::{items, labels, letters, list, text, texts};

    fn requirements(value: &Value) -> Vec<NodeSelectorRequirement> {
        let read = |entry: &Value| NodeSelectorRequirement {
            key: text(&entry["key"]),
            operator: text(&entry["operator"]),
            values: texts(&entry["values"]),
        };
        items(value.clone()).iter().map(read).collect()
    }

    fn term(value: &Value) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: requirements(&value["matchExpressions"]),
            match_fields: requirements(&value["matchFields"]),
        }
    }

    fn required(case: &Value) -> RequiredNodeAffinity {
        let terms = case["terms"].as_array();
        RequiredNodeAffinity {
            node_selector: labels(&case["nodeSelector"]).into_iter().collect(),
            terms: terms.map(|terms| terms.iter().map(term).collect()),
        }
    }

    fn preferred(case: &Value) -> Vec<PreferredTerm> {
        let read = |entry: &Value| PreferredTerm {
            weight: entry["weight"].as_i64().expect("a number") as i32,
            preference: term(&entry["preference"]),
        };
        items(case["terms"].clone()).iter().map(read).collect()
    }

    fn nodes() -> Vec<(String, BTreeMap<String, String>)> {
        let read = |node: &Value| (text(&node["name"]), labels(&node["labels"]));
        list("affinity", "nodes").iter().map(read).collect()
    }

    #[test]
    fn go_and_we_require_the_same_of_nodes() {
        let nodes = nodes();
        for case in list("affinity", "required") {
            let affinity = RequiredAffinity::compile(&required(&case));
            let matched = nodes
                .iter()
                .map(|(name, labels)| affinity.matches(name, labels));
            assert_eq!(case["matches"], letters(matched), "{case}");
        }
    }

    #[test]
    fn go_and_we_prefer_the_same_nodes_and_refuse_the_same_terms() {
        let nodes = nodes();
        for case in list("affinity", "preferred") {
            match PreferredTerms::compile(&preferred(&case)) {
                Ok(terms) => {
                    let scores = nodes.iter().map(|(name, set)| terms.score(name, set));
                    let scores: Vec<i64> = scores.collect();
                    assert_eq!(case["scores"], Value::from(scores), "{case}");
                }
                Err(_) => assert_ne!(case["error"], Value::Null, "{case}"),
            }
        }
    }

    #[test]
    fn values_are_found_in_whatever_order_the_pod_has_them() {
        let values = ["d", "b", "e", "a", "c", "b"].map(str::to_owned).to_vec();
        for (operator, found) in [("In", true), ("NotIn", false)] {
            let requirement = NodeSelectorRequirement {
                key: "zone".to_owned(),
                operator: operator.to_owned(),
                values: values.clone(),
            };
            let term = NodeSelectorTerm {
                match_expressions: vec![requirement],
                match_fields: Vec::new(),
            };
            let term = Term::compile(&term, "").expect("valid");
            for value in ["a", "b", "c", "d", "e", "f"] {
                let labels = BTreeMap::from([("zone".to_owned(), value.to_owned())]);
                assert_eq!(
                    term.matches("n", &labels),
                    found == (value != "f"),
                    "{value}"
                );
            }
        }
    }

    #[test]
    fn only_a_pod_without_selector_and_terms_is_unrestricted() {
        let selector = vec![("zone".to_owned(), "a".to_owned())];
        for (node_selector, terms, expected) in [
            (vec![], None, true),
            (vec![], Some(vec![]), false),
            (selector, None, false),
        ] {
            let spelled = RequiredNodeAffinity {
                node_selector,
                terms,
            };
            let compiled = RequiredAffinity::compile(&spelled);
            assert_eq!(compiled.is_unrestricted(), expected, "{spelled:?}");
        }
    }
}
