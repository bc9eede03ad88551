//! Reading a v1.Pod: the fields that plugins read, the rest passed over.

use std::borrow::Cow;
use std::sync::Arc;

use super::affinity::Affinity;
use super::container::{Resources, Statuses, WireContainer, WireContainerStatus, held};
use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, converted, decode_struct};
use super::quantity::WireQuantity;
use super::time::WireTime;
use crate::labels::{RequiredNodeAffinity, Toleration};
use crate::pod::{ContainerResources, Missing, Pod, PodResources, Word, qos_class, word};

#[derive(Debug, Default)]
pub(crate) struct WirePod<'a> {
    pub(crate) metadata: PodMeta<'a>,
    spec: PodSpec<'a>,
    status: PodStatus<'a>,
}

#[derive(Debug, Default)]
pub(crate) struct PodMeta<'a> {
    pub(crate) name: Cow<'a, str>,
    namespace: Cow<'a, str>,
    uid: Cow<'a, str>,
    pub(crate) resource_version: Cow<'a, str>,
    generation: i64,
    creation_timestamp: WireTime<'a>,
    deletion_timestamp: Option<WireTime<'a>>,
    labels: Map<'a, Cow<'a, str>>,
    annotations: Map<'a, Cow<'a, str>>,
}

#[derive(Debug, Default)]
struct PodSpec<'a> {
    scheduler_name: Cow<'a, str>,
    node_name: Cow<'a, str>,
    priority: Option<i32>,
    node_selector: Map<'a, Cow<'a, str>>,
    tolerations: Slice<WireToleration<'a>>,
    affinity: Option<Affinity<'a>>,
    containers: Slice<WireContainer<'a>>,
    init_containers: Slice<WireContainer<'a>>,
    resources: Option<Resources<'a>>,
    overhead: Map<'a, WireQuantity>,
    scheduling_gates: Slice<Gate<'a>>,
}

#[derive(Debug, Default)]
struct Gate<'a> {
    name: Cow<'a, str>,
}

#[derive(Debug, Default)]
struct PodStatus<'a> {
    phase: Cow<'a, str>,
    qos_class: Cow<'a, str>,
    nominated_node_name: Cow<'a, str>,
    start_time: Option<WireTime<'a>>,
    conditions: Slice<Condition<'a>>,
    container_statuses: Slice<WireContainerStatus<'a>>,
    init_container_statuses: Slice<WireContainerStatus<'a>>,
    resources: Option<Resources<'a>>,
    allocated_resources: Map<'a, WireQuantity>,
}

#[derive(Debug, Default)]
struct Condition<'a> {
    kind: Cow<'a, str>,
    reason: Cow<'a, str>,
}

#[derive(Debug, Default)]
struct WireToleration<'a> {
    key: Cow<'a, str>,
    operator: Cow<'a, str>,
    value: Cow<'a, str>,
    effect: Cow<'a, str>,
}

impl<'a> Decode<'a> for WirePod<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "metadata" => self.metadata,
            "spec" => self.spec,
            "status" => self.status,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for PodMeta<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "name" => self.name,
            "namespace" => self.namespace,
            "uid" => self.uid,
            "resourceVersion" => self.resource_version,
            "generation" => self.generation,
            "creationTimestamp" => self.creation_timestamp,
            "deletionTimestamp" => self.deletion_timestamp,
            "labels" => self.labels,
            "annotations" => self.annotations,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for PodSpec<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "schedulerName" => self.scheduler_name,
            "nodeName" => self.node_name,
            "priority" => self.priority,
            "nodeSelector" => self.node_selector,
            "tolerations" => self.tolerations,
            "affinity" => self.affinity,
            "containers" => self.containers,
            "initContainers" => self.init_containers,
            "resources" => self.resources,
            "overhead" => self.overhead,
            "schedulingGates" => self.scheduling_gates,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for Gate<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, { "name" => self.name }).map(drop)
    }
}

impl<'a> Decode<'a> for PodStatus<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "phase" => self.phase,
            "qosClass" => self.qos_class,
            "nominatedNodeName" => self.nominated_node_name,
            "startTime" => self.start_time,
            "conditions" => self.conditions,
            "containerStatuses" => self.container_statuses,
            "initContainerStatuses" => self.init_container_statuses,
            "resources" => self.resources,
            "allocatedResources" => self.allocated_resources,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for Condition<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "type" => self.kind,
            "reason" => self.reason,
        })
        .map(drop)
    }
}

impl<'a> Decode<'a> for WireToleration<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "key" => self.key,
            "operator" => self.operator,
            "value" => self.value,
            "effect" => self.effect,
        })
        .map(drop)
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
            .and_then(|affinity| affinity.node_affinity)
            .unwrap_or_default();
        let conditions = status.conditions.into_vec();
        let mut statuses = Statuses::of(status.container_statuses, status.init_container_statuses);
        let (asked, containers) = statuses.joined_with(spec.containers);
        let (asked_first, init_containers) = statuses.joined_with(spec.init_containers);
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
            requests: resources.requests().amounts(),
            overhead: resources.overhead.amounts(),
            scheduling_gates: converted(spec.scheduling_gates).into(),
            phase: word(&status.phase),
            qos_class: match &*status.qos_class {
                "" => qos_class(&resources),
                given => word(given),
            },
            scheduled_reason: scheduled_reason(&conditions),
            nominated_node_name: status.nominated_node_name.into(),
            start_time: status.start_time.map(|time| time.0.into()),
            missing: Missing::default(),
        }
    }
}

/// Whether the first word on a pending resize is that the node cannot do it.
fn resize_refused(conditions: &[Condition<'_>]) -> bool {
    reason_of("PodResizePending", conditions) == Some("Infeasible")
}

/// What the API server or kube-scheduler last said of the pod's way to a node.
fn scheduled_reason(conditions: &[Condition<'_>]) -> Word {
    word(reason_of("PodScheduled", conditions).unwrap_or_default())
}

fn reason_of<'a>(kind: &str, conditions: &'a [Condition<'_>]) -> Option<&'a str> {
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

#[cfg(test)]
pub(crate) fn parsed(bytes: &[u8]) -> Result<Pod> {
    let mut wire = WirePod::default();
    wire.decode(&mut Cursor::new(bytes)?)?;
    Ok(wire.into())
}
