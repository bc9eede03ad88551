//! Parses those fields of a v1.Pod that only some stores keep.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::container::WireContainer;
use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, converted, decode_field, field, object};
use super::details::often;
use crate::labels::{Operator, Requirement, Selector};
use crate::pod::{
    HostPort, LabelSelector, OwnerReference, PodAffinity, PodAffinityTerm, ResourceClaim,
    TopologySpreadConstraint, Volume,
};

object! {
    pub(crate) struct WirePodAffinity<'a> {
        "requiredDuringSchedulingIgnoredDuringExecution" => required: Slice<WireTerm<'a>>,
        "preferredDuringSchedulingIgnoredDuringExecution" => preferred: Slice<WireWeighted<'a>>,
    }
}

object! {
    struct WireWeighted<'a> {
        "weight" => weight: i32,
        "podAffinityTerm" => term: WireTerm<'a>,
    }
}

object! {
    struct WireTerm<'a> {
        "topologyKey" => topology_key: Cow<'a, str>,
        "labelSelector" => selector: Option<WireSelector<'a>>,
        "namespaces" => namespaces: Slice<Cow<'a, str>>,
        "namespaceSelector" => namespace_selector: Option<WireSelector<'a>>,
        "matchLabelKeys" => match_label_keys: Slice<Cow<'a, str>>,
        "mismatchLabelKeys" => mismatch_label_keys: Slice<Cow<'a, str>>,
    }
}

object! {
    struct WireSelector<'a> {
        "matchLabels" => match_labels: Map<'a, Cow<'a, str>>,
        "matchExpressions" => match_expressions: Slice<WireRequirement<'a>>,
    }
}

object! {
    struct WireRequirement<'a> {
        "key" => key: Cow<'a, str>,
        "operator" => operator: Cow<'a, str>,
        "values" => values: Slice<Cow<'a, str>>,
    }
}

object! {
    pub(crate) struct WireSpread<'a> {
        "maxSkew" => max_skew: i32,
        "topologyKey" => topology_key: Cow<'a, str>,
        "whenUnsatisfiable" => when_unsatisfiable: Cow<'a, str>,
        "labelSelector" => selector: Option<WireSelector<'a>>,
        "minDomains" => min_domains: Option<i32>,
        "nodeAffinityPolicy" => node_affinity_policy: Option<Cow<'a, str>>,
        "nodeTaintsPolicy" => node_taints_policy: Option<Cow<'a, str>>,
        "matchLabelKeys" => match_label_keys: Slice<Cow<'a, str>>,
    }
}

object! {
    pub(crate) struct WireOwner<'a> {
        "apiVersion" => api_version: Cow<'a, str>,
        "kind" => kind: Cow<'a, str>,
        "name" => name: Cow<'a, str>,
        "uid" => uid: Cow<'a, str>,
        "controller" => controller: Option<bool>,
    }
}

object! {
    pub(crate) struct WirePort<'a> {
        "hostIP" => ip: Cow<'a, str>,
        "protocol" => protocol: Cow<'a, str>,
        "hostPort" => port: i32,
    }
}

object! {
    pub(crate) struct WireResourceClaim<'a> {
        "name" => name: Cow<'a, str>,
        "resourceClaimName" => claim_name: Option<Cow<'a, str>>,
        "resourceClaimTemplateName" => template_name: Option<Cow<'a, str>>,
    }
}

/// A volume, whose source is the one field beside `name` that is not null.
#[derive(Debug, Default)]
pub(crate) struct WireVolume<'a> {
    name: Cow<'a, str>,
    claim: Option<WireClaim<'a>>,
    source: Cow<'a, str>,
}

object! {
    struct WireClaim<'a> {
        "claimName" => claim_name: Cow<'a, str>,
    }
}

const CLAIM: &str = "persistentVolumeClaim";

impl<'a> Decode<'a> for WireVolume<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let each = |cursor: &mut Cursor<'a>, key: Cow<'a, str>| match field(&key, &["name", CLAIM])
        {
            Some(CLAIM) => decode_field(cursor, CLAIM, &mut self.claim),
            Some(name) => decode_field(cursor, name, &mut self.name),
            None if cursor.null()? => Ok(()),
            None => {
                cursor.charge(key.len())?;
                self.source = key;
                cursor.skip_value()
            }
        };
        cursor.object(each).map(drop)
    }
}

impl From<WireVolume<'_>> for Volume {
    fn from(wire: WireVolume<'_>) -> Self {
        Self {
            name: wire.name.into(),
            source: match wire.claim {
                Some(_) => CLAIM.into(),
                None => often(wire.source),
            },
            claim_name: wire.claim.unwrap_or_default().claim_name.into(),
        }
    }
}

impl From<WirePodAffinity<'_>> for PodAffinity {
    fn from(wire: WirePodAffinity<'_>) -> Self {
        Self {
            required: converted(wire.required).into(),
            preferred: converted(wire.preferred).into(),
        }
    }
}

