//! Parses a v1.Pod: decodes the fields that plugins read, and skips all others.

use std::borrow::Cow;
use std::sync::Arc;

use super::affinity::Affinity;
use super::container::{Resources, Statuses, WireContainer, WireContainerStatus, held};
use super::cursor::{Cursor, Result};
use super::decode::{Map, Slice, converted, object};
use super::details::{Detail, Placed, Skipped, WireCondition, raw};
use super::error::{Problem, WireError};
use super::pod_details::{
    WireOwner, WirePodAffinity, WirePort, WireResourceClaim, WireSpread, WireVolume, host_ports,
};
use super::quantity::WireQuantity;
use super::time::WireTime;
use crate::labels::{RequiredNodeAffinity, Toleration};
use crate::node::{Condition, Parts};
use crate::pod::{
    ContainerResources, HostPort, KeptParts, Missing, Pod, PodDetails, PodResources, PodTemplate,
    Word, qos_class, word,
};

object! {
    pub(crate) struct WirePod<'a> {
        "metadata" => pub(crate) metadata: PodMeta<'a>,
        "spec" => spec: PodSpec<'a>,
        "status" => status: PodStatus<'a>,
    }
}

object! {
    pub(crate) struct PodMeta<'a> {
        "name" => pub(crate) name: Cow<'a, str>,
        "namespace" => namespace: Cow<'a, str>,
        "uid" => uid: Cow<'a, str>,
        "resourceVersion" => pub(crate) resource_version: Cow<'a, str>,
        "generation" => generation: i64,
        "creationTimestamp" => creation_timestamp: WireTime<'a>,
        "deletionTimestamp" => deletion_timestamp: Option<WireTime<'a>>,
        "labels" => labels: Map<'a, Cow<'a, str>>,
        "annotations" => annotations: Map<'a, Cow<'a, str>>,
        "ownerReferences" => owner_references: Detail<Slice<WireOwner<'a>>>,
        "managedFields" => managed_fields: Skipped,
    }
}

object! {
    struct PodSpec<'a> {
        "schedulerName" => scheduler_name: Cow<'a, str>,
        "nodeName" => node_name: Cow<'a, str>,
        "priority" => priority: Option<i32>,
        "nodeSelector" => node_selector: Map<'a, Cow<'a, str>>,
        "tolerations" => tolerations: Slice<WireToleration<'a>>,
        "affinity" => affinity: Option<Affinity<'a>>,
        "containers" => containers: Slice<WireContainer<'a>>,
        "initContainers" => init_containers: Slice<WireContainer<'a>>,
        "resources" => resources: Option<Resources<'a>>,
        "overhead" => overhead: Map<'a, WireQuantity>,
        "schedulingGates" => scheduling_gates: Slice<Gate<'a>>,
        "schedulingGroup" => scheduling_group: Option<SchedulingGroup<'a>>,
        "topologySpreadConstraints" => spread_constraints: Detail<Slice<WireSpread<'a>>>,
        "volumes" => volumes: Detail<Slice<WireVolume<'a>>>,
        "runtimeClassName" => runtime_class_name: Detail<Option<Cow<'a, str>>>,
        "resourceClaims" => resource_claims: Detail<Slice<WireResourceClaim<'a>>>,
    }
}

object! {
    struct SchedulingGroup<'a> {
        "podGroupName" => pod_group_name: Option<Cow<'a, str>>,
    }
}

object! {
    struct Gate<'a> {
        "name" => name: Cow<'a, str>,
    }
}

object! {
    struct PodStatus<'a> {
        "phase" => phase: Cow<'a, str>,
        "qosClass" => qos_class: Cow<'a, str>,
        "nominatedNodeName" => nominated_node_name: Cow<'a, str>,
        "startTime" => start_time: Option<WireTime<'a>>,
        "conditions" => conditions: Slice<WireCondition<'a>>,
        "containerStatuses" => container_statuses: Slice<WireContainerStatus<'a>>,
        "initContainerStatuses" => init_container_statuses: Slice<WireContainerStatus<'a>>,
        "resources" => resources: Option<Resources<'a>>,
        "allocatedResources" => allocated_resources: Map<'a, WireQuantity>,
    }
}

object! {
    struct WireToleration<'a> {
        "key" => key: Cow<'a, str>,
        "operator" => operator: Cow<'a, str>,
        "value" => value: Cow<'a, str>,
        "effect" => effect: Cow<'a, str>,
    }
}