impl From<WireWeighted<'_>> for (i32, PodAffinityTerm) {
    fn from(wire: WireWeighted<'_>) -> Self {
        (wire.weight, wire.term.into())
    }
}

impl From<WireTerm<'_>> for PodAffinityTerm {
    fn from(wire: WireTerm<'_>) -> Self {
        Self {
            topology_key: wire.topology_key.into(),
            selector: selector(wire.selector),
            namespaces: texts(wire.namespaces),
            namespace_selector: selector(wire.namespace_selector),
            match_label_keys: texts(wire.match_label_keys),
            mismatch_label_keys: texts(wire.mismatch_label_keys),
        }
    }
}

impl From<WireSpread<'_>> for TopologySpreadConstraint {
    fn from(wire: WireSpread<'_>) -> Self {
        Self {
            max_skew: wire.max_skew,
            topology_key: wire.topology_key.into(),
            when_unsatisfiable: wire.when_unsatisfiable.into(),
            selector: selector(wire.selector),
            min_domains: wire.min_domains,
            node_affinity_policy: wire.node_affinity_policy.unwrap_or_default().into(),
            node_taints_policy: wire.node_taints_policy.unwrap_or_default().into(),
            match_label_keys: texts(wire.match_label_keys),
        }
    }
}

impl From<WireOwner<'_>> for OwnerReference {
    fn from(wire: WireOwner<'_>) -> Self {
        Self {
            api_version: wire.api_version.into(),
            kind: wire.kind.into(),
            name: wire.name.into(),
            uid: wire.uid.into(),
            controller: wire.controller.unwrap_or_default(),
        }
    }
}

impl From<WireResourceClaim<'_>> for ResourceClaim {
    fn from(wire: WireResourceClaim<'_>) -> Self {
        Self {
            name: wire.name.into(),
            claim_name: wire.claim_name.unwrap_or_default().into(),
            template_name: wire.template_name.unwrap_or_default().into(),
        }
    }
}

/// Returns the host ports of the containers that run for as long as the pod does, sidecars first.
///
/// Source: kubernetes v1.37 pkg/scheduler/util/utils.go `GetHostPorts`
pub(crate) fn host_ports<'a>(
    init_containers: &mut [WireContainer<'a>],
    containers: &mut [WireContainer<'a>],
) -> Vec<WirePort<'a>> {
    let sidecars = init_containers
        .iter_mut()
        .filter(|container| container.is_sidecar());
    let running = sidecars.chain(containers.iter_mut());
    let ports = running.flat_map(|container| container.ports.take().into_vec());
    ports.filter(|port| port.port > 0).collect()
}

/// Source: kube-scheduler v0.37 framework/types.go `HostPortInfo.sanitize`
impl From<WirePort<'_>> for HostPort {
    fn from(wire: WirePort<'_>) -> Self {
        Self {
            ip: or(wire.ip, "0.0.0.0"),
            protocol: or(wire.protocol, "TCP"),
            port: wire.port,
        }
    }
}

fn or(text: Cow<'_, str>, absent: &str) -> Box<str> {
    if text.is_empty() {
        return absent.into();
    }
    text.into()
}

fn texts(wire: Slice<Cow<'_, str>>) -> Box<[Box<str>]> {
    wire.into_vec().into_iter().map(Box::from).collect()
}

/// Converts a selector as Go does.
///
/// Source: apimachinery v0.36 pkg/apis/meta/v1/helpers.go `LabelSelectorAsSelector`
fn selector(wire: Option<WireSelector<'_>>) -> LabelSelector {
    let Some(wire) = wire else {
        return LabelSelector::Nothing;
    };
    match requirements(wire) {
        Ok(requirements) => LabelSelector::Of(Selector::new(requirements)),
        Err(why) => LabelSelector::Invalid(why.into()),
    }
}

fn requirements(wire: WireSelector<'_>) -> std::result::Result<Vec<Requirement>, String> {
    let mut requirements = Vec::new();
    for (key, value) in wire.match_labels.into_sorted() {
        let made = Requirement::new(&key, Operator::Equals, vec![value.into_owned()]);
        requirements.push(made.map_err(|errors| errors.to_string())?);
    }
    let operators = BTreeMap::from([
        ("In", Operator::In),
        ("NotIn", Operator::NotIn),
        ("Exists", Operator::Exists),
        ("DoesNotExist", Operator::DoesNotExist),
    ]);
    for expression in wire.match_expressions.into_vec() {
        let Some(operator) = operators.get(&*expression.operator) else {
            return Err(format!(
                "\"{}\" is not a valid label selector operator",
                expression.operator.escape_debug()
            ));
        };
        let values = expression.values.into_vec().into_iter();
        let values = values.map(Cow::into_owned).collect();
        let made = Requirement::new(&expression.key, *operator, values);
        requirements.push(made.map_err(|errors| errors.to_string())?);
    }
    Ok(requirements)
}