impl Placed<WirePod<'_>> {
    /// Converts to a `Pod` with the optional parts that the cursor decodes.
    pub(crate) fn into_pod(mut self, cursor: &Cursor<'_>) -> Pod {
        let asked = cursor.parts();
        if asked == Parts::default() {
            return self.object.into();
        }
        let details = asked.details.then(|| self.object.take_details().into());
        let raw = raw(cursor, self.span, &self.object.metadata.managed_fields);
        Pod {
            parts: Some(Arc::new(KeptParts { details, raw })),
            ..Pod::from(self.object)
        }
    }
}

/// The fields of a pod that only a store with details keeps.
struct WireDetails<'a> {
    volumes: Slice<WireVolume<'a>>,
    conditions: Vec<WireCondition<'a>>,
    affinity: Option<WirePodAffinity<'a>>,
    anti_affinity: Option<WirePodAffinity<'a>>,
    spread_constraints: Slice<WireSpread<'a>>,
    owner_references: Slice<WireOwner<'a>>,
    host_ports: Vec<WirePort<'a>>,
    images: Vec<Cow<'a, str>>,
    runtime_class_name: Option<Cow<'a, str>>,
    resource_claims: Slice<WireResourceClaim<'a>>,
}

impl<'a> WirePod<'a> {
    /// Takes the fields out that only a store with details keeps.
    fn take_details(&mut self) -> WireDetails<'a> {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let (affinity, anti_affinity) = match &mut spec.affinity {
            Some(affinity) => (affinity.pod.take(), affinity.pod_anti.take()),
            None => (None, None),
        };
        let mut lists = [&mut spec.init_containers, &mut spec.containers];
        let [init_containers, containers] = lists.each_mut().map(|list| list.present());
        let images = init_containers.iter_mut().chain(containers.iter_mut());
        WireDetails {
            volumes: spec.volumes.take(),
            conditions: status.conditions.present().to_vec(),
            affinity,
            anti_affinity,
            spread_constraints: spec.spread_constraints.take(),
            owner_references: metadata.owner_references.take(),
            images: images.map(|container| container.image.take()).collect(),
            host_ports: host_ports(init_containers, containers),
            runtime_class_name: spec.runtime_class_name.take(),
            resource_claims: spec.resource_claims.take(),
        }
    }
}

impl From<WireDetails<'_>> for PodDetails {
    fn from(wire: WireDetails<'_>) -> Self {
        let images = wire.images.into_iter().map(Box::from);
        let host_ports = wire.host_ports.into_iter().map(HostPort::from);
        Self {
            volumes: converted(wire.volumes).into(),
            conditions: wire.conditions.into_iter().map(Condition::from).collect(),
            template: Arc::new(PodTemplate {
                affinity: wire.affinity.unwrap_or_default().into(),
                anti_affinity: wire.anti_affinity.unwrap_or_default().into(),
                spread_constraints: converted(wire.spread_constraints).into(),
                owner_references: converted(wire.owner_references).into(),
                host_ports: host_ports.collect(),
                images: images.collect(),
                runtime_class_name: wire.runtime_class_name.unwrap_or_default().into(),
                resource_claims: converted(wire.resource_claims).into(),
            }),
        }
    }
}

impl From<WirePod<'_>> for Pod {
    fn from(
        WirePod {
            metadata,
            spec,
            status,
        }: WirePod<'_>,
    ) -> Self {
        let node_affinity = spec
            .affinity
            .and_then(|affinity| affinity.node)
            .unwrap_or_default();
        let conditions = status.conditions.into_vec();
        let mut statuses = Statuses::of(status.container_statuses, status.init_container_statuses);
        let (asked, containers) = statuses.joined_with(spec.containers.into_vec());
        let (asked_first, init_containers) = statuses.joined_with(spec.init_containers.into_vec());
        let whole_is_given = spec.resources.is_some();
        let whole = spec.resources.unwrap_or_default();
        let resources = PodResources {
            containers: asked,
            init_containers: asked_first,
            whole_is_given,
            whole: ContainerResources {
                requests: whole.requests.into(),
                limits: whole.limits.into(),
                held: held(status.resources, status.allocated_resources).map(Arc::new),
                sidecar: false,
            },
            overhead: spec.overhead.into(),
            resize_refused: resize_refused(&conditions),
        };
        let requests = resources.requests();
        let defaulted = resources.requests_with_defaults(&requests);
        Self {
            name: metadata.name.into_owned(),
            namespace: word(&metadata.namespace),
            uid: metadata.uid.into_owned(),
            labels: owned(metadata.labels).into(),
            annotations: owned(metadata.annotations).into(),
            generation: metadata.generation,
            creation_timestamp: metadata.creation_timestamp.0.into(),
            deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0.into()),
            scheduler_name: word(&spec.scheduler_name),
            node_name: word(&spec.node_name),
            priority: spec.priority,
            tolerations: converted(spec.tolerations).into(),
            required: Arc::new(RequiredNodeAffinity {
                node_selector: owned(spec.node_selector),
                terms: node_affinity.required.map(|node| converted(node.terms)),
            }),
            preferred: converted(node_affinity.preferred).into(),
            containers: containers.into(),
            init_containers: init_containers.into(),
            requests: requests.amounts(),
            defaulted: defaulted.map(Arc::new),
            overhead: resources.overhead.amounts(),
            scheduling_gates: converted(spec.scheduling_gates).into(),
            scheduling_group: scheduling_group(spec.scheduling_group),
            phase: word(&status.phase),
            qos_class: match &*status.qos_class {
                "" => qos_class(&resources),
                given => word(given),
            },
            scheduled_reason: scheduled_reason(&conditions),
            nominated_node_name: status.nominated_node_name.into(),
            start_time: status.start_time.map(|time| time.0.into()),
            parts: None,
            missing: Missing::default(),
        }
    }
}

/// Returns the name of the pod's `PodGroup`; "" without one.
fn scheduling_group(group: Option<SchedulingGroup<'_>>) -> Word {
    word(
        &group
            .and_then(|group| group.pod_group_name)
            .unwrap_or_default(),
    )
}

/// Whether the pod's first condition about a pending resize says that the node cannot resize the
/// pod.
fn resize_refused(conditions: &[WireCondition<'_>]) -> bool {
    reason_of("PodResizePending", conditions) == Some("Infeasible")
}

/// Returns the reason of the condition `PodScheduled`; "" without one.
fn scheduled_reason(conditions: &[WireCondition<'_>]) -> Word {
    word(reason_of("PodScheduled", conditions).unwrap_or_default())
}

fn reason_of<'a>(kind: &str, conditions: &'a [WireCondition<'_>]) -> Option<&'a str> {
    let mut conditions = conditions.iter();
    let found = conditions.find(|condition| condition.kind == kind)?;
    Some(&found.reason)
}

impl From<Gate<'_>> for Box<str> {
    fn from(gate: Gate<'_>) -> Self {
        gate.name.into()
    }
}

fn owned(map: Map<'_, Cow<'_, str>>) -> Vec<(String, String)> {
    map.into_sorted()
        .into_iter()
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

impl From<WireToleration<'_>> for Toleration {
    fn from(wire: WireToleration<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            operator: wire.operator.into_owned(),
            value: wire.value.into_owned(),
            effect: wire.effect.into_owned(),
        }
    }
}

/// The most conditions of the affinity and the topology spread constraints of a pod in a request.
/// Each condition is compared with each node, as in kube-scheduler, or with each pod on the nodes;
/// usual pods have a few.
const MOST_CONDITIONS: usize = 1000;

/// Converts the pod of a request, and checks the number of its conditions.
///
/// # Errors
/// The pod has more than `MOST_CONDITIONS` conditions: one such pod would keep a thread for
/// seconds.
pub(crate) fn asked_about(wire: Placed<WirePod<'_>>, cursor: &Cursor<'_>) -> Result<Pod> {
    let pod = wire.into_pod(cursor);
    let required = pod.required.terms.iter().flatten();
    let preferred = pod.preferred.iter().map(|term| &term.preference);
    let conditions = required
        .chain(preferred)
        .map(|term| term.match_expressions.len() + term.match_fields.len());
    let of_pods = pod
        .details()
        .map_or(0, |details| details.template.conditions());
    if conditions.sum::<usize>() + of_pods > MOST_CONDITIONS {
        return Err(WireError::new(0, Problem::Unusable(TOO_MANY)));
    }
    Ok(pod)
}

const TOO_MANY: &str = "a pod whose affinity and topology spread have more than 1000 conditions";

#[cfg(test)]
pub(crate) fn parsed(bytes: &[u8]) -> Result<Pod> {
    use super::decode::Decode;

    let mut wire = WirePod::default();
    wire.decode(&mut Cursor::new(bytes)?)?;
    Ok(wire.into())
}
